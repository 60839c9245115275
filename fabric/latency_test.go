package fabric_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/fabrictest"
	"github.com/netkvlab/netkvlab/scenarios"
)

const ms = time.Millisecond

func latencies(tier0, tier1, tier2, tier3 time.Duration) scenarios.TierLatency {
	return scenarios.TierLatency{Tier0: tier0, Tier1: tier1, Tier2: tier2, Tier3: tier3}
}

// Law: along every path of every pair, in both directions, the delays add up to
// the tier's latency in this host's time.
func TestDelaysOfAPathAddUpToItsTiersLatency(t *testing.T) {
	t.Parallel()
	for _, s := range []*scenarios.Scenario{fabrictest.Paper64(), fabrictest.Paper64Background(), fabrictest.Rail64(), fabrictest.KAry(4)} {
		for _, stretch := range []float64{1, 2.5} {
			s.Topology.Latency = latencies(0, ms, 2*ms, 4*ms+1)
			p := mustPlan(t, s, scale(100, stretch))
			require.Equal(t, [4]time.Duration{0, ms, 2 * ms, 4*ms + 1}, p.Latency)
			seen := map[int]bool{}
			for src := range p.Nodes {
				for dst := range p.Nodes {
					a, b := fabric.NodeID(src), fabric.NodeID(dst)
					if src == dst || p.Nodes[a].IsSwitch() || p.Nodes[b].IsSwitch() {
						continue
					}
					tier := p.Tier(a, b)
					seen[tier] = true
					for _, path := range p.EqualCostPaths(a, b) {
						var sum time.Duration
						for _, hop := range path {
							sum += p.Egress(hop).Shape.Delay
						}
						require.Equal(t, time.Duration(float64(p.Latency[tier])*stretch), sum, "%s: %s to %s", s.Name, p.Nodes[a].Name, p.Nodes[b].Name)
					}
				}
			}
			assert.True(t, seen[3])
		}
	}
}

func TestWhatALatencyBecomes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		latency  scenarios.TierLatency
		stretch  float64
		emulated [4]time.Duration // paper time
		delays   [4]time.Duration // of the ports that lead down, by tier, real time
	}{
		{"the paper's microseconds are too short", latencies(1000, 3000, 8000, 15000), 1, [4]time.Duration{}, [4]time.Duration{}},
		{"a stretched clock brings them within reach", latencies(1000, 3000, 8000, 15000), 10, [4]time.Duration{2: 8000, 3: 15000}, [4]time.Duration{2: 80_000, 3: 70_000}},
		{"a tier's latency is its own and what is below", latencies(0, ms, 2*ms, 4*ms), 1, [4]time.Duration{1: ms, 2: 2 * ms, 3: 4 * ms}, [4]time.Duration{1: ms, 2: ms, 3: 2 * ms}},
		{"a short tier below a long one has none", latencies(0, 10_000, 2*ms, 2*ms), 1, [4]time.Duration{2: 2 * ms, 3: 2 * ms}, [4]time.Duration{2: 2 * ms}},
		{"NVLinks never have any", latencies(ms, ms, ms, ms), 1, [4]time.Duration{1: ms, 2: ms, 3: ms}, [4]time.Duration{1: ms}},
		{"50 us are enough", latencies(0, 49_999, 50_000, 50_000), 1, [4]time.Duration{2: 50_000, 3: 50_000}, [4]time.Duration{2: 50_000}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := fabrictest.Paper64()
			s.Topology.Latency = tc.latency
			p := mustPlan(t, s, scale(100, tc.stretch))
			assert.Equal(t, tc.emulated, p.Latency)
			assert.Equal(t, tc.emulated != [4]time.Duration{}, p.Delayed())
			for i := range p.Links {
				l := &p.Links[i]
				assert.Zero(t, l.A.Shape.Delay, "ports that lead up, and hosts, have none")
				assert.Equal(t, tc.delays[l.Tier], l.B.Shape.Delay, "tier %d", l.Tier)
			}
		})
	}
}
