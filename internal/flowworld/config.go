package flowworld

import (
	"errors"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/flowsim"
	"github.com/netkvlab/netkvlab/kvagent/engine"
)

// Config describes a cluster in the flow world.
type Config struct {
	Plan *fabric.Plan
	// Senders and Receivers are the nodes behind the driver's instance indices: the plan's prefill
	// and decode instances, or in both the endpoints of explicit flows.
	Senders, Receivers []fabric.NodeID
	// Prefill and Decode configure the instances; nil Decode means explicit flows, without an engine.
	Prefill engine.PrefillConfig
	Decode  *engine.DecodeConfig

	// ByTier: no topology, but the paper's own model (flowsim.TierCapacities). Otherwise a stream's
	// draw selects one equal-cost path, as in the packet world.
	ByTier bool
	// Framing is flowsim.Options.Framing: 0 for payload at the full rate, or its share in frames.
	Framing float64
	// Latency is added to each transfer by its tier, and Setup to all transfers.
	Latency [4]time.Duration
	Setup   time.Duration
	// Pieces is the number of pieces in which a prompt's transfer leaves during its prefill; nil:
	// it leaves afterwards. Only Replay uses it; a controller's actions contain it.
	Pieces func(promptTokens int) int
	// Timeout ends a transfer that takes longer, from its action on (overlapped: from the end of
	// the prefill); 0 means no limit.
	Timeout time.Duration
	// Background is the share of a tier's links that others use.
	Background [4]float64
	// Refresh is the oracle's period; 0 means that it reports no congestion. Congestion turns the
	// true values at a poll into the oracle's (noise, loss); nil keeps the true values.
	Refresh    time.Duration
	Staleness  time.Duration
	Congestion func(poll uint64, truth [4]float64) (said [4]float64, ok bool)
	// CountOwn adds the transfers' own load to the congestion, as without separation by class.
	CountOwn bool
}

// network builds the fluid network.
func (c *Config) network() (net *flowsim.Network, err error) {
	var capacities []float64
	if c.ByTier {
		capacities, err = flowsim.TierCapacities(c.Plan, c.Background)
	} else {
		capacities, err = flowsim.WithBackground(c.Plan, func(h fabric.Hop) float64 {
			return c.Background[c.Plan.Links[h.Link].Tier]
		})
	}
	if err != nil {
		return nil, err
	}
	return flowsim.New(capacities, flowsim.Options{Framing: c.Framing})
}

func (c *Config) check() error {
	if c.ByTier && c.Decode == nil {
		return errors.New("flow world: the paper's model by tier knows prefill instances only, and explicit flows have none")
	}
	if len(c.Senders) == 0 || len(c.Receivers) == 0 {
		return errors.New("flow world: no instances")
	}
	return nil
}
