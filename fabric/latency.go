package fabric

import (
	"fmt"
	"time"

	"github.com/netkvlab/netkvlab/scenarios"
)

// MinLatency is the shortest one-way latency, in this host's time, that is
// emulated. A shorter one is below the lateness of timers and the host's own
// forwarding, about 25 us per round trip.
const MinLatency = 50 * time.Microsecond

// delayPorts gives the switch ports that lead down to the hosts the tiers' latencies,
// so that the delays along every path of a tier add up to the tier's, in either
// direction: every path comes down through one port of tier 1, within a pod through
// one of tier 2 before, and across pods through one of tier 3 before that. If the
// ports that lead up had delays too, the sums would be the same, but each delay
// needs a timer and adds that timer's lateness.
//
// A port's delay is in front of its queue, so it stands for the wire of the hop
// before. Instances have no delay: in front of their own queue it would hide the queue
// from their sockets, and the sockets would fill it.
func (p *Plan) delayPorts(l *scenarios.TierLatency) error {
	p.Latency = [4]time.Duration{1: l.Tier1, 2: l.Tier2, 3: l.Tier3}
	for tier := 1; tier < len(p.Latency); tier++ {
		switch long, below := p.Latency[tier], p.Latency[tier-1]; {
		case long < 0 || long > time.Hour:
			return fmt.Errorf("topology.latency.tier%d is %v, want 0 to %v", tier, long, time.Hour)
		case long < below:
			return fmt.Errorf("topology.latency.tier%d is %v, less than tier%d's %v, through which its paths go", tier, long, tier-1, below)
		}
	}
	var real [4]time.Duration
	for tier := range real {
		if real[tier] = time.Duration(float64(p.Latency[tier]) * p.Scale.Time); real[tier] < MinLatency {
			real[tier], p.Latency[tier] = 0, 0
		}
	}
	for i := range p.Links {
		if link := &p.Links[i]; link.Tier > 0 {
			link.B.Shape.Delay = real[link.Tier] - real[link.Tier-1]
		}
	}
	return nil
}

// Delayed reports whether any port has a delay.
func (p *Plan) Delayed() bool { return p.Latency != [4]time.Duration{} }
