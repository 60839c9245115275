package lab

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

// Attach opens an existing lab: it locks it, finds its namespaces and connects to its agents. It
// refuses a damaged lab and names what is missing.
func Attach(ctx context.Context, name string, opt Options) (_ *Lab, err error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	// Lock before reading, since another process may be about to write.
	lk, err := opt.Store.tryLock(name, false)
	if errors.Is(err, ErrNotUp) {
		return nil, fmt.Errorf("%w: `netkvlab ps` lists the labs, `netkvlab up -d` makes one", err)
	}
	if err != nil {
		return nil, err
	}
	l := &Lab{opt: opt, lock: lk}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	st, c, err := read(opt.Store, name)
	if err != nil {
		return nil, err
	}
	l.Cluster, l.state = c, st
	if st.Phase != PhaseReady {
		return nil, fmt.Errorf("lab %q was left %s: remove it with `netkvlab down %s`", name, st.Phase, name)
	}
	// Sign before connecting to the agents, which takes seconds if there are many: `down` must know
	// which process to interrupt.
	if err := l.sign(self()); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.sign(Process{}))
		}
	}()
	if damage := damaged(ctx, st, c.Plan, opt); len(damage) > 0 {
		return nil, &DamagedError{Lab: name, Parts: damage}
	}
	if l.Fabric, err = kernel.Open(ctx, name, c.Plan, kernel.Options{}); err != nil {
		return nil, err
	}
	for _, a := range st.Agents {
		id, ok := c.Plan.Lookup(a.Node)
		if !ok {
			return nil, fmt.Errorf("lab %q has an agent on %q, which its plan does not know", name, a.Node)
		}
		l.Agents = append(l.Agents, Agent{Agent: a, ID: id})
	}
	if err := l.connect(ctx); err != nil {
		return nil, err
	}
	return l, l.setPhase(PhaseRunning)
}

// sign records which process works on the lab; the zero value means none.
func (l *Lab) sign(p Process) error {
	l.state.Owner = p
	return l.opt.Store.save(l.state)
}

// read loads a lab's state and the cluster that its scenario describes.
func read(store Store, name string) (*State, *trials.Cluster, error) {
	if err := checkName(name); err != nil {
		return nil, nil, err
	}
	st, err := store.Load(name)
	if err != nil {
		return nil, nil, err
	}
	text, err := os.ReadFile(store.scenario(name))
	if err != nil {
		return nil, nil, fmt.Errorf("read the scenario of lab %q: %w", name, err)
	}
	s, err := scenarios.Parse(store.scenario(name), text)
	if err != nil {
		return nil, nil, fmt.Errorf("scenario of lab %q: %w", name, err)
	}
	c, err := trials.New(s)
	if err != nil {
		return nil, nil, fmt.Errorf("lab %q: %w", name, err)
	}
	return st, c, nil
}
