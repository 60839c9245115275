package kernel

import (
	"fmt"
	"os"
)

// CheckMounts refuses a process whose namespaces would have names that other programs do
// not see: it is in a separate mount namespace, which does not propagate its mounts to
// that of the first process. Where /proc does not show this, nothing is refused.
func CheckMounts() error {
	own, errOwn := os.ReadFile("/proc/self/mountinfo")
	first, errFirst := os.ReadFile("/proc/1/mountinfo")
	if errOwn != nil || errFirst != nil || visible(string(own), string(first)) {
		return nil
	}
	return fmt.Errorf("%s: %w", NetnsDir, errPrivateMounts)
}
