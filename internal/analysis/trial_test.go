package analysis

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

func small(t *testing.T, settings ...string) trials.Flow {
	t.Helper()
	s, err := scenarios.Load("paper-64gpu", append([]string{"workload.synthetic.requests=50"}, settings...)...)
	require.NoError(t, err)
	c, err := trials.NewServing(s)
	require.NoError(t, err)
	return trials.Flow{Cluster: c}
}

func TestEqualTrialsGiveEqualFigures(t *testing.T) {
	t.Parallel()
	p := scenarios.NewPolicy("netkv-full")
	a, err := PlayTrial(t.Context(), small(t), trials.Trial{Policy: p, Seed: 1})
	require.NoError(t, err)
	c := small(t)
	b, err := PlayTrial(t.Context(), c, trials.Trial{Policy: p, Seed: 1})
	require.NoError(t, err)
	assert.Equal(t, a, b)
	b, err = PlayTrial(t.Context(), small(t), trials.Trial{Policy: p, Seed: 1})
	require.NoError(t, err)
	assert.Equal(t, a, b)
	assert.Equal(t, 50, a.Completed)
	shares := 0.0
	for _, tier := range []string{"tier0", "tier1", "tier2", "tier3"} {
		shares += a.Value(tier)
	}
	assert.InDelta(t, 1, shares, 1e-12)
	assert.True(t, math.IsNaN(a.Value("decision_mean")), "nobody held a clock")
}

func TestEveryMetricIsMeasuredWhereAClockIsHeld(t *testing.T) {
	t.Parallel()
	var now int64
	f, err := PlayTrial(t.Context(), small(t), trials.Trial{Policy: scenarios.NewPolicy("rr"), Seed: 1, Stopwatch: func() int64 { now += 1500; return now }})
	require.NoError(t, err)
	for _, m := range Metrics() {
		assert.False(t, math.IsNaN(f.Value(m.Name)), m.Name)
		assert.NotEmpty(t, m.Meaning)
	}
	assert.Len(t, f.Values, len(Metrics()), "no figure without a metric")
	assert.InDelta(t, 1.5, f.Value("decision_mean"), 1e-9)
	_, err = FindMetric("ttft")
	require.ErrorContains(t, err, "ttft_mean")
}

// Another ECMP mode changes times, not what round robin decides.
func TestPathsChangeTheNetworkOnly(t *testing.T) {
	t.Parallel()
	c := small(t)
	c.ByTier = true
	f, err := PlayTrial(t.Context(), c, trials.Trial{Policy: scenarios.NewPolicy("rr"), Seed: 1})
	require.NoError(t, err)
	g, err := PlayTrial(t.Context(), small(t), trials.Trial{Policy: scenarios.NewPolicy("rr"), Seed: 1})
	require.NoError(t, err)
	assert.InDelta(t, g.Value("tier3"), f.Value("tier3"), 1e-12, "round robin does not look")
	assert.NotEqual(t, g.Value("transfer_mean"), f.Value("transfer_mean"))
}

func TestWhatCannotRunIsRefused(t *testing.T) {
	t.Parallel()
	flows, err := scenarios.Load("flows-example")
	require.NoError(t, err)
	_, err = trials.NewServing(flows)
	require.ErrorContains(t, err, "workload flows")
	_, err = PlayTrial(t.Context(), small(t), trials.Trial{Policy: scenarios.Policy{Name: "no-such"}, Seed: 1})
	require.Error(t, err)
}

func TestAScaleOfAutoNeedsNoHost(t *testing.T) {
	t.Parallel()
	c := small(t, "scale.rate=auto")
	_, err := PlayTrial(t.Context(), c, trials.Trial{Policy: scenarios.NewPolicy("rr"), Seed: 1})
	require.NoError(t, err)
}

func TestATrialIsMeasuredAlikeInEveryWorld(t *testing.T) {
	t.Parallel()
	slo := results.SLO{TTFT: time.Second}
	rng := rand.New(rand.NewPCG(1, 1))
	flow := []results.Record{madeRecord(rng, results.WorldFlow, "rr", 1, 0), madeRecord(rng, results.WorldFlow, "rr", 1, 1)}
	packet := slices.Clone(flow)
	packet[0].World, packet[1].World = results.WorldPacket, results.WorldPacket
	f := Measure(packet, slo)
	assert.Equal(t, 2, f.Completed)
	assert.Positive(t, f.Value("transfer_mean"))
	assert.Equal(t, Measure(flow, slo), f)
}

func TestMeasureOfNothingHasNoFigures(t *testing.T) {
	t.Parallel()
	f := Measure(nil, results.SLO{})
	assert.Equal(t, 0, f.Submitted)
	assert.True(t, math.IsNaN(f.Value("ttft_mean")))
}
