package tune

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/scenarios"
)

func load(t *testing.T, settings ...string) *scenarios.Scenario {
	t.Helper()
	s, err := scenarios.Load("paper-64gpu", append([]string{"workload.synthetic.requests=60"}, settings...)...)
	require.NoError(t, err)
	return s
}

func TestSearchIsTheSameEveryTimeAndItsWinnerIsTheLeast(t *testing.T) {
	t.Parallel()
	calls := 0
	a, err := Search(t.Context(), load(t), Options{Seeds: 2, Progress: func(int, int) { calls++ }})
	require.NoError(t, err)
	b, err := Search(t.Context(), load(t), Options{Seeds: 2, Jobs: 1})
	require.NoError(t, err)
	assert.Equal(t, a, b)
	assert.Equal(t, 2*len(ratios), calls)
	for _, p := range a.Weights.Grid {
		assert.GreaterOrEqual(t, p.Score, a.Weights.Grid[a.Best].Score)
	}
	assert.GreaterOrEqual(t, a.Flat, 1)
	text, err := a.Weights.Marshal()
	require.NoError(t, err)
	back, err := scenarios.ParseWeights("w.yaml", text)
	require.NoError(t, err)
	assert.Equal(t, a.Weights, back)
}

func TestMoreIsBetterWhereItIs(t *testing.T) {
	t.Parallel()
	slo, err := analysis.FindMetric("slo")
	require.NoError(t, err)
	scores := make([][]float64, len(ratios))
	for i := range scores {
		scores[i] = []float64{0.5, 0.6}
	}
	scores[3] = []float64{0.9, 0.8}
	r := judge(slo, scores)
	assert.Equal(t, 3, r.Best)
	assert.InDelta(t, 0.05, r.Weights.LoadWeight, 0)
	assert.Greater(t, r.SpreadPct, 30.0)
}

func TestTuningUsesNoSeedOfTheScenario(t *testing.T) {
	t.Parallel()
	s := load(t, fmt.Sprintf("seeds=[1, %d]", firstSeed+1))
	held, said, err := heldOut(s, 3)
	require.NoError(t, err)
	assert.Equal(t, []uint64{firstSeed, firstSeed + 2, firstSeed + 3}, held.Seeds)
	assert.Equal(t, []uint64{1, firstSeed + 1}, s.Seeds, "the scenario is left alone")
	assert.Contains(t, said, "seeds")
}

// trace writes one request per second for the given number of seconds.
func trace(t *testing.T, seconds int) string {
	t.Helper()
	var b strings.Builder
	for i := range seconds {
		fmt.Fprintf(&b, `{"timestamp": %d, "input_length": 600, "output_length": 2, "hash_ids": [%d, %d]}`+"\n", 1000*i, 2*i, 2*i+1)
	}
	file := filepath.Join(t.TempDir(), "trace.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	return file
}

func TestATraceIsTunedOnTheSliceBesideTheScenarios(t *testing.T) {
	t.Parallel()
	file := trace(t, 180)
	for name, tt := range map[string]struct{ start, length, want string }{
		"after, where there is one": {"0s", "60s", "60s"},
		"else before":               {"120s", "60s", "60s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := scenarios.Load("trace-mooncake", "workload.trace.file="+file, "workload.trace.start="+tt.start, "workload.trace.length="+tt.length)
			require.NoError(t, err)
			held, _, err := heldOut(s, 1)
			require.NoError(t, err)
			want, err := time.ParseDuration(tt.want)
			require.NoError(t, err)
			assert.Equal(t, want, held.Workload.Trace.Start)
			_, err = Search(t.Context(), s, Options{Seeds: 1})
			require.NoError(t, err)
		})
	}
	for _, length := range []string{"0s", "170s"} {
		s, err := scenarios.Load("trace-mooncake", "workload.trace.file="+file, "workload.trace.length="+length)
		require.NoError(t, err)
		_, err = Search(t.Context(), s, Options{})
		require.ErrorContains(t, err, "workload.trace.length")
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, opt := range []Options{{Metric: "ttft"}, {Metric: "tier2"}, {Seeds: -1}} {
		_, err := Search(t.Context(), load(t), opt)
		require.Error(t, err)
	}
	flows, err := scenarios.Load("flows-example")
	require.NoError(t, err)
	_, err = Search(t.Context(), flows, Options{})
	require.ErrorContains(t, err, "workload flows")
}

func TestTheGridReachesFromCacheAloneToLoadAlone(t *testing.T) {
	t.Parallel()
	r := ratios
	assert.InDelta(t, 0, policy(r[0]).LoadWeight, 0)
	last := policy(r[len(r)-1])
	assert.InDelta(t, 0, last.CacheWeight, 0)
	assert.True(t, math.IsNaN(r[len(r)-1]))
}
