package flowworld

import (
	"fmt"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/flowsim"
	"github.com/netkvlab/netkvlab/kvagent/engine"
)

// Paths says which links a stream crosses.
type Paths string

// The ECMP modes of the flow world.
const (
	// PathSlots: the equal-cost path that the stream's draw names, as in the packet world.
	PathSlots Paths = "slots"
	// PathSplit: every stream is spread evenly over all its equal-cost paths.
	PathSplit Paths = "split"
	// PathTier: no topology; the paper's own model (flowsim.TierCapacities).
	PathTier Paths = "tier"
)

// Config describes a cluster in the flow world.
type Config struct {
	Plan *fabric.Plan
	// Senders and Receivers are the nodes behind the driver's instance indices:
	// the plan's prefill and decode instances, or the endpoints of explicit flows twice.
	Senders, Receivers []fabric.NodeID
	// Prefill and Decode configure the instances; nil Decode means explicit flows, without an engine.
	Prefill engine.PrefillConfig
	Decode  *engine.DecodeConfig

	Paths Paths
	// Framing is flowsim.Options.Framing: 0 for payload at the full rate, or the share that frames take.
	Framing float64
	// Latency is added to each transfer by tier, and Setup to all.
	Latency [4]time.Duration
	Setup   time.Duration
	// Pieces is in how many pieces a prompt's transfer leaves while its prefill computes;
	// nil: after it. Replay needs it, a controller says it itself.
	Pieces func(promptTokens int) int
	// Timeout ends a transfer that takes longer, from its order on (overlapped: from the
	// end of the prefill); 0 never does.
	Timeout time.Duration
	// Background is the share of a tier's links that others use.
	Background [4]float64
	// Refresh is the oracle's period; 0 tells no congestion. Congestion turns what is
	// true at a poll into what the oracle says (noise, loss); nil says the truth.
	Refresh    time.Duration
	Staleness  time.Duration
	Congestion func(poll uint64, truth [4]float64) (said [4]float64, ok bool)
	// CountOwn adds the transfers' own load to the congestion (no separation by class).
	CountOwn bool
}

// network builds the fluid network of the mode.
func (c *Config) network() (*flowsim.Network, error) {
	opt := flowsim.Options{Framing: c.Framing}
	if c.Paths == PathTier {
		caps, err := flowsim.TierCapacities(c.Plan, flowsim.Paper, c.Background)
		if err != nil {
			return nil, err
		}
		return flowsim.New(caps, opt)
	}
	caps, err := flowsim.WithBackground(c.Plan, flowsim.Paper, func(h fabric.Hop) float64 {
		return c.Background[c.Plan.Links[h.Link].Tier]
	})
	if err != nil {
		return nil, err
	}
	return flowsim.New(caps, opt)
}

func (c *Config) check() error {
	switch c.Paths {
	case PathSlots, PathSplit, PathTier:
	default:
		return fmt.Errorf("flow world: paths must be %s, %s or %s, got %q", PathSlots, PathSplit, PathTier, c.Paths)
	}
	if c.Paths == PathTier && c.Decode == nil {
		return fmt.Errorf("flow world: paths %s knows prefill instances only, and explicit flows have none", PathTier)
	}
	if len(c.Senders) == 0 || len(c.Receivers) == 0 {
		return fmt.Errorf("flow world: no instances")
	}
	return nil
}
