package kernel

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

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
	err = onThread(func() error {
		for i := range f.ns {
			if !f.ns[i].handle.IsOpen() {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			missing, err := f.missingLinks(fabric.NodeID(i))
			if err != nil {
				return fmt.Errorf("inspect %s: %w", f.ns[i].name, err)
			}
			damage.Links = append(damage.Links, missing...)
			diffs, err := f.verifyNode(&f.plan.Nodes[i])
			if err != nil {
				return fmt.Errorf("inspect %s: %w", f.ns[i].name, err)
			}
			for _, d := range diffs {
				damage.Other = append(damage.Other, d.String())
			}
		}
		return nil
	})
	return damage, err
}

// Missing lists the planned namespaces and interfaces that a lab lacks, each
// in words. It checks nothing else, so it takes a few milliseconds per hundred nodes.
// The list is empty for a complete lab.
func Missing(lab string, plan *fabric.Plan) (missing []string, err error) {
	f, damage, err := attach(lab, plan, Options{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	for _, name := range damage.Namespaces {
		missing = append(missing, "namespace "+name+" is missing")
	}
	for _, name := range damage.Foreign {
		missing = append(missing, "namespace "+name+" does not carry the lab's mark")
	}
	for i := range f.ns {
		if !f.ns[i].handle.IsOpen() {
			continue
		}
		links, err := f.missingLinks(fabric.NodeID(i))
		if err != nil {
			return nil, fmt.Errorf("inspect %s: %w", f.ns[i].name, err)
		}
		for _, l := range links {
			missing = append(missing, l+" is missing")
		}
	}
	return missing, nil
}

// missingLinks names planned interfaces that a namespace does not have.
func (f *Fabric) missingLinks(node fabric.NodeID) ([]string, error) {
	links, err := dumpLinks(f.ns[node].conn)
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	for _, l := range links {
		have[l.name] = true
	}
	var missing []string
	for _, port := range f.plan.Ports[node] {
		if !have[port.Name] {
			missing = append(missing, fmt.Sprintf("%s port %s", f.ns[node].node, port.Name))
		}
	}
	return missing, nil
}

// attach opens the namespaces that a lab has and lists those that it lacks: about 0.1 ms
// per node.
func attach(lab string, plan *fabric.Plan, opt Options) (*Fabric, Damage, error) {
	var damage Damage
	if err := checkLab(lab); err != nil {
		return nil, damage, err
	}
	f := newFabric(lab, plan, opt)
	err := onThread(func() error {
		for i := range f.ns {
			ns := &f.ns[i]
			m, err := openMarked(ns)
			switch {
			case errors.Is(err, unix.ENOENT):
				damage.Namespaces = append(damage.Namespaces, ns.name)
			case err != nil:
				return err
			case !m.ours(lab) || f.id != "" && m.id != f.id:
				damage.Foreign = append(damage.Foreign, ns.name)
				ns.close()
			default:
				f.id = m.id
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

// openMarked opens a namespace and reads its mark, on onThread's thread. A
// plain file where a namespace should be mounted reads as one without a mark.
func openMarked(ns *namespace) (m marked, err error) {
	path := filepath.Join(NetnsDir, ns.name)
	if ns.handle, err = netns.GetFromPath(path); err != nil {
		return marked{}, fmt.Errorf("open %s: %w", path, err)
	}
	if !isNamespace(path) {
		return marked{name: ns.name}, nil
	}
	if err := enter(ns.handle, ns.name); err != nil {
		return marked{}, err
	}
	if ns.conn, err = rtnl.Open(); err != nil {
		return marked{}, fmt.Errorf("namespace %s: %w", ns.name, err)
	}
	alias, err := loAlias()
	if err != nil {
		return marked{}, fmt.Errorf("namespace %s: %w", ns.name, err)
	}
	return parseMark(ns.name, alias), nil
}
