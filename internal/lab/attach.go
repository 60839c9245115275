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
	st, plan, s, err := read(opt.Store, name)
	if errors.Is(err, ErrNotUp) {
		return nil, fmt.Errorf("%w: `netkvlab ps` lists the labs, `netkvlab up -d` makes one", err)
	}
	if err != nil {
		return nil, err
	}
	lk, err := opt.Store.tryLock(name, false)
	if err != nil {
		return nil, err
	}
	l := &Lab{Scenario: s, Plan: plan, opt: opt, lock: lk, state: st}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if st.Phase != PhaseReady {
		return nil, fmt.Errorf("lab %q was left %s: remove it with `netkvlab down %s`", name, st.Phase, name)
	}
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
	l.state.Owner = self()
	return l, l.setPhase(PhaseRunning)
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
