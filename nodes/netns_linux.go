package nodes

import (
	"fmt"

	"github.com/containernetworking/plugins/pkg/ns"
)

// inNetns runs f on a thread that is in the network namespace at path, in the
// way a process forked by f starts there. The thread comes back afterwards. If it
// cannot, it ends with its goroutine, so no other work ever runs in the wrong
// namespace. (It does not end each time, because the process's first thread
// cannot end and would stay in the lab.)
func inNetns(path string, f func() error) error {
	var result error
	if err := ns.WithNetNSPath(path, func(ns.NetNS) error { result = f(); return nil }); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", path, err)
	}
	return result
}
