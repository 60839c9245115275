package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// Fabric is a standing fabric. It holds a descriptor and a netlink socket in
// each namespace until Close. Its methods are safe for concurrent use, except
// that Close must come last.
type Fabric struct {
	lab, id  string
	plan     *fabric.Plan
	ns       []namespace // by NodeID
	features Features
	// foresight records for which routes the switches' choice can be computed.
	foresight foresight
}

// Lab is the lab's name.
func (f *Fabric) Lab() string { return f.lab }

// Plan is what the fabric was made from.
func (f *Fabric) Plan() *fabric.Plan { return f.plan }

// Features says which optional features the kernel has.
func (f *Fabric) Features() Features { return f.features }

func newFabric(lab string, plan *fabric.Plan, opt Options) *Fabric {
	f := &Fabric{lab: lab, plan: plan, ns: make([]namespace, len(plan.Nodes)), features: detectFeatures(plan, opt)}
	for i, name := range Names(lab, plan) {
		f.ns[i] = namespace{name: name, node: plan.Nodes[i].Name, handle: netns.None()}
	}
	return f
}

// Apply builds a plan in the kernel under a lab's name. When it returns an error, the
// host is as it was before. It fails with an *InUseError when a name is taken. When the
// context is cancelled, it undoes what it made and returns the context's error.
func Apply(ctx context.Context, lab string, plan *fabric.Plan, opt Options) (*Fabric, error) {
	if err := checkLab(lab); err != nil {
		return nil, err
	}
	f := newFabric(lab, plan, opt)
	f.id = newID()
	for node, path := range opt.Adopt {
		if node < 0 || int(node) >= len(f.ns) {
			return nil, fmt.Errorf("adopt %s: lab %s has no node %d", path, lab, node)
		}
		f.ns[node].adopt = path
	}
	for i := range f.ns {
		path := filepath.Join(NetnsDir, f.ns[i].name)
		if _, err := os.Lstat(path); err == nil {
			return nil, inUse(lab, path)
		} else if !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("look for %s: %w", path, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if opt.Journal != nil {
		if err := opt.Journal(Names(lab, plan)); err != nil {
			return nil, fmt.Errorf("journal of lab %s: %w", lab, err)
		}
	}
	err := f.build(ctx, opt)
	if err == nil {
		return f, nil
	}
	if cause := ctx.Err(); cause != nil {
		err = cause // the cancellation caused the other errors
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	if undoErr := f.undo(undo); undoErr != nil {
		err = errors.Join(err, fmt.Errorf("undo lab %s: %w", lab, undoErr))
	}
	return nil, err
}

// build makes everything in the fastest order: links need both
// namespaces, shaping must precede raising (replacing the qdisc of a raised
// link costs a grace period), routes need both ends up.
func (f *Fabric) build(ctx context.Context, opt Options) error {
	if err := f.createNamespaces(ctx, opt.Workers); err != nil {
		return err
	}
	for _, step := range []func(b *rtnl.Batch, n *fabric.Node){f.linksOf, f.portsOf, f.routesOf} {
		var b rtnl.Batch
		for i := range f.plan.Nodes {
			if err := ctx.Err(); err != nil {
				return err
			}
			b.Reset()
			step(&b, &f.plan.Nodes[i])
			if b.Len() == 0 {
				continue
			}
			if err := f.ns[i].conn.Exec(&b); err != nil {
				return fmt.Errorf("namespace %s: %w", f.ns[i].name, err)
			}
		}
	}
	return f.awaitCarrier(ctx)
}

func (f *Fabric) linksOf(b *rtnl.Batch, n *fabric.Node) {
	for _, port := range f.plan.Ports[n.ID] {
		if l := &f.plan.Links[port.Link]; l.A.Node == n.ID {
			addVeth(b, f.plan, l, f.ns[l.B.Node].handle)
		}
	}
}

func (f *Fabric) portsOf(b *rtnl.Batch, n *fabric.Node) {
	for _, port := range f.plan.Ports[n.ID] {
		index := ifindexOf(f.plan, port)
		queueing(f.plan, &port.Shape, f.delayed(port)).Add(b, index, port.Name)
		addAddr(b, index, port.Addr)
		setUp(b, f.plan, port)
	}
	for _, a := range n.Addrs {
		addAddr(b, loIndex, hostPrefix(a))
	}
}

func (f *Fabric) routesOf(b *rtnl.Batch, n *fabric.Node) {
	for _, port := range f.plan.Ports[n.ID] {
		addNeighbour(b, f.plan, port)
	}
	for i := range n.Routes {
		addRoute(b, f.plan, n, &n.Routes[i])
	}
	for _, r := range n.Rules {
		addRule(b, r)
	}
}

// awaitCarrier waits until every port has its carrier. The end that is raised first gets
// its carrier, and with it its qdisc, a moment later from a kernel worker. Until then
// it drops every packet.
func (f *Fabric) awaitCarrier(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, carrierTime, errNoCarrier)
	defer cancel()
	for i := range f.ns {
		want := len(f.plan.Ports[i])
		for wait := 50 * time.Microsecond; ; wait = min(2*wait, 10*time.Millisecond) {
			up, err := f.carrying(fabric.NodeID(i))
			if err != nil {
				return fmt.Errorf("namespace %s: %w", f.ns[i].name, err)
			}
			if up >= want {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("namespace %s: %d of %d ports: %w", f.ns[i].name, up, want, context.Cause(ctx))
			case <-time.After(wait):
			}
		}
	}
	return nil
}

// carrierTime is how long all carrier events may take; usually they take a millisecond.
const carrierTime = 10 * time.Second

var errNoCarrier = errors.New("the kernel does not report a carrier on every port")

// operUp is IF_OPER_UP of linux/if.h.
const operUp = 6

// carrying counts the ports of a node that can send. It asks for each port separately,
// because RTM_GETLINK first flushes a pending carrier event (Linux 6.9 and later). The
// kernel's worker handles 100 to 200 events per second once more are waiting than it takes
// at a time, so a busy host would wait ten seconds for a fabric of 1800 ports.
func (f *Fabric) carrying(node fabric.NodeID) (n int, err error) {
	var b rtnl.Batch
	for _, port := range f.plan.Ports[node] {
		b.Begin(unix.RTM_GETLINK, 0, "look at", port.Name)
		ifinfo(&b, ifindexOf(f.plan, port), 0)
	}
	err = f.ns[node].conn.Query(&b, func(_ int, m rtnl.Message) {
		if l := parseLink(m.Payload); l.carries() {
			n++
		}
	})
	return n, err
}

// Close frees the descriptors and leaves the fabric standing.
func (f *Fabric) Close() error {
	for i := range f.ns {
		f.ns[i].close()
	}
	return nil
}

// Do runs fn on a thread inside a node's namespace: sockets that fn opens, and
// processes it starts, belong to the node. fn must not start goroutines that
// are to be in the namespace, nor call runtime.UnlockOSThread.
func (f *Fabric) Do(node fabric.NodeID, fn func() error) error {
	ns, err := f.at(node)
	if err != nil {
		return err
	}
	return inside(fmt.Sprintf("/proc/self/fd/%d", ns.handle), fn)
}

func (f *Fabric) at(node fabric.NodeID) (*namespace, error) {
	if node < 0 || int(node) >= len(f.ns) {
		return nil, fmt.Errorf("lab %s: no node %d, want 0..%d", f.lab, node, len(f.ns)-1)
	}
	if !f.ns[node].handle.IsOpen() {
		return nil, fmt.Errorf("lab %s: the fabric is closed", f.lab)
	}
	return &f.ns[node], nil
}

// NetnsPath is the file of a node's namespace, for setns and "ip netns"; "" for
// nodes that do not exist.
func (f *Fabric) NetnsPath(node fabric.NodeID) string {
	if node < 0 || int(node) >= len(f.ns) {
		return ""
	}
	return filepath.Join(NetnsDir, f.ns[node].name)
}

// NetnsInode is the inode of a node's namespace: /proc/PID/ns/net of a process
// inside has the same.
func (f *Fabric) NetnsInode(node fabric.NodeID) (uint64, error) {
	ns, err := f.at(node)
	if err != nil {
		return 0, err
	}
	return inodeOf(ns.handle, ns.name)
}
