package attribution

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/results"
)

// figure is a mean over two requests of one seed.
func figure(first, second float64) analysis.Figure {
	return analysis.Figure{Unit: analysis.MS, Policy: analysis.Column{{Seed: 1, ID: 0}: first, {Seed: 1, ID: 1}: second}}
}

// Three other runs have means of 10, 12 and 14: s = 2 and t(0.975, 2) = 4.30265 (any table), so
// that one more run lies within t s sqrt(1 + 1/3) of their mean in 95% of cases.
func TestOneMoreRedrawLiesWithinTheIntervalOfDecisions(t *testing.T) {
	t.Parallel()
	chain := []analysis.Figure{figure(5, 5), figure(20, 30)}
	again := []analysis.Figure{figure(9, 11), figure(10, 14), figure(14, 14)}
	e, ok := againstRedraws(chain, 1, again)
	require.True(t, ok)
	assert.InDelta(t, 13, e.Value, 1e-12)
	assert.InDelta(t, 4.302652729911275*2*math.Sqrt(1+1./3), *e.CI95, 1e-9)
	assert.Equal(t, 3, e.N)

	_, ok = againstRedraws(chain, 1, again[:1])
	assert.False(t, ok, "one run has no spread")
	e, ok = againstRedraws(chain, 1, again[:2])
	require.True(t, ok)
	assert.InDelta(t, 14, e.Value, 1e-12)
	_, ok = againstRedraws([]analysis.Figure{{Unit: analysis.MS}, chain[1]}, 1, again)
	assert.False(t, ok, "nothing to compare")
	chain[0].Policy = analysis.Column{{Seed: 1, ID: 1}: 5}
	e, ok = againstRedraws(chain, 1, again)
	require.True(t, ok)
	assert.InDelta(t, (3*30-11-14-14)/3., e.Value, 1e-12, "over the requests that all stages have")
}

func TestFirstDifferentDecisionOfEachSeed(t *testing.T) {
	t.Parallel()
	record := func(seed uint64, id int, decode string) results.Record {
		return results.Record{Policy: "cla", Seed: seed, ID: id, Decode: decode}
	}
	packet := []results.Record{
		record(1, 7, "d0"), record(1, 3, "d1"), record(1, 5, "d2"), record(2, 0, "d0"), record(3, 4, "d0"),
		record(4, 0, ""), record(5, 0, "d0"),
	}
	flow := []results.Record{
		record(1, 7, "d1"), record(1, 3, "d0"), record(1, 5, "d0"), record(2, 0, "d0"), record(3, 4, "d1"),
		record(4, 0, "d0"), record(5, 0, ""),
	}
	assert.Equal(t, []results.DecisionCount{
		{Policy: "cla", Requests: 5, Different: 4, FirstDifferent: map[uint64]int{1: 3, 3: 4}},
		{Policy: "rr"},
	}, countDecisions([]string{"cla", "rr"}, packet, flow))
}

func TestMethodsSayHowOftenTheFlowWorldRanAgain(t *testing.T) {
	t.Parallel()
	assert.Contains(t, redrawsMethod([]job{{redraw: 1}, {redraw: 7}, {redraw: 2}}), "mean of 7 flow runs")
	assert.Contains(t, redrawsMethod([]job{{}}), "absent")
}
