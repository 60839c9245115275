package lab

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/scenarios"
)

// Attach takes hold of a standing lab: it locks it, finds its namespaces and
// connects to its agents. A lab that is damaged is refused with what is missing.
func Attach(ctx context.Context, name string, opt Options) (_ *Lab, err error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	// Locked before it is read: what another process is about to write must not be believed.
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
	st, plan, s, err := read(opt.Store, name)
	if err != nil {
		return nil, err
	}
	l.Scenario, l.Plan, l.state = s, plan, st
	if st.Phase != PhaseReady {
		return nil, fmt.Errorf("lab %q was left %s: remove it with `netkvlab down %s`", name, st.Phase, name)
	}
	// Signed before the agents are connected, which takes seconds where there are many:
	// `down` must know whom to ask.
	if err := l.sign(self()); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.sign(Process{}))
		}
	}()
	if damage := damaged(ctx, st, plan, opt); len(damage) > 0 {
		return nil, &DamagedError{Lab: name, Parts: damage}
	}
	if l.flowPairs, err = flowPairs(s); err != nil {
		return nil, err
	}
	if l.Fabric, err = kernel.Open(ctx, name, plan, kernel.Options{}); err != nil {
		return nil, err
	}
	for _, a := range st.Agents {
		id, ok := plan.Lookup(a.Node)
		if !ok {
			return nil, fmt.Errorf("lab %q has an agent on %q, which its plan does not know", name, a.Node)
		}
		l.Agents = append(l.Agents, Agent{Agent: a, ID: id})
	}
	if err := l.connect(ctx); err != nil {
		return nil, err
	}
	if err := l.configure(ctx); err != nil {
		return nil, err
	}
	return l, l.setPhase(PhaseRunning)
}

// sign writes down which process works on the lab; the zero value: none.
func (l *Lab) sign(p Process) error {
	l.state.Owner = p
	return l.opt.Store.save(l.state)
}

// read loads a lab's state and the plan that its scenario gives.
func read(store Store, name string) (*State, *fabric.Plan, *scenarios.Scenario, error) {
	if err := checkName(name); err != nil {
		return nil, nil, nil, err
	}
	st, err := store.Load(name)
	if err != nil {
		return nil, nil, nil, err
	}
	text, err := os.ReadFile(store.scenario(name))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("read the scenario of lab %q: %w", name, err)
	}
	s, err := scenarios.Parse(store.scenario(name), text)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("scenario of lab %q: %w", name, err)
	}
	plan, err := fabric.New(s, s.Scale)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("plan of lab %q: %w", name, err)
	}
	return st, plan, s, nil
}
