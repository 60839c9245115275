// Package trials makes trials out of a scenario. A Cluster is the scenario's plan and its
// workload. Play runs one policy on one seed of it in one World and returns records.
// Everything that runs trials (an experiment, a sweep, tuning, the attribution of a gap,
// the choice of a scale) is a loop over Play.
//
// Only this package lays out a fabric, reads a workload, or builds a driver, so that all
// worlds get the same. It writes no files and changes nothing on the host. Start reading at
// cluster.go, then play.go.
package trials

import (
	"cmp"
	"fmt"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/controller"
	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/kvagent/engine"
	"github.com/netkvlab/netkvlab/scenarios"
	"github.com/netkvlab/netkvlab/scheduler"
)

// answerTimeout is how much later than the model says an instance may answer,
// in real time, before it is taken out of service. A healthy one is late by
// milliseconds; this is a hundred times the worst stall seen on a busy host.
const answerTimeout = 5 * time.Second

// Stagger is the real time between the starts of trials side by side. Trials of one seed
// have the same arrivals; with equal starts their peaks would coincide.
const Stagger = time.Second

// overlapLayers is the number of pieces of a transfer that is overlapped by layer, when the
// model does not give its number of layers.
const overlapLayers = 80

// Trial names one run of one policy on one seed.
type Trial struct {
	World  string
	Policy scenarios.Policy
	Seed   uint64
	// Wrap, if set, receives the scenario's policy and returns the one to use instead, such
	// as one that repeats earlier decisions. It is called once per tenant.
	Wrap func(scheduler.Policy) scheduler.Policy
	// Stopwatch returns the nanoseconds of any clock, to time decisions. With nil they are
	// not timed, so that equal trials give equal records.
	Stopwatch func() int64
}

// Label is the policy's name in results.
func Label(p scenarios.Policy) string { return cmp.Or(p.Label, p.Name) }

// Model is the compute model of a scenario's instances.
func Model(e scenarios.Engine) engine.Model {
	return engine.Model{
		PrefillBase: e.Prefill.Base, PrefillPerTokenNs: e.Prefill.PerTokenNs,
		PrefillPerTokenSquaredNs: e.Prefill.PerTokenSquaredNs,
		DecodeBase:               e.Decode.Base, DecodePerSequence: e.Decode.PerSequence,
		DecodePerContextTokenNs: e.Decode.PerContextTokenNs,
	}
}

// Names lists the names of a plan's nodes.
func Names(p *fabric.Plan, ids []fabric.NodeID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = p.Nodes[id].Name
	}
	return out
}

// State builds the scheduler's view of an idle cluster: three of the oracle's four maps are
// static and come from the plan.
func State(s *scenarios.Scenario, p *fabric.Plan) (*scheduler.State, error) {
	o := scheduler.Oracle{Tier: make([]uint8, len(p.Prefill)*len(p.Decode))}
	for i, from := range p.Prefill {
		for j, to := range p.Decode {
			o.Tier[i*len(p.Decode)+j] = uint8(p.Tier(from, to))
		}
	}
	for t, r := range p.TierBandwidth() {
		o.BytesPerSecond[t] = r.BytesPerSecond()
	}
	l := s.Topology.Latency
	o.Latency = [scheduler.Tiers]time.Duration{l.Tier0, l.Tier1, l.Tier2, l.Tier3}
	return scheduler.NewState(scheduler.Options{
		Prefills: len(p.Prefill), Decodes: len(p.Decode), MaxBatch: s.Engine.Decode.MaxBatch,
		BlockTokens: s.Engine.BlockTokens, KVBytesPerToken: int64(s.Model.KVBytesPerToken()),
		MinFreeBytes: int64(s.Engine.Decode.MinFree), MemoryBytes: int64(s.Engine.Decode.Memory),
		DecodeBase: s.Engine.Decode.Base, DecodePerSequence: s.Engine.Decode.PerSequence,
		DecodePerContextTokenNs: s.Engine.Decode.PerContextTokenNs,
		InFlightCap:             s.Oracle.InFlightCap, Separation: s.Oracle.Separation != scenarios.SeparationNone,
		Oracle: o,
	})
}

// serving builds the driver of a serving trial.
func (c *Cluster) serving(t Trial, reqs []workload.Request) (*controller.Serving, error) {
	s, p := c.Scenario, c.Plan
	tenants, err := tenants(s, p, t)
	if err != nil {
		return nil, err
	}
	return controller.NewServing(controller.Config{
		World: t.World, Policy: Label(t.Policy), Seed: t.Seed, Requests: reqs,
		PrefillNames: Names(p, p.Prefill), DecodeNames: Names(p, p.Decode),
		Tenants: tenants, Prefill: Prefill(s),
		KVBytesPerToken: int64(s.Model.KVBytesPerToken()), MemoryBytes: int64(s.Engine.Decode.Memory),
		RateScale: p.Scale.Rate, Streams: s.Transfer.Streams, NICs: s.Topology.NICsPerInstance,
		Paths:  func(prefill, decode int) int { return p.PathCount(p.Tier(p.Prefill[prefill], p.Decode[decode])) },
		Sticky: s.Transfer.Paths == scenarios.PathsSticky, OverlapPieces: overlap(s),
		Retries: s.Transfer.Retries, Drain: s.Limits.Drain, TransferTimeout: s.Transfer.Timeout,
		AnswerTimeout: time.Duration(float64(answerTimeout) / p.Scale.Time), Stopwatch: t.Stopwatch,
	})
}

// tenants builds a scheduler of the trial's policy for each tenant.
func tenants(s *scenarios.Scenario, p *fabric.Plan, t Trial) ([]controller.Tenant, error) {
	out := make([]controller.Tenant, max(1, s.Workload.Tenants))
	for i := range out {
		state, err := State(s, p)
		if err != nil {
			return nil, fmt.Errorf("scheduler state of %s: %w", s.Name, err)
		}
		policy, err := scheduler.New(t.Policy.Name, scheduler.PolicyOptions{
			CacheWeight: t.Policy.CacheWeight, LoadWeight: t.Policy.LoadWeight,
		})
		if err != nil {
			return nil, err
		}
		if t.Wrap != nil {
			policy = t.Wrap(policy)
		}
		out[i] = controller.Tenant{Scheduler: policy, State: state}
	}
	return out, nil
}

// Prefill is the configuration of a scenario's prefill instances.
func Prefill(s *scenarios.Scenario) engine.PrefillConfig {
	return engine.PrefillConfig{Model: Model(s.Engine), Mode: engine.Mode(s.Engine.Prefill.Mode)}
}

func overlap(s *scenarios.Scenario) func(promptTokens int) int {
	switch s.Transfer.Overlap {
	case scenarios.OverlapChunk:
		return func(n int) int {
			chunk := max(1, s.Transfer.OverlapChunk)
			return (n + chunk - 1) / chunk
		}
	case scenarios.OverlapLayer:
		return func(int) int { return cmp.Or(s.Model.Layers, overlapLayers) }
	}
	return nil
}
