package trials

import (
	"time"

	"github.com/netkvlab/netkvlab/internal/fidelity/telemetry"
	"github.com/netkvlab/netkvlab/internal/flowworld"
	"github.com/netkvlab/netkvlab/kvagent/engine"
	"github.com/netkvlab/netkvlab/scenarios"
)

// flowConfig is the configuration of the cluster in the flow world.
func (c *Cluster) flowConfig(seed uint64) flowworld.Config {
	s, p := c.Scenario, c.Plan
	l := s.Topology.Latency
	cfg := flowworld.Config{
		Plan: p, Senders: p.Prefill, Receivers: p.Decode, Prefill: Prefill(s), Paths: flowworld.PathSlots,
		Latency: [4]time.Duration{l.Tier0, l.Tier1, l.Tier2, l.Tier3}, Setup: s.Transfer.Setup, Timeout: s.Transfer.Timeout,
		Pieces:     overlap(s),
		Background: [4]float64{2: s.Background.Utilization.Tier2, 3: s.Background.Utilization.Tier3},
	}
	asked := cfg.Background
	if s.Topology.Buffers.Priority == scenarios.PriorityTransfers {
		cfg.Background = [4]float64{} // it takes nothing from transfers
	}
	if s.Workload.Kind == scenarios.WorkloadFlows {
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
