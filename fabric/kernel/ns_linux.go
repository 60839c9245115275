package kernel

import (
	"errors"
	"fmt"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

const threadNetns = "/proc/thread-self/ns/net"

// namespace is one node's namespace, held open by a handle and a socket.
type namespace struct {
	name   string // in NetnsDir: LAB.NODE
	node   string
	handle netns.NsHandle
	conn   *rtnl.Conn
	// adopt is the path of a namespace that is to become this node's; empty: make one.
	adopt string
	// made is what this process created under the name; it may undo only that.
	made struct{ file, mount bool }
}

// close frees the handles of the namespace; closing twice is harmless.
func (n *namespace) close() {
	if n.conn != nil {
		_ = n.conn.Close() // a netlink socket has nothing to flush
		n.conn = nil
	}
	if n.handle.IsOpen() {
		_ = n.handle.Close()
	}
}

// inside runs fn on a locked thread in the namespace at path, and waits for it. fn may
// move the thread on. The thread goes back to the namespace it came from; if that
// fails it dies with its goroutine and runs nothing else.
func inside(path string, fn func() error) error {
	result := errors.New("the function left its goroutine") // by runtime.Goexit, as a failing test does
	if err := ns.WithNetNSPath(path, func(ns.NetNS) error { result = fn(); return nil }); err != nil {
		return err
	}
	return result
}

// onThread is inside for the caller's own namespace: fn moves the thread. A caller
// without the right to do so gets EPERM.
func onThread(fn func() error) error {
	own, err := netns.Get()
	if err == nil {
		// The error of inside does not contain the errno.
		err = errors.Join(netns.Set(own), own.Close())
	}
	if err != nil {
		return fmt.Errorf("change the network namespace: %w", err)
	}
	return inside(threadNetns, fn)
}

// enter moves the calling thread, which must be onThread's, into a namespace.
func enter(h netns.NsHandle, name string) error {
	if err := netns.Set(h); err != nil {
		return fmt.Errorf("enter namespace %s: %w", name, err)
	}
	return nil
}

// inodeOf is the inode of a namespace: /proc/PID/ns/net of a process inside has the same.
func inodeOf(h netns.NsHandle, name string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(h), &st); err != nil {
		return 0, fmt.Errorf("stat namespace %s: %w", name, err)
	}
	return st.Ino, nil
}
