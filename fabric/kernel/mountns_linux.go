package kernel

import (
	"fmt"
	"os"
)

// CheckMounts refuses a process whose namespaces would have names that nobody else sees:
// one in a mount namespace of its own that does not pass its mounts on to the first
// process's. Where /proc cannot tell, nothing is refused.
func CheckMounts() error {
	own, errOwn := os.ReadFile("/proc/self/mountinfo")
	first, errFirst := os.ReadFile("/proc/1/mountinfo")
	if errOwn != nil || errFirst != nil || visible(string(own), string(first)) {
		return nil
	}
	return fmt.Errorf("%s: %w", NetnsDir, errPrivateMounts)
}
