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
	names := map[uint64]string{} // by inode
	err := scan(func(m marked, h netns.NsHandle) bool {
		if m.ours(lab) {
			r = append(r, namespace{name: m.name, handle: h})
			out.Namespaces, names[m.inode] = append(out.Namespaces, m.name), m.name
		}
		return m.ours(lab)
	})
	defer r.close()
	if err != nil {
		return out, fmt.Errorf("remove lab %s: %w", lab, err)
	}
	if out.Held, err = lastHolders(ctx, names, opt.Leave); err == nil {
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
	if opt.Leave || len(out.Held) == 0 {
		return out, nil
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(out.Held)) {
		parts = append(parts, fmt.Sprintf("%s (pid %s)", name, strings.Trim(fmt.Sprint(out.Held[name]), "[]")))
	}
	return out, fmt.Errorf("remove lab %s: the names are gone, but processes still live in %s: end them", lab, strings.Join(parts, ", "))
}

// removal is a set of namespaces to be removed, held open so that all can
// be dropped at one instant: the kernel removes all that wait as one batch.
type removal []namespace

// close drops the namespaces; closing twice is harmless.
func (r removal) close() {
	for i := range r {
		r[i].close()
	}
}

// clear removes the links and the mark from the namespaces that continue to exist: their
// neighbours may exist too, and what is left belongs to no lab.
func (r removal) clear(held map[string][]int) error {
	return onThread(func() error {
		var errs []error
		for i := range r {
			if len(held[r[i].name]) > 0 {
				errs = append(errs, r[i].clear())
			}
		}
		return errors.Join(errs...)
	})
}

// clear works on onThread's thread. It leaves what other programs have put into
// the namespace.
func (n *namespace) clear() error {
	if err := n.enter(); err != nil {
		return err
	}
	var err error
	if n.conn, err = rtnl.Open(); err != nil {
		return n.wrap(err)
	}
	links, err := dumpLinks(n.conn)
	if err != nil {
		return n.wrap(err)
	}
	var b rtnl.Batch
	for _, l := range links {
		if !strings.HasPrefix(l.hardware, hardwarePrefix) {
			continue
		}
		b.Reset()
		b.Begin(unix.RTM_DELLINK, 0, "delete", l.name)
		ifinfo(&b, l.index, 0)
		if err := n.conn.Exec(&b); err != nil && !errors.Is(err, unix.ENODEV) { // removed together with its other end
			return n.wrap(err)
		}
	}
	b.Reset()
	b.Begin(unix.RTM_SETLINK, 0, "take the mark off", "lo")
	ifinfo(&b, loIndex, 0)
	b.AttrString(unix.IFLA_IFALIAS, "")
	return n.wrap(n.conn.Exec(&b))
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

// holders finds processes inside namespaces, which names has by inode. It skips processes
// that end meanwhile or that belong to other namespaces by then.
func holders(names map[uint64]string) (map[string][]int, error) {
	held := map[string][]int{}
	if len(names) == 0 {
		return held, nil
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
func lastHolders(ctx context.Context, names map[uint64]string, leave bool) (map[string][]int, error) {
	const moment, pause = time.Second, 20 * time.Millisecond
	for start := time.Now(); ; {
		held, err := holders(names)
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

// wait gives the kernel time enough: a thousand links take a second on a busy host.
func (w *watch) wait(ctx context.Context) error {
	held := errors.New("an open descriptor or socket somewhere holds a namespace")
	ctx, cancel := context.WithTimeoutCause(ctx, 15*time.Second, held)
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
	for _, n := range spaces {
		if n.made.mount {
			r = append(r, n) // which owns the handles now
			if n.adopt != "" {
				others[n.name] = []int{0}
			}
			continue
		}
		if n.made.file {
			files = append(files, n.name)
		}
		n.close()
	}
	return errors.Join(removeNames(files), r.release(ctx, others))
}
