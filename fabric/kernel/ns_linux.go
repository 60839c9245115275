package kernel

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

const threadNetns = "/proc/thread-self/ns/net"

// namespace is one node's namespace, held open by a descriptor and a socket.
type namespace struct {
	name string // in NetnsDir: LAB.NODE
	node string
	fd   int
	conn *rtnl.Conn
	// adopt is the path of a namespace that is to become this node's; empty: make one.
	adopt string
	// made is what this process created under the name, and so may undo.
	made struct{ file, mount bool }
}

// close lets go of the namespace; closing twice is harmless.
func (n *namespace) close() {
	if n.conn != nil {
		_ = n.conn.Close() // a netlink socket has nothing to flush
		n.conn = nil
	}
	if n.fd >= 0 {
		_ = unix.Close(n.fd)
		n.fd = -1
	}
}

// onThread runs fn on a locked thread whose network namespace fn may change,
// and waits for it. The thread goes back to the namespace it came from; if
// that fails it dies with the goroutine and runs nothing else.
func onThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := unix.Open(threadNetns, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("open %s: %w", threadNetns, err)
			return
		}
		result := fmt.Errorf("the function left its goroutine")
		defer func() {
			// Also reached by runtime.Goexit in fn, as a failing test does.
			if err := unix.Setns(home, unix.CLONE_NEWNET); err == nil || isHome(home) {
				runtime.UnlockOSThread()
			} else if result == nil {
				result = fmt.Errorf("return to the own network namespace: %w", err)
			}
			_ = unix.Close(home)
			done <- result
		}()
		result = fn()
	}()
	return <-done
}

// isHome reports whether the calling thread is still where it came from: a
// caller without rights can neither leave nor "return".
func isHome(home int) bool {
	var a, b unix.Stat_t
	return unix.Fstat(home, &a) == nil && unix.Stat(threadNetns, &b) == nil && a.Ino == b.Ino && a.Dev == b.Dev
}

// enter moves the calling thread, which must be onThread's, into a namespace.
func enter(fd int, name string) error {
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter namespace %s: %w", name, err)
	}
	return nil
}
