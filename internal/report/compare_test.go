package report

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/analysis/compare"
)

func threeSources() *compare.Comparison {
	v := func(value, ci float64) compare.Value { return compare.Value{Value: value, CI95: &ci, Requests: 1200} }
	row := func(policy, baseline, metric string, paired bool, values, gaps []compare.Value) compare.Row {
		return compare.Row{Policy: policy, Baseline: baseline, Metric: metric, Paired: paired, Values: values, Gaps: gaps}
	}
	none := compare.Row{Policy: "rr", Metric: "ttft_ms", Reason: "source C has no completed request with this figure"}
	short := v(600, 0)
	short.CI95 = nil
	return &compare.Comparison{
		Sources: []compare.SourceInfo{
			{Name: "netkvlab-runs/paper-64gpu-20260101-120000", World: "packet", Scenario: "paper-64gpu", Verdict: "good", Requests: 3600, Completed: 3590},
			{Name: "netkvlab-runs/paper-64gpu-20260101-120000:flow", World: "flow", Scenario: "paper-64gpu", Requests: 24000, Completed: 24000},
			{Name: "simulator.csv", Requests: 3600, Completed: 3600},
		},
		Means: []compare.Row{
			none,
			row("rr", "", "transfer_ms", true, []compare.Value{v(993, 20), v(980, 18), v(850, 12)}, []compare.Value{v(-13, 4), v(-143, 22)}),
			row("netkv-full", "", "transfer_ms", false, []compare.Value{v(620, 9), short, v(500, 8)}, []compare.Value{{Value: -20}, v(-120, 12)}),
		},
		Gains: []compare.Row{
			row("netkv-full", "rr", "transfer_ms", true, []compare.Value{v(-37.6, 2.1), v(-38.8, 0.4), v(-41.2, 1)}, []compare.Value{v(-1.2, 0.8), v(-3.6, 1.1)}),
		},
		Notes: []string{"A: rr did not complete 10 of 1200 requests, which are not compared"},
	}
}

func TestEmptyComparisonPrints(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	require.NoError(t, Compare(&b, &compare.Comparison{}, Options{}))
	require.ErrorIs(t, Compare(brokenPipe{}, threeSources(), Options{}), errPipe)
}
