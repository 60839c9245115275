package trials

import (
	"cmp"
	"fmt"
	"sync"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/controller"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/scenarios"
)

// Cluster is what a scenario describes: the network's plan, the policies, and what arrives
// on each seed. It is safe for concurrent use. Do not change what it returns.
type Cluster struct {
	Scenario *scenarios.Scenario
	Plan     *fabric.Plan

	loads *sync.Map // of each seed, a func() (*Load, error)
}

// New plans a scenario. A scale.rate of 0 (auto) is planned without scaling, which is right
// where no packets are sent. An InvalidError means that no host can build it.
func New(s *scenarios.Scenario) (*Cluster, error) {
	scale := s.Scale
	scale.Rate = cmp.Or(scale.Rate, 1)
	return plan(s, scale, &sync.Map{})
}

// NewServing is New for callers that need requests. It refuses a workload of explicit
// flows, where no policy decides anything; that error is of type scenarios.Error.
func NewServing(s *scenarios.Scenario) (*Cluster, error) {
	if s.Workload.Kind == scenarios.WorkloadFlows {
		return nil, &scenarios.Error{Path: "workload.kind", Msg: fmt.Sprintf("%s: workload flows has no requests to schedule: use `netkvlab sim`", s.Name)}
	}
	return New(s)
}

// At returns the same cluster at another scale. Both share the loads.
func (c *Cluster) At(scale scenarios.Scale) (*Cluster, error) {
	return plan(c.Scenario, scale, c.loads)
}

// Rescale returns the cluster with its scenario's scale.rate set, once a rate is chosen for
// `auto`. Both share the loads.
func (c *Cluster) Rescale(rate float64) (*Cluster, error) {
	s := *c.Scenario
	s.Scale.Rate = rate
	return plan(&s, s.Scale, c.loads)
}

// Vary returns the same plan with a changed copy of the scenario. The change must not
// affect the plan or the workload.
func (c *Cluster) Vary(change func(*scenarios.Scenario)) *Cluster {
	s := *c.Scenario
	change(&s)
	return &Cluster{Scenario: &s, Plan: c.Plan, loads: c.loads}
}

// plan is the one place that lays out a fabric.
func plan(s *scenarios.Scenario, scale scenarios.Scale, loads *sync.Map) (*Cluster, error) {
	p, err := fabric.New(s, scale)
	if err != nil {
		return nil, InvalidError{fmt.Errorf("plan %s at scale.rate %g: %w", s.Name, scale.Rate, err)}
	}
	if _, err := Background(s, p); err != nil {
		return nil, err
	}
	return &Cluster{Scenario: s, Plan: p, loads: loads}, nil
}

// InvalidError means that the input is wrong on any host: a name that no lab can have, a
// scenario that cannot be made into a fabric.
type InvalidError struct{ error }

// Invalidf makes an InvalidError.
func Invalidf(format string, args ...any) error { return InvalidError{fmt.Errorf(format, args...)} }

// Unwrap gives the fault itself.
func (e InvalidError) Unwrap() error { return e.error }

// Policies are the scenario's, or the one pseudo-policy of explicit flows.
func (c *Cluster) Policies() []scenarios.Policy {
	if c.Flows() {
		return []scenarios.Policy{{Name: controller.FlowsPolicy}}
	}
	return c.Scenario.Policies
}

// Labels names the policies in their order.
func (c *Cluster) Labels() []string {
	var out []string
	for _, p := range c.Policies() {
		out = append(out, Label(p))
	}
	return out
}

// Flows reports whether the workload is explicit flows, without requests and policies.
func (c *Cluster) Flows() bool { return c.Scenario.Workload.Kind == scenarios.WorkloadFlows }

// Trials lists the trials of a world in the order that a reader expects: by seed, then policy.
func (c *Cluster) Trials(world string, seeds []uint64) []Trial {
	var out []Trial
	for _, seed := range seeds {
		for _, p := range c.Policies() {
			out = append(out, Trial{World: world, Policy: p, Seed: seed})
		}
	}
	return out
}

// Load is what arrives in all trials of a seed: requests, or explicit flows.
type Load struct {
	Requests []workload.Request
	Flows    []workload.FlowRequest
	// Remarks are notes on a replayed trace for the readers of results.
	Remarks []string
}

// Load is what arrives on a seed. It is made once, read by every policy, and must not be changed.
func (c *Cluster) Load(seed uint64) (*Load, error) {
	load, _ := c.loads.LoadOrStore(seed, sync.OnceValues(func() (*Load, error) { return read(c.Scenario, seed) }))
	return load.(func() (*Load, error))()
}

// read is the one place that makes or reads a workload.
func read(s *scenarios.Scenario, seed uint64) (*Load, error) {
	if s.Workload.Kind == scenarios.WorkloadFlows {
		f, err := workload.LoadFlows(s, seed)
		return &Load{Flows: f}, err
	}
	reqs, report, err := workload.Generate(s, seed)
	if err != nil {
		return nil, err
	}
	return &Load{Requests: reqs, Remarks: report.Remarks()}, nil
}

// Check reads the workload of the first seed, so that a broken trace or an impossible path
// is reported before anything is built.
func (c *Cluster) Check() error {
	seed := c.Scenario.Seeds[0]
	l, err := c.Load(seed)
	if err != nil || !c.Flows() {
		return err
	}
	if _, err := c.flows(Trial{World: results.WorldFlow, Seed: seed}, l.Flows); err != nil {
		return Invalidf("%s: %w", c.Scenario.Name, err)
	}
	return nil
}

// Driver builds a trial's driver. The load is only read.
func (c *Cluster) Driver(t Trial, l *Load) (controller.Driver, error) {
	if c.Flows() {
		return c.flows(t, l.Flows)
	}
	return c.serving(t, l.Requests)
}
