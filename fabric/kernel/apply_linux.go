package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/vishvananda/netns"

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
	hashing  hashing
}

// Plan is what the fabric was made from.
func (f *Fabric) Plan() *fabric.Plan { return f.plan }

// Features says which optional features the kernel has.
func (f *Fabric) Features() Features { return f.features }

func newFabric(lab string, plan *fabric.Plan, opt Options) *Fabric {
	f := &Fabric{lab: lab, plan: plan, ns: make([]namespace, len(plan.Nodes)), features: detectFeatures(plan, opt)}
	f.hashing.agreed = map[hashedRoute]int{}
	for i, name := range Names(lab, plan) {
		f.ns[i] = namespace{name: name, handle: netns.None()}
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
	err := f.build(ctx, opt.Workers)
	if err == nil {
		return f, nil
	}
	if cause := ctx.Err(); cause != nil {
		err = cause // the cancellation caused the other errors
	}
	undoing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	if undoErr := undo(undoing, f.ns); undoErr != nil {
		err = errors.Join(err, fmt.Errorf("undo lab %s: %w", lab, undoErr))
	}
	return nil, err
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

// Open attaches to a standing lab. It fails with a *DamagedError when a
// planned namespace is missing or carries another mark. It does not check the
// namespaces' contents (Verify does).
func Open(ctx context.Context, lab string, plan *fabric.Plan, opt Options) (*Fabric, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, damage, err := attach(lab, plan, opt)
	if err != nil {
		return nil, err
	}
	if !damage.None() {
		_ = f.Close() // never fails
		return nil, &DamagedError{Lab: lab, Damage: damage}
	}
	return f, nil
}

// Inspect lists what a standing lab lacks compared with its plan: namespaces, interfaces,
// and what Verify finds in the rest. A complete lab has no damage; an
// absent one lacks all its namespaces.
func Inspect(ctx context.Context, lab string, plan *fabric.Plan, opt Options) (Damage, error) {
	f, damage, err := attach(lab, plan, opt)
	if err != nil {
		return damage, err
	}
	defer func() { _ = f.Close() }()
	v := newVerifier(f)
	err = v.nodes(ctx, "inspect")
	damage.Links = v.missing
	for _, d := range v.diffs {
		damage.Other = append(damage.Other, d.String())
	}
	return damage, err
}

// attach opens the namespaces that a lab has and lists those that it lacks: about 0.1 ms
// per node.
func attach(lab string, plan *fabric.Plan, opt Options) (*Fabric, Damage, error) {
	var damage Damage
	if err := checkLab(lab); err != nil {
		return nil, damage, err
	}
	f := newFabric(lab, plan, opt)
	err := onThread(func() (err error) {
		for i := range f.ns {
			n := &f.ns[i]
			path := filepath.Join(NetnsDir, n.name)
			if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
				damage.Namespaces = append(damage.Namespaces, n.name)
				continue
			}
			var m marked
			if m, n.handle, err = readMark(path); err != nil {
				return err
			}
			if !m.ours(lab) || f.id != "" && m.id != f.id { // the first mark says which fabric this is
				damage.Foreign = append(damage.Foreign, n.name)
				n.close()
				continue
			}
			f.id = m.id
			if n.conn, err = rtnl.Open(); err != nil {
				return n.wrap(err)
			}
		}
		return nil
	})
	if err != nil {
		_ = f.Close() // never fails
		return nil, damage, fmt.Errorf("open lab %s: %w", lab, err)
	}
	return f, damage, nil
}
