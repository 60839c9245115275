package kernel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// Remove takes a lab away: every namespace that carries its mark, whatever is
// in them, and empty plain files that an interrupted Apply left. When it
// returns, names, mounts and links are gone. It needs no plan; removing what
// is not there is success. Close every Fabric of the lab and end its processes
// first. A namespace lives on while something is inside, without its name, its
// mark and its links (see Removed.Held).
func Remove(ctx context.Context, lab string, opt Options) (Removed, error) {
	var out Removed
	if err := checkLab(lab); err != nil {
		return out, err
	}
	all, err := scan()
	if err != nil {
		return out, fmt.Errorf("remove lab %s: %w", lab, err)
	}
	var names []string
	for _, m := range all {
		if m.ours(lab) {
			names = append(names, m.name)
		}
	}
	set, err := openSet(lab, names)
	if err != nil {
		return out, fmt.Errorf("remove lab %s: %w", lab, err)
	}
	out.Namespaces = set.names
	out.Held, err = lastHolders(ctx, set.byInode, opt.Leave)
	if err == nil {
		err = errors.Join(set.clear(out.Held), set.release(ctx, out.Held))
	} else {
		set.close()
	}
	files, fileErr := removeFiles(lab, opt.Planned)
	out.Files = files
	if len(files) > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("deleted %d empty files in %s where an interrupted \"up\" was about to mount namespaces", len(files), NetnsDir))
	}
	if err = errors.Join(err, fileErr); err != nil {
		return out, fmt.Errorf("remove lab %s: %w", lab, err)
	}
	if opt.Leave {
		return out, nil
	}
	return out, heldError(lab, out.Held)
}

func heldError(lab string, held map[string][]int) error {
	if len(held) == 0 {
		return nil
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(held)) {
		parts = append(parts, fmt.Sprintf("%s (pid %s)", name, strings.Trim(fmt.Sprint(held[name]), "[]")))
	}
	return fmt.Errorf("remove lab %s: the names are gone, but processes still live in %s: end them", lab, strings.Join(parts, ", "))
}

// removal is a set of namespaces about to be removed, held open so that all can
// be dropped at one instant: the kernel takes what waits as one batch.
type removal struct {
	names   []string
	fds     []int
	byInode map[uint64]string
}

