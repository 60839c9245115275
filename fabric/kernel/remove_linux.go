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

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// Remove removes a lab: every namespace that carries its mark, with its contents,
// and empty plain files that an interrupted Apply left. When it
// returns, names, mounts and links are gone. It needs no plan. If there is nothing to
// remove, that is success. Close every Fabric of the lab and end its processes
// first. A namespace in which a process still runs continues to exist, without its
// name, its mark and its links (see Removed.Held).
func Remove(ctx context.Context, lab string, opt Options) (Removed, error) {
	var out Removed
	if err := checkLab(lab); err != nil {
		return out, err
	}
	var r removal
	err := scan(func(m marked, h netns.NsHandle) bool {
		if m.ours(lab) {
			r = append(r, removed{m.name, h, m.inode})
			out.Namespaces = append(out.Namespaces, m.name)
		}
		return m.ours(lab)
	})
	defer r.close()
	if err != nil {
		return out, fmt.Errorf("remove lab %s: %w", lab, err)
	}
	if out.Held, err = r.lastHolders(ctx, opt.Leave); err == nil {
		err = errors.Join(r.clear(out.Held), r.release(ctx, out.Held))
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

// removal is a set of namespaces to be removed, held open so that all can
// be dropped at one instant: the kernel removes all that wait as one batch.
type removal []removed

type removed struct {
	name   string
	handle netns.NsHandle
	inode  uint64
}

// close drops the namespaces; closing twice is harmless.
func (r removal) close() {
	for i := range r {
		if r[i].handle.IsOpen() {
			_ = r[i].handle.Close()
		}
	}
}

// clear removes the links and the mark from the namespaces that continue to exist: their
// neighbours may exist too, and what is left belongs to no lab.
func (r removal) clear(held map[string][]int) error {
	return onThread(func() error {
		var errs []error
		for _, n := range r {
			if len(held[n.name]) > 0 {
				errs = append(errs, clearNamespace(&namespace{name: n.name, handle: n.handle}))
			}
		}
		return errors.Join(errs...)
	})
}

// clearNamespace works on onThread's thread. It leaves what other programs have put into
// the namespace.
func clearNamespace(n *namespace) (err error) {
	if err := enter(n.handle, n.name); err != nil {
		return err
	}
	c, err := rtnl.Open()
	if err != nil {
		return n.wrap(err)
	}
	defer func() { _ = c.Close() }()
	links, err := dumpLinks(c)
	if err != nil {
		return n.wrap(err)
	}
	for _, l := range links {
		if !strings.HasPrefix(l.hardware, hardwarePrefix) {
			continue
		}
		var b rtnl.Batch
		b.Begin(unix.RTM_DELLINK, 0, "delete", l.name)
		ifinfo(&b, l.index, 0)
		if err := c.Exec(&b); err != nil && !errors.Is(err, unix.ENODEV) { // removed together with its other end
			return n.wrap(err)
		}
	}
	var b rtnl.Batch
	b.Begin(unix.RTM_SETLINK, 0, "take the mark off", "lo")
	ifinfo(&b, loIndex, 0)
	b.AttrString(unix.IFLA_IFALIAS, "")
	return n.wrap(c.Exec(&b))
}

// release unmounts and deletes the names, drops the namespaces and waits until
// the kernel has taken them apart. Namespaces in held are dropped but not waited for.
func (r removal) release(ctx context.Context, held map[string][]int) error {
	defer r.close()
	var names []string
	watched := -1
	for i, n := range r {
		names = append(names, n.name)
		if len(held[n.name]) == 0 {
			watched = i
		}
	}
	if watched < 0 {
		return removeNames(names)
	}
	// The kernel removes namespaces in the order in which they were dropped, so the
	// one to watch is dropped last.
	last := len(r) - 1
	r[watched], r[last] = r[last], r[watched]
	w, err := newWatch(r[last].handle)
	if err != nil {
		return err
	}
	defer w.close()
	if err := removeNames(names); err != nil {
		return err
	}
	r.close()
	return w.wait(ctx)
}

// removeNames unmounts and deletes names in NetnsDir. Each unmount waits for a
// grace period of the kernel, so two threads take nearly half the time.
func removeNames(names []string) error {
	var g errgroup.Group
	g.SetLimit(defaultWorkers)
	errs := make([]error, len(names)) // each name is tried
	for i, name := range names {
		g.Go(func() error {
			errs[i] = removeName(filepath.Join(NetnsDir, name))
			return nil
		})
	}
	_ = g.Wait()
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

// holders finds processes inside the namespaces, by name. It skips processes that end
// meanwhile or that belong to other namespaces by then.
func (r removal) holders() (map[string][]int, error) {
	held := map[string][]int{}
	if len(r) == 0 {
		return held, nil
	}
	names := map[uint64]string{}
	for _, n := range r {
		names[n.inode] = n.name
	}
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	for _, e := range processes {
		var st unix.Stat_t
		pid, err := strconv.Atoi(e.Name())
		if err != nil || unix.Stat("/proc/"+e.Name()+"/ns/net", &st) != nil {
			continue
		}
		if name := names[st.Ino]; name != "" {
			held[name] = append(held[name], pid)
		}
	}
	return held, nil
}

// lastHolders waits a moment for processes that are ending, unless they may stay.
func (r removal) lastHolders(ctx context.Context, leave bool) (map[string][]int, error) {
	const moment, pause = time.Second, 20 * time.Millisecond
	for start := time.Now(); ; {
		held, err := r.holders()
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

// watch reports when the kernel has removed a namespace: one end of a veth
// pair is in it, and when that end is destroyed, the other end disappears here.
type watch struct {
	// updates come over a socket, which alone keeps a namespace without a name alive.
	updates chan netlink.LinkUpdate
	done    chan struct{}
}

const watchName = "watch"

func newWatch(h netns.NsHandle) (*watch, error) {
	scratch, err := ns.TempNetNS()
	if err != nil {
		return nil, fmt.Errorf("make a namespace to watch from: %w", err)
	}
	defer func() { _ = scratch.Close() }()
	w := &watch{updates: make(chan netlink.LinkUpdate), done: make(chan struct{})}
	here := netns.NsHandle(scratch.Fd())
	if err := netlink.LinkSubscribeWithOptions(w.updates, w.done, netlink.LinkSubscribeOptions{Namespace: &here}); err != nil {
		return nil, fmt.Errorf("watch links: %w", err)
	}
	link := netlink.NewVeth(netlink.LinkAttrs{Name: watchName})
	link.PeerName, link.PeerNamespace = "netkvlab-gone", netlink.NsFd(h)
	if err := scratch.Do(func(ns.NetNS) error { return netlink.LinkAdd(link) }); err != nil {
		w.close()
		return nil, fmt.Errorf("create the link to watch: %w", err)
	}
	return w, nil
}

func (w *watch) close() {
	close(w.done)
	for range w.updates {
		continue // until the subscription has ended
	}
}

// goneTime is how long the kernel may take: a thousand links take a second on a busy
// host. If it takes longer, something holds the namespace.
const goneTime = 15 * time.Second

var errStillHeld = errors.New("an open descriptor or socket somewhere holds a namespace")

func (w *watch) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, goneTime, errStillHeld)
	defer cancel()
	for {
		select {
		case u, ok := <-w.updates:
			if !ok {
				return errors.New("the kernel stopped to report links")
			}
			if u.Header.Type == unix.RTM_DELLINK && u.Attrs().Name == watchName {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("the names are gone; wait for the kernel to take the links apart: %w", context.Cause(ctx))
		}
	}
}

// undo removes what this process made of these namespaces, and nothing else.
func undo(ctx context.Context, spaces []namespace) error {
	var r removal
	var files []string
	others := map[string][]int{} // the owner decides how long an adopted namespace exists
	for i := range spaces {
		n := &spaces[i]
		switch {
		case n.made.mount:
			if n.adopt != "" {
				others[n.name] = []int{0}
			}
			r = append(r, removed{name: n.name, handle: n.handle})
			n.handle = netns.None() // r owns the handle now
		case n.made.file:
			files = append(files, n.name)
		}
		n.close()
	}
	return errors.Join(removeNames(files), r.release(ctx, others))
}
