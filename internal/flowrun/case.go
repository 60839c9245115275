package flowrun

import (
	"context"
	"fmt"
	"sync"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/flowworld"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/scenarios"
)

// Case is a scenario ready for trials in the flow world.
type Case struct {
	scenario *scenarios.Scenario
	plan     *fabric.Plan
	paths    flowworld.Paths

	mu    sync.Mutex
	loads map[uint64]*load
}

// load is what arrives on one seed, made once and read by every policy.
type load struct {
	once     sync.Once
	requests []workload.Request
	err      error
}

// New plans a scenario. It must have a workload of requests, since explicit flows
// know no policy: a fault of type scenarios.Error.
func New(s *scenarios.Scenario) (*Case, error) {
	if s.Workload.Kind == scenarios.WorkloadFlows {
		return nil, &scenarios.Error{Path: "workload.kind", Msg: fmt.Sprintf("%s: workload flows has no requests to schedule: use `netkvlab sim`", s.Name)}
	}
	scale := s.Scale
	if scale.Rate == 0 {
		scale.Rate = 1 // auto asks what this host can carry; no packet is sent here
	}
	p, err := fabric.New(s, scale)
	if err != nil {
		return nil, err
	}
	return &Case{scenario: s, plan: p, paths: flowworld.PathSlots, loads: map[uint64]*load{}}, nil
}

// UsePaths chooses another ECMP mode than the packet world's path slots. It must be
// called before the first trial.
func (c *Case) UsePaths(p flowworld.Paths) { c.paths = p }

// Requests are those of a seed; they must not be changed.
func (c *Case) Requests(seed uint64) ([]workload.Request, error) {
	c.mu.Lock()
	l := c.loads[seed]
	if l == nil {
		l = &load{}
		c.loads[seed] = l
	}
	c.mu.Unlock()
	l.once.Do(func() { l.requests, _, l.err = workload.Generate(c.scenario, seed) })
	return l.requests, l.err
}

// Forget drops the requests of a seed, so that long sweeps stay small.
func (c *Case) Forget(seed uint64) {
	c.mu.Lock()
	delete(c.loads, seed)
	c.mu.Unlock()
}

// Records plays a policy on a seed. stopwatch times decisions in nanoseconds of any
// clock; nil leaves them untimed, so that equal trials give equal records.
func (c *Case) Records(ctx context.Context, p scenarios.Policy, seed uint64, stopwatch func() int64) ([]results.Record, error) {
	requests, err := c.Requests(seed)
	if err != nil {
		return nil, err
	}
	d, err := trials.Serving(c.scenario, c.plan, trials.Trial{World: results.WorldFlow, Policy: p, Seed: seed}, requests, stopwatch)
	if err != nil {
		return nil, err
	}
	cfg := trials.FlowWorld(c.scenario, c.plan, seed)
	cfg.Paths = c.paths
	w, err := flowworld.New(cfg)
	if err != nil {
		return nil, err
	}
	if err := w.Run(ctx, d); err != nil {
		return nil, fmt.Errorf("%s, %s, seed %d: %w", c.scenario.Name, trials.Label(p), seed, err)
	}
	return d.Records(), nil
}

// Trial plays a policy on a seed and returns its figures.
func (c *Case) Trial(ctx context.Context, p scenarios.Policy, seed uint64, stopwatch func() int64) (Figures, error) {
	records, err := c.Records(ctx, p, seed, stopwatch)
	if err != nil {
		return Figures{}, err
	}
	return Measure(records, results.SLO{TTFT: c.scenario.SLO.TTFT, TBT: c.scenario.SLO.TBT}), nil
}
