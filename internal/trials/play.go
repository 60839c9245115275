package trials

import (
	"context"
	"fmt"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/controller"
	"github.com/netkvlab/netkvlab/internal/fidelity/telemetry"
	"github.com/netkvlab/netkvlab/internal/flowworld"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/kvagent/engine"
	"github.com/netkvlab/netkvlab/scenarios"
)

// World moves bytes for a driver until it is done. When the context ends it returns the
// context's error; the driver then holds what was measured so far.
type World interface {
	Run(ctx context.Context, t Trial, d controller.Driver) error
}

// Play plays one policy on one seed in one world and returns its records, also after the
// trial was cut short. The records name the nodes of their paths.
func Play(ctx context.Context, w World, c *Cluster, t Trial) ([]results.Record, error) {
	l, err := c.Load(t.Seed)
	if err != nil {
		return nil, err
	}
	return PlayLoad(ctx, w, c, t, l)
}

// PlayLoad is Play with a given load instead of the seed's own.
func PlayLoad(ctx context.Context, w World, c *Cluster, t Trial, l *Load) ([]results.Record, error) {
	d, err := c.Driver(t, l)
	if err != nil {
		return nil, err
	}
	err = w.Run(ctx, t, d)
	records := d.Records()
	NamePaths(c.Plan, records)
	if err != nil {
		return records, fmt.Errorf("%s, %s world, %s, seed %d: %w", c.Scenario.Name, t.World, Label(t.Policy), t.Seed, err)
	}
	return records, nil
}

// Flow is the flow world of a cluster. It may run any number of trials at once. Equal
// trials give equal records.
type Flow struct {
	Cluster *Cluster
	// ByTier: the paper's own model, without a topology (flowworld.Config.ByTier).
	ByTier bool
	// Framing is the payload's share of a link's rate (flowworld.Config.Framing); 0: payload only.
	Framing float64
	// Latency, by tier, is that of the emulated links; nil means the scenario's latency.
	Latency *[4]time.Duration
}

// Config is the flow world's configuration for a seed.
func (f Flow) Config(seed uint64) flowworld.Config {
	s, p := f.Cluster.Scenario, f.Cluster.Plan
	l := s.Topology.Latency
	cfg := flowworld.Config{
		Plan: p, Senders: p.Prefill, Receivers: p.Decode, Prefill: Prefill(s), ByTier: f.ByTier, Framing: f.Framing,
		Latency: [4]time.Duration{l.Tier0, l.Tier1, l.Tier2, l.Tier3}, Setup: s.Transfer.Setup, Timeout: s.Transfer.Timeout,
		Pieces:     overlap(s),
		Background: [4]float64{2: s.Background.Utilization.Tier2, 3: s.Background.Utilization.Tier3},
	}
	if f.Latency != nil {
		cfg.Latency = *f.Latency
	}
	asked := cfg.Background
	if s.Topology.Buffers.Priority == scenarios.PriorityTransfers {
		cfg.Background = [4]float64{} // it takes nothing from transfers
	}
	if f.Cluster.Flows() {
		ids := Endpoints(p)
		cfg.Senders, cfg.Receivers = ids, ids
		return cfg
	}
	cfg.Decode = &engine.DecodeConfig{
		Model: Model(s.Engine), MaxBatch: s.Engine.Decode.MaxBatch, MemoryBytes: int64(s.Engine.Decode.Memory),
		KVBytesPerToken: int64(s.Model.KVBytesPerToken()), BlockTokens: s.Engine.BlockTokens,
	}
	o := s.Oracle
	cfg.Refresh, cfg.Staleness, cfg.CountOwn = o.Refresh, o.Staleness, o.Separation == scenarios.SeparationNone
	cfg.Congestion = func(poll uint64, truth [4]float64) ([4]float64, bool) {
		for tier := range truth { // the fluid network does not carry background traffic
			truth[tier] += asked[tier] - cfg.Background[tier]
		}
		return telemetry.Distort(seed, poll, o.Noise, o.Loss, truth)
	}
	return cfg
}

// Run implements World.
func (f Flow) Run(ctx context.Context, t Trial, d controller.Driver) error {
	w, err := flowworld.New(f.Config(t.Seed))
	if err != nil {
		return err
	}
	return w.Run(ctx, d)
}

// RunFlows moves explicit transfers between any nodes of the cluster in an otherwise idle
// flow world. Their start times decide which of them overlap.
func (f Flow) RunFlows(ctx context.Context, d controller.Driver) error {
	cfg, ids := f.Config(0), Endpoints(f.Cluster.Plan)
	w, err := flowworld.New(flowworld.Config{
		Plan: cfg.Plan, Senders: ids, Receivers: ids, Framing: cfg.Framing, Latency: cfg.Latency, Setup: cfg.Setup,
	})
	if err != nil {
		return err
	}
	return w.Run(ctx, d)
}

// BackgroundRates are the emulated rates of other tenants' flows, in bits per second.
type BackgroundRates struct {
	Core float64 // of a flow over one core path
	Rack float64 // of a flow within a pod
}

// Background returns the rates of background flows at which each tier's links carry the
// configured share. The error is of type InvalidError: the shares contradict each other.
func Background(s *scenarios.Scenario, p *fabric.Plan) (BackgroundRates, error) {
	b, t := s.Background, s.Topology
	uplink := float64(rateOf(p, 2))
	if t.Pods < 2 {
		return BackgroundRates{Rack: b.Utilization.Tier2 * uplink}, nil
	}
	core := b.Utilization.Tier3 * float64(rateOf(p, 3)) / float64(t.RacksPerPod)
	fromCore := core * float64(t.CoresPerAgg)
	rack := b.Utilization.Tier2*uplink - fromCore
	if rack < 0 {
		return BackgroundRates{}, Invalidf("background.utilization: tier3: %g of the core links already loads the rack uplinks with %.3g, more than tier2: %g: raise tier2 or lower tier3",
			b.Utilization.Tier3, fromCore/uplink, b.Utilization.Tier2)
	}
	return BackgroundRates{Core: core, Rack: rack}, nil
}

// rateOf is the emulated rate of the links of a tier; 0 where it has none.
func rateOf(p *fabric.Plan, tier int) scenarios.BitsPerSecond {
	for i := range p.Links {
		if p.Links[i].Tier == tier {
			return p.Links[i].RateEmulated
		}
	}
	return 0
}
