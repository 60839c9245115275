package report

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/results"
)

// waterfall makes a waterfall from its levels; the interval of every second step excludes 0.
func waterfall(policy, baseline, metric, unit string, levels ...float64) results.Waterfall {
	names := []string{"topology", "framing", "paths", "decisions", "starts", "transport"}
	stages := []string{"tier", "random", "framing", "flow", "decisions", "replay", "packet"}
	w := results.Waterfall{Policy: policy, Baseline: baseline, Metric: metric, Unit: unit, Requests: 1200}
	for i, v := range levels {
		w.Levels = append(w.Levels, results.Level{Stage: stages[i], Value: v})
		if i > 0 {
			s := results.Step{Name: names[i-1], From: stages[i-1], To: stages[i], Value: v - levels[i-1], CI95: ptr(1e6)}
			if i%2 == 1 {
				s.CI95 = ptr(0.001)
			}
			w.Steps = append(w.Steps, s)
		}
	}
	w.Gap, w.GapCI95 = ptr(levels[6]-levels[3]), ptr(2.5)
	w.Whole, w.WholeCI95 = ptr(levels[6]-levels[0]), ptr(4.5)
	return w
}

func attributed() *results.Summary {
	s := bothWorlds()
	for i := range s.Gains {
		g := &s.Gains[i]
		g.FlowPairedPct, g.FlowPairedCI95 = ptr(*g.FlowPct+0.5), ptr(1.1)
		g.GapPP = ptr(*g.PacketPct - *g.FlowPairedPct)
	}
	failed := waterfall("netkv-full", "", "transfer_ms", "ms", 500, 560, 590, 600, 601, 601.5, 620)
	failed.NotCompared = 3
	failed.Steps[3].Wide, failed.Steps[3].WideCI95 = ptr(-2.4), ptr(7.1)
	s.Attribution = &results.Attribution{
		Seeds: []uint64{1, 2, 3}, WideSeeds: 20,
		Means: []results.Waterfall{
			waterfall("rr", "", "ttft_ms", "ms", 1800, 1900, 1945, 1950, 1950, 1950.2, 1969),
			waterfall("rr", "", "transfer_ms", "ms", 850, 940, 975, 980, 980, 980.2, 993),
			waterfall("netkv-full", "", "ttft_ms", "ms", 1450, 1510, 1550, 1560, 1561, 1561.5, 1598), failed,
		},
		Gains: []results.Waterfall{
			waterfall("netkv-full", "rr", "ttft_ms", "pp", -19.4, -20.5, -20.3, -20, -19.9, -19.9, -18.8),
			waterfall("netkv-full", "rr", "transfer_ms", "pp", -41.2, -40.4, -39.5, -38.8, -38.7, -38.6, -37.6),
			{Policy: "dead", Baseline: "rr", Metric: "ttft_ms", Unit: "pp", Reason: "no request completed in every stage"},
		},
		Decisions: []results.DecisionCount{{Policy: "rr", Requests: 1200}, {Policy: "netkv-full", Requests: 1197, Different: 31}},
		Transport: []results.TransportClass{
			{Policy: "rr", Class: "alone", N: 90, P50: 1.003, P90: 1.02, ExcessMS: 0.2},
			{Policy: "all", Class: "alone", N: 190, P50: 1.003, P90: 1.02, ExcessMS: 0.2},
			{Policy: "all", Class: "unslowed", N: 210, P50: 1.01, P90: 1.08, ExcessMS: 1.1},
			{Policy: "all", Class: "ack-path", N: 40, P50: 1.004, P90: 1.55, ExcessMS: 3.1},
			{Policy: "all", Class: "newcomer", N: 800, P50: 1.09, P90: 1.8, ExcessMS: 30.6},
			{Policy: "all", Class: "incumbent", N: 700, P50: 0.97, P90: 1.2, ExcessMS: -15.1},
			{Policy: "all", Class: "both", N: 497, P50: 1, P90: 1.3, ExcessMS: 2.2},
		},
		Alone: &results.AloneCheck{
			AloneFigures: results.AloneFigures{N: 190, P50Pct: 0.31, P99Pct: 11.2}, LimitP50Pct: 1, LimitP99Pct: 10, Streams: 4, BackUnknown: 12,
		},
	}
	transfer := s.Attribution.Gains[1].Steps
	transfer[len(transfer)-1].Classes = []results.ClassPart{
		{Class: "alone", Value: 0.1}, {Class: "ack-path", Value: -0.5}, {Class: "newcomer", Value: 2.2}, {Class: "incumbent", Value: -0.8},
	}
	return s
}

func TestManyComparisonsAreCutToTheFirstBaselines(t *testing.T) {
	t.Parallel()
	s := attributed()
	one := s.Attribution.Gains[0]
	s.Attribution.Gains = nil
	for i := range 20 {
		w := one
		w.Policy = "policy-" + string(rune('a'+i))
		if i >= 5 {
			w.Baseline = "cla"
		}
		s.Attribution.Gains = append(s.Attribution.Gains, w)
	}
	var b bytes.Buffer
	require.NoError(t, Text(&b, s, Options{}))
	assert.Contains(t, b.String(), "policy-e vs rr")
	assert.NotContains(t, b.String(), "policy-f vs cla")
	assert.Contains(t, b.String(), "15 further comparisons")
}
