package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

const threadNetns = "/proc/thread-self/ns/net"

// namespace is one node's namespace, held open by a handle and a socket.
type namespace struct {
	name   string // in NetnsDir: LAB.NODE
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

// wrap names the namespace in an error; nil remains nil.
func (n *namespace) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("namespace %s: %w", n.name, err)
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

// enter moves the calling thread, which must be onThread's, into the namespace.
func (n *namespace) enter() error {
	if err := netns.Set(n.handle); err != nil {
		return fmt.Errorf("enter namespace %s: %w", n.name, err)
	}
	return nil
}

// marked is a namespace file and its mark; lab is empty when it has none.
type marked struct {
	name          string
	lab, id, node string
	inode         uint64
}

// ours reports whether the mark belongs to the name: a namespace of ours that
// someone bound to a second name is not ours under that one.
func (m marked) ours(lab string) bool { return m.lab == lab && m.name == m.lab+"."+m.node }

// parseMark reads "netkvlab/LAB/ID/NODE".
func parseMark(name, alias string) marked {
	m := marked{name: name}
	if parts := strings.Split(alias, "/"); len(parts) == 4 && parts[0] == markPrefix {
		m.lab, m.id, m.node = parts[1], parts[2], parts[3]
	}
	return m
}

// isNamespace reports whether a path is a mounted namespace.
func isNamespace(path string) bool { return ns.IsNSorErr(path) == nil }

// readMark opens a namespace file, enters it with the calling thread, which must be
// onThread's, and reads the mark. Files that are no network namespaces have none. The
// caller closes the handle.
func readMark(path string) (m marked, h netns.NsHandle, err error) {
	m, h = marked{name: filepath.Base(path)}, netns.None()
	if !isNamespace(path) {
		return m, h, nil
	}
	if h, err = netns.GetFromPath(path); errors.Is(err, unix.ENOENT) {
		return m, h, nil
	} else if err != nil {
		return m, h, fmt.Errorf("open %s: %w", path, err)
	}
	if err := netns.Set(h); errors.Is(err, unix.EINVAL) {
		return m, h, nil // a namespace of another type
	} else if err != nil {
		return m, h, fmt.Errorf("enter %s: %w", path, err)
	}
	alias, err := loAlias()
	if err != nil {
		return m, h, fmt.Errorf("%s: %w", path, err)
	}
	m = parseMark(m.name, alias)
	var st unix.Stat_t
	if err := unix.Fstat(int(h), &st); err != nil {
		return m, h, fmt.Errorf("stat namespace %s: %w", m.name, err)
	}
	m.inode = st.Ino
	return m, h, nil
}

// loAlias reads the alias of the loopback interface in the calling thread's namespace.
func loAlias() (string, error) {
	lo, err := netlink.LinkByIndex(loIndex)
	if err != nil {
		return "", fmt.Errorf("read the alias of lo: %w", err)
	}
	return lo.Attrs().Alias, nil
}

// scan calls fn for each named namespace that carries a mark, sorted by name. fn returns
// whether it takes over the handle. Namespaces that cannot be read are left out, because
// nothing shows that they are ours.
func scan(fn func(m marked, h netns.NsHandle) (taken bool)) error {
	entries, err := os.ReadDir(NetnsDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("list namespaces: %w", err)
	}
	if len(entries) == 0 {
		return nil // this needs no rights
	}
	err = onThread(func() error {
		for _, e := range entries {
			m, h, err := readMark(filepath.Join(NetnsDir, e.Name()))
			if (err != nil || m.lab == "" || !fn(m, h)) && h.IsOpen() {
				_ = h.Close()
			}
		}
		return nil
	})
	if errors.Is(err, unix.EPERM) {
		err = fmt.Errorf("%w (this needs root)", err)
	}
	return err
}

// Labs lists the labs that have at least one namespace, sorted.
func Labs() ([]string, error) {
	labs := []string{}
	err := scan(func(m marked, _ netns.NsHandle) bool {
		if m.ours(m.lab) {
			labs = append(labs, m.lab)
		}
		return false
	})
	slices.Sort(labs)
	return slices.Compact(labs), err
}

// Namespaces lists the namespaces that carry a lab's mark, sorted by name;
// empty when there are none.
func Namespaces(lab string) ([]Namespace, error) {
	if err := checkLab(lab); err != nil {
		return nil, err
	}
	spaces := []Namespace{}
	err := scan(func(m marked, _ netns.NsHandle) bool {
		if m.ours(lab) {
			spaces = append(spaces, Namespace{Name: m.name, Node: m.node, Path: filepath.Join(NetnsDir, m.name), Inode: m.inode})
		}
		return false
	})
	return spaces, err
}

// errPrivateMounts means that other programs would not see a lab.
var errPrivateMounts = errors.New("this process has mounts of its own (as under unshare -m, ip netns exec, or a service with private mounts), " +
	"and names of namespaces are mounts: no other program would find the lab's; " +
	"use the host's mounts, as in `nsenter --mount=/proc/1/ns/mnt netkvlab up SCENARIO`")

// CheckMounts refuses a process whose namespaces would have names that other programs do
// not see: it is in a separate mount namespace, which does not propagate its mounts to
// that of the first process. Where /proc does not show this, nothing is refused.
func CheckMounts() error {
	own, errOwn := os.ReadFile("/proc/self/mountinfo")
	first, errFirst := os.ReadFile("/proc/1/mountinfo")
	if errOwn == nil && errFirst == nil && !visible(string(own), string(first)) {
		return fmt.Errorf("%s: %w", NetnsDir, errPrivateMounts)
	}
	return nil
}

// mountPoint is a mount as in a line of mountinfo (proc(5)).
type mountPoint struct {
	id     string // the same in all mount namespaces
	path   string
	shared string // the peer group that sees what is mounted in it; empty: none does
}

// mountPoints reads a mountinfo file. It skips lines that it does not understand: some file systems
// put spaces into their options, at which procfs refuses the whole file.
func mountPoints(info string) (all []mountPoint) {
	for line := range strings.Lines(info) {
		f := strings.Fields(line)
		if len(f) < 7 {
			continue
		}
		m := mountPoint{id: f[0], path: f[4]}
		for _, optional := range f[6:] {
			if optional == "-" {
				break
			}
			if group, ok := strings.CutPrefix(optional, "shared:"); ok {
				m.shared = group
			}
		}
		all = append(all, m)
	}
	return all
}

// visible reports whether the first process sees what this one mounts in NetnsDir. By their
// mountinfo (proc(5)), they must have the same mount there, or two mounts of one peer
// group.
func visible(own, first string) bool {
	var mine *mountPoint // that contains the folder: the last of several at one path
	for _, m := range mountPoints(own) {
		inside := m.path == NetnsDir || m.path == "/" || strings.HasPrefix(NetnsDir, m.path+"/")
		if inside && (mine == nil || len(m.path) >= len(mine.path)) {
			mine = &m
		}
	}
	if mine == nil {
		return true // this is unknown; the root folder may be no mount
	}
	return slices.ContainsFunc(mountPoints(first), func(m mountPoint) bool {
		return m.id == mine.id || m.shared != "" && m.shared == mine.shared
	})
}
