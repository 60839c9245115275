package kernel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// loIndex is the loopback's interface index in every namespace; ports follow it.
const loIndex = 1

// defaultWorkers create namespaces. This is the only step of bring-up that gains from a
// second thread (a tenth of the whole, measured on two cores), because the
// kernel serialises links, addresses and routes.
const defaultWorkers = 2

// newID is a lab's random identity, which distinguishes two labs of the same name.
func newID() string { return fmt.Sprintf("%016x", rand.Uint64()) }

// mark is the alias that names a namespace's lab and node.
func mark(lab, id, node string) string { return strings.Join([]string{markPrefix, lab, id, node}, "/") }

// build makes everything in the fastest order: links need both
// namespaces, shaping must precede raising (replacing the qdisc of a raised
// link costs a grace period), routes need both ends up.
func (f *Fabric) build(ctx context.Context, workers int) error {
	if err := createNamespaces(ctx, f, workers); err != nil {
		return err
	}
	w := wiring{f: f}
	for _, step := range []func(n *fabric.Node){w.links, w.ports, w.routes} {
		for i := range f.ns {
			if err := ctx.Err(); err != nil {
				return err
			}
			w.Reset()
			step(&f.plan.Nodes[i])
			if err := f.ns[i].wrap(f.ns[i].conn.Exec(&w.Batch)); err != nil {
				return err
			}
		}
	}
	return awaitCarrier(ctx, f)
}

// createNamespaces makes the namespaces of all nodes. On an error the caller
// must still release those whose handle is open or whose name is in place.
func createNamespaces(ctx context.Context, f *Fabric, workers int) error {
	if workers <= 0 {
		workers = defaultWorkers
	}
	if err := prepareFolder(); err != nil {
		return err
	}
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range workers {
		g.Go(func() error {
			return onThread(func() error {
				for i := next.Add(1) - 1; i < int64(len(f.ns)); i = next.Add(1) - 1 {
					if err := ctx.Err(); err != nil {
						return err
					}
					if err := f.ns[i].create(f, &f.plan.Nodes[i]); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	return g.Wait()
}

// awaitCarrier waits until every port has its carrier. The end that is raised first gets
// its carrier, and with it its qdisc, a moment later from a kernel worker. Until then
// it drops every packet.
func awaitCarrier(ctx context.Context, f *Fabric) error {
	missing := errors.New("the kernel does not report a carrier on every port")
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, missing) // usually all events take a millisecond
	defer cancel()
	for i := range f.ns {
		ports := f.plan.Ports[i]
		for wait := 50 * time.Microsecond; ; wait = min(2*wait, 10*time.Millisecond) {
			up, err := f.ns[i].carrying(f.plan, ports)
			if err != nil {
				return err
			}
			if up >= len(ports) {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("namespace %s: %d of %d ports: %w", f.ns[i].name, up, len(ports), context.Cause(ctx))
			case <-time.After(wait):
			}
		}
	}
	return nil
}

// carrying counts the ports that can send. It asks for each port separately,
// because RTM_GETLINK first flushes a pending carrier event (Linux 6.9 and later). The
// kernel's worker handles 100 to 200 events per second once more are waiting than it takes
// at a time, so a busy host would wait ten seconds for a fabric of 1800 ports.
func (n *namespace) carrying(plan *fabric.Plan, ports []*fabric.Port) (up int, err error) {
	var b rtnl.Batch
	for _, port := range ports {
		b.Begin(unix.RTM_GETLINK, 0, "look at", port.Name)
		ifinfo(&b, ifindexOf(plan, port), 0)
	}
	err = n.conn.Query(&b, func(_ int, payload []byte) {
		if l := parseLink(payload); l.carries() {
			up++
		}
	})
	return up, n.wrap(err)
}

// prepareFolder makes NetnsDir a shared mount of itself, as "ip netns add" does.
// Otherwise the first "ip netns add" after Apply would do it and copy our mounts under
// the new mount, where no unmount reaches them. The lock is iproute2's.
func prepareFolder() error {
	if err := os.MkdirAll(NetnsDir, 0o755); err != nil {
		return fmt.Errorf("make the namespace folder: %w", err)
	}
	fd, err := unix.Open(NetnsDir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", NetnsDir, err)
	}
	defer func() { _ = unix.Close(fd) }() // and with it the lock
	if err := unix.Flock(fd, unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", NetnsDir, err)
	}
	share := func() error { return unix.Mount("", NetnsDir, "none", unix.MS_SHARED|unix.MS_REC, "") }
	err = share()
	if errors.Is(err, unix.EINVAL) { // not a mount point yet
		if err = unix.Mount(NetnsDir, NetnsDir, "none", unix.MS_BIND|unix.MS_REC, ""); err == nil {
			err = share()
		}
	}
	if err != nil {
		return fmt.Errorf("make %s a shared mount: %w", NetnsDir, err)
	}
	return nil
}

// create leaves the calling thread in a node's namespace, new or adopted.
// The order matters: first the file that a journal announced, then the mark, then the
// namespace's name, so no named namespace is ever unmarked.
func (n *namespace) create(f *Fabric, node *fabric.Node) error {
	path := filepath.Join(NetnsDir, n.name)
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EEXIST) {
		return inUse(f.lab, path)
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	_ = unix.Close(fd)
	n.made.file = true
	if err := n.occupy(); err != nil {
		return err
	}
	if err := writeSysctls(sysctls(f.plan, node, f.features)...); err != nil {
		return n.wrap(err)
	}
	var b rtnl.Batch
	b.Begin(unix.RTM_SETLINK, 0, "mark and raise", "lo")
	ifinfo(&b, loIndex, unix.IFF_UP)
	b.AttrString(unix.IFLA_IFALIAS, mark(f.lab, f.id, node.Name))
	if err := n.conn.Exec(&b); err != nil {
		return n.wrap(err)
	}
	if err := unix.Mount(threadNetns, path, "none", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount namespace %s: %w", n.name, err)
	}
	n.made.mount = true
	return nil
}

// occupy takes the calling thread into a new namespace, or into the one to be adopted,
// and opens it.
func (n *namespace) occupy() (err error) {
	if n.adopt != "" {
		if err := n.enterAdopted(); err != nil {
			return fmt.Errorf("adopt %s as namespace %s: %w", n.adopt, n.name, err)
		}
	} else if n.handle, err = netns.New(); err != nil {
		return fmt.Errorf("make namespace %s: %w", n.name, err)
	}
	n.conn, err = rtnl.Open()
	return n.wrap(err)
}

// enterAdopted enters a namespace that exists. The host's own is refused, whatever path
// leads to it, and so is one that carries a mark.
func (n *namespace) enterAdopted() (err error) {
	if n.handle, err = netns.GetFromPath(n.adopt); err != nil {
		return err
	}
	host, err := netns.GetFromPid(os.Getpid())
	if err != nil {
		return err
	}
	defer func() { _ = host.Close() }()
	if n.handle.Equal(host) {
		return errors.New("it is the host's own network")
	}
	if err := netns.Set(n.handle); err != nil {
		return err
	}
	alias, err := loAlias()
	if err == nil && alias != "" {
		err = fmt.Errorf("its loopback interface carries the alias %q: somebody else works with it", alias)
	}
	return err
}

// inUse explains what has the name.
func inUse(lab, path string) error {
	e := &InUseError{Lab: lab, Object: path}
	_ = onThread(func() error {
		m, h, err := readMark(path)
		if err == nil && m.ours(m.lab) {
			e.Owner = m.lab
		}
		if h.IsOpen() {
			_ = h.Close()
		}
		return err
	})
	return e
}
