package nodes

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// inNetns runs f on a thread that is in the network namespace at path, in the
// way a process forked by f is born there. The thread comes back afterwards; one
// that cannot is left locked, so that it dies with its goroutine and no other
// work ever runs in the wrong namespace. (It is not simply thrown away each time:
// the process's first thread cannot die, and would stay in the lab.)
func inNetns(path string, f func() error) error {
	target, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open network namespace: %w", err)
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		if err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("open this thread's network namespace: %w", err)
			return
		}
		if err := unix.Setns(int(target.Fd()), unix.CLONE_NEWNET); err != nil {
			runtime.UnlockOSThread()
			done <- errors.Join(fmt.Errorf("enter network namespace %s: %w", path, err), home.Close())
			return
		}
		err = f()
		if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
			err = errors.Join(err, fmt.Errorf("return from network namespace %s: %w", path, back))
		} else {
			runtime.UnlockOSThread()
		}
		done <- errors.Join(err, home.Close())
	}()
	return errors.Join(<-done, target.Close())
}
