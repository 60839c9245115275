package flowsim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/fabrictest"
	"github.com/netkvlab/netkvlab/flowsim"
	"github.com/netkvlab/netkvlab/scenarios"
)

func mustPlan(tb testing.TB, s *scenarios.Scenario) *fabric.Plan {
	tb.Helper()
	p, err := fabric.New(s, scenarios.Scale{Rate: 400, Time: 2})
	require.NoError(tb, err)
	return p
}

// pairOf finds a prefill and a decode instance of a tier.
func pairOf(tb testing.TB, p *fabric.Plan, tier int) (src, dst fabric.NodeID) {
	tb.Helper()
	for _, s := range p.Prefill {
		for _, d := range p.Decode {
			if p.Tier(s, d) == tier {
				return s, d
			}
		}
	}
	require.Fail(tb, "no such pair", "tier %d", tier)
	return 0, 0
}

func TestALoneFlowMovesAtItsTiersRate(t *testing.T) {
	t.Parallel()
	p := mustPlan(t, fabrictest.Paper64())
	bandwidth := p.TierBandwidth()
	for tier := 2; tier <= 3; tier++ {
		src, dst := pairOf(t, p, tier)
		for _, path := range p.EqualCostPaths(src, dst) {
			n := mustNetwork(t, flowsim.Capacities(p)...)
			mustStart(t, n, 0, 1, 1e9, flowsim.AppendPath(nil, path)...)
			rate, _ := n.Rate(1)
			assert.Equal(t, bandwidth[tier].BytesPerSecond(), rate, "tier %d", tier)
		}
	}
}

func TestDirectionsOfALinkAreApart(t *testing.T) {
	t.Parallel()
	p := mustPlan(t, fabrictest.Paper64())
	for i := range p.Links {
		for _, reverse := range []bool{false, true} {
			h := fabric.Hop{Link: fabric.LinkID(i), Reverse: reverse}
			assert.Equal(t, h, flowsim.HopOf(flowsim.HopLink(h)))
		}
	}
	src, dst := pairOf(t, p, 3)
	n := mustNetwork(t, flowsim.Capacities(p)...)
	mustStart(t, n, 0, 1, 3.125e9, flowsim.AppendPath(nil, p.EqualCostPaths(src, dst)[0])...)
	mustStart(t, n, 0, 2, 3.125e9, flowsim.AppendPath(nil, p.EqualCostPaths(dst, src)[0])...)
	assert.Equal(t, map[uint64]time.Duration{1: time.Second, 2: time.Second}, ends(t, n))
}

func TestASplitFlowUsesAllPathsEvenly(t *testing.T) {
	t.Parallel()
	p := mustPlan(t, fabrictest.Paper64())
	src, dst := pairOf(t, p, 3)
	links, weights := flowsim.Split(p.EqualCostPaths(src, dst))
	require.Len(t, links, 2+2*2+2*4, "two NICs, two uplinks of each rack, four core links of each pod")
	byWeight := map[float64]int{}
	for _, w := range weights {
		byWeight[w]++
	}
	assert.Equal(t, map[float64]int{1: 2, 0.5: 4, 0.25: 8}, byWeight)
	n := mustNetwork(t, flowsim.Capacities(p)...)
	require.NoError(t, n.Start(flowsim.Instant{}, flowsim.Flow{ID: 1, Path: links, Weights: weights, Bytes: 12.5e9}))
	assert.Equal(t, map[uint64]time.Duration{1: time.Second}, ends(t, n), "four times 25 Gbps are the NIC's 100")
	links, _ = flowsim.Split(nil)
	assert.Empty(t, links)
}

func TestBackgroundIsLessCapacity(t *testing.T) {
	t.Parallel()
	p := mustPlan(t, fabrictest.Paper64())
	above := func(share float64) func(fabric.Hop) float64 {
		return func(h fabric.Hop) float64 {
			if p.Links[h.Link].Tier >= 2 {
				return share
			}
			return 0
		}
	}
	c, err := flowsim.WithBackground(p, above(0.2))
	require.NoError(t, err)
	for i, rate := range flowsim.Capacities(p) {
		if p.Links[flowsim.HopOf(flowsim.LinkIndex(i)).Link].Tier >= 2 {
			rate *= 0.8
		}
		assert.Equal(t, rate, c[i])
	}
	_, err = flowsim.WithBackground(p, above(1.5))
	require.ErrorContains(t, err, "tor0-0>agg0-0")
}

func TestTheTierModelSharesPerPrefillAndTier(t *testing.T) {
	t.Parallel()
	p := mustPlan(t, fabrictest.Paper64())
	c, err := flowsim.TierCapacities(p, [4]float64{0, 0, 0, 0.2})
	require.NoError(t, err)
	require.Len(t, c, 4*len(p.Prefill))
	n := mustNetwork(t, c...)
	mustStart(t, n, 0, 1, 2.5e9, flowsim.TierLink(0, 3))
	mustStart(t, n, 0, 2, 6.25e9, flowsim.TierLink(0, 2))                   // another tier: alone
	mustStart(t, n, 0, 3, 2.5e9, flowsim.TierLink(1, 3))                    // another prefill: alone
	mustStart(t, n, 500*time.Millisecond, 4, 2.5e9, flowsim.TierLink(0, 3)) // shares with 1
	assert.Equal(t, map[uint64]time.Duration{
		1: 1500 * time.Millisecond, 2: time.Second, 3: time.Second, 4: 2 * time.Second,
	}, ends(t, n))

	_, err = flowsim.TierCapacities(p, [4]float64{2: -1})
	require.ErrorContains(t, err, "tier 2")
}