// openSet opens namespaces by name and checks the mark again on what was
// opened: a name may have changed hands since the scan.
func openSet(lab string, names []string) (*removal, error) {
	d := &removal{byInode: map[uint64]string{}}
	err := onThread(func() error {
		for _, name := range names {
			path := filepath.Join(NetnsDir, name)
			fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if errors.Is(err, unix.ENOENT) {
				continue
			}
			if err != nil {
				return fmt.Errorf("open %s: %w", path, err)
			}
			m, err := readMarkFd(fd, path)
			if err != nil || !m.ours(lab) {
				_ = unix.Close(fd)
				if err != nil {
					return err
				}
				continue
			}
			if err := d.add(name, fd); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// add takes over a descriptor.
func (d *removal) add(name string, fd int) error {
	d.names, d.fds = append(d.names, name), append(d.fds, fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat namespace %s: %w", name, err)
	}
	d.byInode[st.Ino] = name
	return nil
}

func (d *removal) close() {
	for _, fd := range d.fds {
		_ = unix.Close(fd)
	}
	d.fds = nil
}

// clear takes the links and the mark out of the namespaces that live on: their
// neighbours may live on, too, and what is left is nobody's lab.
func (d *removal) clear(held map[string][]int) error {
	return onThread(func() error {
		var errs []error
		for i, name := range d.names {
			if len(held[name]) > 0 {
				errs = append(errs, clearNamespace(d.fds[i], name))
			}
		}
		return errors.Join(errs...)
	})
}

// clearNamespace works on onThread's thread. What somebody else has put into the
// namespace stays.
func clearNamespace(fd int, name string) error {
	if err := enter(fd, name); err != nil {
		return err
	}
	c, err := rtnl.Open()
	if err != nil {
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	defer func() { _ = c.Close() }()
	links, err := dumpLinks(c)
	if err != nil {
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	for _, l := range links {
		if !strings.HasPrefix(l.hardware, hardwarePrefix) {
			continue
		}
		var b rtnl.Batch
		b.Begin(unix.RTM_DELLINK, 0, "delete", l.name)
		ifinfo(&b, l.index, 0)
		if err := c.Exec(&b); err != nil && !errors.Is(err, unix.ENODEV) { // its other end took it along
			return fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	var b rtnl.Batch
	b.Begin(unix.RTM_SETLINK, 0, "take the mark off", "lo")
	ifinfo(&b, loIndex, 0)
	b.AttrString(unix.IFLA_IFALIAS, "")
	if err := c.Exec(&b); err != nil {
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	return nil
}

// release unmounts and deletes the names, drops the namespaces and waits until
// the kernel has taken them apart. Namespaces in held are dropped but not waited for.
func (d *removal) release(ctx context.Context, held map[string][]int) error {
	defer d.close()
	watched := -1
	for i, name := range d.names {
		if len(held[name]) == 0 {
			watched = i
		}
	}
	var w *watch
	if watched >= 0 {
		// The kernel takes namespaces in the order they were dropped, so the
		// one to watch is dropped last.
		last := len(d.names) - 1
		d.names[watched], d.names[last] = d.names[last], d.names[watched]
		d.fds[watched], d.fds[last] = d.fds[last], d.fds[watched]
		var err error
		if w, err = newWatch(d.fds[last]); err != nil {
			return err
		}
		defer w.close()
	}
	err := removeNames(d.names)
	slices.Sort(d.names)
	d.close()
	if err != nil || w == nil {
		return err
	}
	return w.wait(ctx)
}

// removeNames unmounts and deletes names in NetnsDir. Each unmount waits for a
// grace period of the kernel, so two threads take nearly half the time.
func removeNames(names []string) error {
	var g errgroup.Group
	g.SetLimit(defaultWorkers)
	errs := make([]error, len(names))
	for i, name := range names {
		g.Go(func() error {
			errs[i] = removeName(filepath.Join(NetnsDir, name))
			return nil
		})
	}
	_ = g.Wait() // errors are in errs: each name is tried
	return errors.Join(errs...)
}

func removeName(path string) error {
	if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil &&
		!errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	if err := unix.Unlink(path); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("delete %s: %w", path, err)
	}
	return nil
}

// removeFiles deletes plain empty files where a namespace of the lab was to be
// mounted: named LAB.NODE, whether a journal announced them or not.
func removeFiles(lab string, planned []string) ([]string, error) {
	entries, err := os.ReadDir(NetnsDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	var removed []string
	var errs []error
	for _, e := range entries {
		node, ok := strings.CutPrefix(e.Name(), lab+".")
		if !ok || (!nodeName.MatchString(node) && !slices.Contains(planned, e.Name())) {
			continue
		}
		path := filepath.Join(NetnsDir, e.Name())
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() || info.Size() != 0 || isNamespace(path) {
			continue
		}
		// Unlinking fails on a mount point, should one have appeared by now.
		if err := unix.Unlink(path); err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("delete %s: %w", path, err))
			continue
		}
		removed = append(removed, e.Name())
	}
	return removed, errors.Join(errs...)
}

// holders finds processes inside namespaces, by inode. Processes that end or
// belong to others while we look are passed over.
func holders(byInode map[uint64]string) (map[string][]int, error) {
	held := map[string][]int{}
	if len(byInode) == 0 {
		return held, nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if unix.Stat("/proc/"+e.Name()+"/ns/net", &st) != nil {
			continue
		}
		if name := byInode[st.Ino]; name != "" {
			held[name] = append(held[name], pid)
		}
	}
	return held, nil
}

// lastHolders gives processes that were told to end a moment to do so, unless they may stay.
func lastHolders(ctx context.Context, byInode map[uint64]string, leave bool) (map[string][]int, error) {
	const moment, pause = time.Second, 20 * time.Millisecond
	for start := time.Now(); ; {
		held, err := holders(byInode)
		if err != nil || len(held) == 0 || leave || time.Since(start) > moment {
			return held, err
		}
		select {
		case <-ctx.Done():
			return held, nil
		case <-time.After(pause):
		}
	}
}

// watch tells when the kernel has taken a namespace apart: one end of a veth
// pair lies in it, and when that is destroyed the other end vanishes here.
type watch struct {
	conn *rtnl.Conn // the only hold on a namespace without a name
}

const watchIndex = loIndex + 1

func newWatch(fd int) (*watch, error) {
	w := &watch{}
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a namespace to watch from: %w", err)
		}
		var err error
		if w.conn, err = rtnl.Open(unix.RTNLGRP_LINK); err != nil {
			return err
		}
		var b rtnl.Batch
		b.Begin(unix.RTM_NEWLINK, createNew, "create the link to watch", "")
		ifinfo(&b, watchIndex, 0)
		b.AttrString(unix.IFLA_IFNAME, "watch")
		b.Nest(unix.IFLA_LINKINFO)
		b.AttrString(unix.IFLA_INFO_KIND, "veth")
		b.Nest(unix.IFLA_INFO_DATA)
		b.Nest(vethInfoPeer)
		ifinfo(&b, 0, 0)
		b.AttrString(unix.IFLA_IFNAME, "netkvlab-gone")
		b.AttrU32(unix.IFLA_NET_NS_FD, uint32(fd))
		return w.conn.Exec(&b)
	})
	if err != nil && w.conn != nil {
		w.close()
	}
	return w, err
}

func (w *watch) close() { _ = w.conn.Close() }

const (
	// pollMillis is how often a wait looks at its context.
	pollMillis = 50
	// goneTime is how long the kernel may take: a second for a thousand links
	// on a busy host. What takes longer is held by something.
	goneTime = 15 * time.Second
)

var errStillHeld = errors.New("an open descriptor or socket somewhere holds a namespace")

func (w *watch) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, goneTime, errStillHeld)
	defer cancel()
	for gone := false; !gone; {
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("the names are gone; wait for the kernel to take the links apart: %w", err)
		}
		err := w.conn.Listen(pollMillis, func(m rtnl.Message) {
			gone = gone || m.Type == unix.RTM_DELLINK && rtnl.U32(m.Payload, 4) == watchIndex
		})
		if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.ENOBUFS) {
			return err
		}
		// An event may have been lost or come before we listened.
		if !gone && err != nil {
			links, err := dumpLinks(w.conn)
			if err != nil {
				return err
			}
			gone = len(links) <= 1
		}
	}
	return nil
}

// undo removes what this Apply made, and nothing else.
func (f *Fabric) undo(ctx context.Context) error {
	d := &removal{byInode: map[uint64]string{}}
	var files []string
	var errs []error
	others := map[string][]int{} // what is adopted lives on as long as its owner wants
	for i := range f.ns {
		ns := &f.ns[i]
		switch {
		case ns.made.mount:
			if ns.adopt != "" {
				others[ns.name] = []int{0}
			}
			fd := ns.fd
			ns.fd = -1 // now d's
			errs = append(errs, d.add(ns.name, fd))
		case ns.made.file:
			files = append(files, ns.name)
		}
		ns.close()
	}
	errs = append(errs, removeNames(files), d.release(ctx, others))
	return errors.Join(errs...)
}
