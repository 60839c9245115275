package flowworld_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/scenarios"
)

// control runs policies on ten seeds of the paper's cluster, changed by settings.
func control(t *testing.T, settings []string, policies ...string) *results.Summary {
	t.Helper()
	var all []results.Record
	for seed := 1; seed <= 10; seed++ {
		s, err := scenarios.Load("paper-64gpu", append([]string{
			"workload.synthetic.requests=150", "workload.synthetic.rate=2/s", fmt.Sprintf("seeds=[%d]", seed),
		}, settings...)...)
		require.NoError(t, err)
		for _, p := range policies {
			all = append(all, run(t, s, p, nil)...)
		}
	}
	return analysis.Summarize(all, results.Meta{Policies: policies})
}

// gainOf is the change of the transfer time in percent and its interval.
func gainOf(t *testing.T, s *results.Summary, policy, baseline string) (pct, ci float64) {
	t.Helper()
	for _, g := range s.Gains {
		if g.Policy == policy && g.Baseline == baseline && g.Metric == results.MetricTransfer {
			require.NotNil(t, g.FlowPct)
			require.NotNil(t, g.FlowCI95, "no gain without its interval")
			t.Logf("%s vs %s: %+.1f ± %.1f %%, peak into one %d, %d", policy, baseline, *g.FlowPct, *g.FlowCI95,
				s.Worlds[results.WorldFlow][policy].PeakTransfersIntoOne, s.Worlds[results.WorldFlow][baseline].PeakTransfersIntoOne)
			return *g.FlowPct, *g.FlowCI95
		}
	}
	t.Fatalf("no gain of %s over %s", policy, baseline)
	return 0, 0
}

// TestAwarenessOfNothingGainsNothing is the negative control: where the network makes no
// difference, knowing it gains nothing. There NetKV loses to policies that spread by load,
// because its decode term counts running sequences but not those still in transfer.
func TestAwarenessOfNothingGainsNothing(t *testing.T) {
	t.Parallel()
	policies := []string{"random", "rr", "cla", "netkv-topo", "netkv-full"}
	for _, tt := range []struct {
		name     string
		onePod   bool
		settings []string
	}{
		{"one pod, every pair of tier 2", true, []string{"topology.pods=1", "topology.serversPerRack=4"}},
		{"no oversubscription", false, []string{"topology.oversubscription={rack: 1, pod: 1}"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := control(t, tt.settings, policies...)
			pct, ci := gainOf(t, s, "netkv-full", "netkv-topo")
			assert.LessOrEqual(t, math.Abs(pct), ci, "what congestion and self-contention add to the map")
			for _, baseline := range policies[:3] {
				pct, ci = gainOf(t, s, "netkv-full", baseline)
				assert.Greater(t, pct, -ci, "faster than %s by nothing", baseline)
			}
			if tt.onePod {
				full, topo := s.Worlds[results.WorldFlow]["netkv-full"], s.Worlds[results.WorldFlow]["netkv-topo"]
				assert.Equal(t, topo.Transfer, full.Transfer, "one tier: the same decisions, to the bit")
				assert.InDelta(t, 1, full.TierShare["2"], 0)
			}
		})
	}
	t.Run("the paper's oversubscription", func(t *testing.T) {
		t.Parallel()
		s := control(t, nil, "rr", "cla", "netkv-full")
		for _, baseline := range []string{"rr", "cla"} {
			pct, ci := gainOf(t, s, "netkv-full", baseline)
			assert.Less(t, pct+ci, -20.0, "the control can fail: here there is something to see")
		}
	})
}

func TestTransfersTakeLongerTheNarrowerTheNetwork(t *testing.T) {
	t.Parallel()
	last := 0.0
	for _, o := range []string{"{rack: 1, pod: 1}", "{rack: 2, pod: 2}", "{rack: 2, pod: 4}", "{rack: 2, pod: 8}"} {
		got := control(t, []string{"topology.oversubscription=" + o}, "rr").Worlds[results.WorldFlow]["rr"].Transfer.Mean
		t.Logf("oversubscription %s: %.0f ms", o, got)
		assert.Greater(t, got, 1.2*last, o)
		last = got
	}
}

func TestTransferTimeIsProportionalToTheRateOfItsBottleneck(t *testing.T) {
	t.Parallel()
	file := trace(t, `{"timestamp": 0, "input_length": 1000, "output_length": 1}`)
	for core, want := range map[int]float64{16: 320, 8: 160, 4: 80} { // 500 MB at 12.5, 25 and 50 Gbps
		text := strings.Replace(fmt.Sprintf(known, 8, file), "pod: 8}", fmt.Sprintf("pod: %d}", core), 1)
		r := run(t, scenario(t, text), "rr", nil)[0]
		assert.InDelta(t, want+0.015, r.TransferMS, 0.001, "core links of %g Gbps", 200/float64(core))
	}
	// A link that is not the bottleneck makes no difference.
	text := strings.Replace(fmt.Sprintf(known, 8, file), "nicRate: 100Gbps", "nicRate: 200Gbps", 1)
	text = strings.Replace(text, "{rack: 4, pod: 8}", "{rack: 8, pod: 16}", 1)
	assert.InDelta(t, 160.015, run(t, scenario(t, text), "rr", nil)[0].TransferMS, 0.001)
}
