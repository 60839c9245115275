package nodes

import (
	"fmt"

	"github.com/containernetworking/plugins/pkg/ns"
)

// inNetns runs f on a thread that is in the network namespace at path, in the
// way a process forked by f is born there. The thread comes back afterwards; one
// that cannot dies with its goroutine, so that no other work ever runs in the wrong
// namespace. (It is not simply thrown away each time: the process's first thread
// cannot die, and would stay in the lab.)
func inNetns(path string, f func() error) error {
	var result error
	if err := ns.WithNetNSPath(path, func(ns.NetNS) error { result = f(); return nil }); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", path, err)
	}
	return result
}
