package attribution_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/analysis/attribution"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/internal/workload"
)

var comparisons = [][2]string{{"cla", "rr"}, {"netkv-full", "rr"}, {"netkv-full", "cla"}}

// late shifts arrivals by up to a tenth of a millisecond, as a real clock would.
func late(reqs []workload.Request) {
	rng := rand.New(rand.NewPCG(5, 5))
	for i := range reqs {
		reqs[i].Arrival += time.Duration(rng.Int64N(1e5))
	}
	slices.SortStableFunc(reqs, func(a, b workload.Request) int { return int(a.Arrival - b.Arrival) })
}

// threeWorlds returns the records of a run whose packet transfers took up to a tenth longer.
func threeWorlds(t *testing.T, e trials.Flow) []results.Record {
	t.Helper()
	packet := slowed(play(t, e, results.WorldPacket, []uint64{1, 2}, late), func(rng *rand.Rand) float64 { return 1 + rng.Float64()/10 })
	return slices.Concat(packet, replayed(t, e, packet), play(t, e, results.WorldFlow, []uint64{1, 2, 3}, nil))
}

func explain(t *testing.T, e trials.Flow, records []results.Record) *results.Attribution {
	t.Helper()
	a, err := attribution.Explain(t.Context(), e, records, transfers(t, e, records), comparisons)
	require.NoError(t, err)
	return a
}

// transfers classifies those of a run's records.
func transfers(t *testing.T, e trials.Flow, records []results.Record) []attribution.Transfer {
	t.Helper()
	of := func(world string) []results.Record {
		return slices.DeleteFunc(slices.Clone(records), func(r results.Record) bool { return r.World != world })
	}
	out, err := attribution.Classify(t.Context(), e.Config, of(results.WorldPacket), of(results.WorldReplay))
	require.NoError(t, err)
	return out
}

func TestStepsAddUpToTheGap(t *testing.T) {
	t.Parallel()
	e := experiment(t)
	records := threeWorlds(t, e)
	a := explain(t, e, records)
	require.Equal(t, []uint64{1, 2}, a.Seeds)
	require.Equal(t, 3, a.WideSeeds)
	require.Len(t, a.Means, 2*len(e.Cluster.Policies()))
	require.Len(t, a.Gains, 2*len(comparisons))
	for _, w := range append(a.Means, a.Gains...) {
		require.Empty(t, w.Reason)
		assert.Equal(t, 100, w.Requests)
		assert.Zero(t, w.NotCompared)
		require.Len(t, w.Levels, 7)
		require.Len(t, w.Steps, 6)
		first, flow, last := w.Levels[0].Value, w.Levels[3].Value, w.Levels[6].Value
		sum, gap := 0.0, 0.0
		for i, s := range w.Steps {
			assert.Equal(t, w.Levels[i].Stage, s.From)
			assert.Equal(t, w.Levels[i+1].Stage, s.To)
			assert.InDelta(t, w.Levels[i+1].Value-w.Levels[i].Value, s.Value, 1e-9)
			require.NotNil(t, s.CI95)
			assert.Equal(t, i < 4, s.Wide != nil, "%s", s.Name)
			sum += s.Value
			if i >= 3 {
				gap += s.Value
			}
		}
		assert.InDelta(t, last-first, sum, 1e-9)
		assert.InDelta(t, *w.Whole, sum, 1e-9)
		assert.InDelta(t, *w.Gap, gap, 1e-9)
		assert.InDelta(t, last-flow, *w.Gap, 1e-9)
	}
	agreesWithGains(t, records, a)
}

// agreesWithGains compares with the summary's own gap, computed by other code.
func agreesWithGains(t *testing.T, records []results.Record, a *results.Attribution) {
	t.Helper()
	s := analysis.Summarize(records, results.Meta{Policies: []string{"rr", "cla", "netkv-full"}, Seeds: []uint64{1, 2}})
	found := 0
	for _, g := range s.Gains {
		for _, w := range a.Gains {
			if g.Policy == w.Policy && g.Baseline == w.Baseline && g.Metric == w.Metric {
				found++
				assert.InDelta(t, *g.GapPP, *w.Gap, 1e-9)
				assert.InDelta(t, *g.TransportPP, w.Steps[5].Value, 1e-9)
				assert.InDelta(t, *g.DecisionsPP, w.Steps[3].Value+w.Steps[4].Value, 1e-9)
			}
		}
	}
	assert.Len(t, a.Gains, found)
}

func TestRoundRobinDecidesAlikeAndItsDecisionsPartIsNothing(t *testing.T) {
	t.Parallel()
	e := experiment(t)
	a := explain(t, e, threeWorlds(t, e))
	require.Equal(t, "rr", a.Decisions[0].Policy)
	require.Equal(t, 100, a.Decisions[0].Requests)
	require.Zero(t, a.Decisions[0].Different)
	assert.Empty(t, a.Decisions[0].FirstDifferent)
	for _, w := range a.Means {
		if w.Policy != "rr" {
			continue
		}
		assert.Zero(t, w.Steps[3].Value, "to the bit: both runs are one")
		assert.Zero(t, *w.Steps[3].CI95)
		require.NotNil(t, w.Steps[3].Wide)
		assert.Zero(t, *w.Steps[3].Wide, "it breaks no ties, so other luck is the same luck")
		assert.InDelta(t, 0, *w.Steps[3].WideCI95, 1e-9)
		assert.InDelta(t, 0, w.Steps[4].Value, 5, "starts a tenth of a millisecond apart")
	}
}

func TestRunThatIsItsOwnPacketWorldHasNoGap(t *testing.T) {
	t.Parallel()
	e := experiment(t)
	packet := play(t, e, results.WorldPacket, []uint64{1, 2}, nil)
	a := explain(t, e, slices.Concat(packet, replayed(t, e, packet), play(t, e, results.WorldFlow, []uint64{1, 2}, nil)))
	for _, w := range append(a.Means, a.Gains...) {
		assert.InDelta(t, 0, *w.Gap, 1e-3)
		assert.Zero(t, w.Steps[3].Value, "decisions")
		assert.InDelta(t, 0, w.Steps[4].Value, 1e-3, "starts: within what rounding bytes to whole emulated ones does")
		assert.InDelta(t, 0, w.Steps[5].Value, 1e-3, "transport")
		assert.NotZero(t, w.Steps[0].Value, "the tree is not the paper's model")
	}
	for _, d := range a.Decisions {
		assert.Zero(t, d.Different)
	}
	require.NotNil(t, a.Alone)
	assert.True(t, a.Alone.Within)
	for _, c := range a.Transport {
		assert.InDelta(t, 1, c.P90, 1e-6)
	}
}

// The flow world's own decisions are one random draw among many possible ones: their distance
// from the mean of others must lie inside the interval in most trials.
func TestOwnDecisionsAreWithinLuck(t *testing.T) {
	t.Parallel()
	e := experiment(t, "policies=[random]")
	inside := 0
	const trials = 12
	for seed := range uint64(trials) {
		packet := play(t, e, results.WorldPacket, []uint64{seed + 1}, nil)
		flow := play(t, e, results.WorldFlow, []uint64{seed + 1}, nil)
		records := slices.Concat(packet, replayed(t, e, packet), flow)
		a, err := attribution.Explain(t.Context(), e, records, transfers(t, e, records), nil)
		require.NoError(t, err)
		s := a.Means[1].Steps[3]
		require.Equal(t, "decisions", s.Name)
		require.Zero(t, s.Value, "nothing was decided otherwise")
		require.Positive(t, *s.WideCI95)
		if *s.Wide <= *s.WideCI95 && -*s.Wide <= *s.WideCI95 {
			inside++
		}
	}
	assert.GreaterOrEqual(t, inside, trials-2)
}

func TestOrderOfRecordsDoesNotMatter(t *testing.T) {
	t.Parallel()
	e := experiment(t)
	records := threeWorlds(t, e)
	want, err := json.Marshal(explain(t, e, records))
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(9, 9))
	rng.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
	got, err := json.Marshal(explain(t, e, records))
	require.NoError(t, err)
	assert.JSONEq(t, string(want), string(got))
}

func TestClassesOfAPolicyAddUpToItsTransportStep(t *testing.T) {
	t.Parallel()
	e := experiment(t)
	a := explain(t, e, threeWorlds(t, e))
	sum := map[string]float64{}
	n := map[string]int{}
	for _, c := range a.Transport {
		sum[c.Policy] += c.ExcessMS
		n[c.Policy] += c.N
		assert.GreaterOrEqual(t, c.P50, 1.0)
		assert.LessOrEqual(t, c.P90, 1.1)
	}
	for _, w := range a.Means {
		if w.Metric == results.MetricTransfer {
			assert.InDelta(t, w.Steps[5].Value, sum[w.Policy], 1e-9)
		}
	}
	assert.Equal(t, n[results.AllPolicies], n["rr"]+n["cla"]+n["netkv-full"])
	assert.False(t, a.Alone.Within, "packets that take 5% longer are not ideal")
	assert.InDelta(t, 5, a.Alone.P50Pct, 2)
	assert.Equal(t, 4, a.Alone.Streams)
	assert.Equal(t, a.Alone.N, a.Alone.Tiers["2"].N+a.Alone.Tiers["3"].N)
}

// Acknowledgements on paths where others send: transfers that were alone or unslowed move to
// class ack-path, and the parts still add up, in ms and in points.
func TestPartsOfTheTransportStepAddUpToIt(t *testing.T) {
	t.Parallel()
	e := experiment(t)
	records := threeWorlds(t, e)
	before := explain(t, e, records)
	assert.Positive(t, before.Alone.BackUnknown)
	for i := range records {
		for j := range records[i].Streams {
			s := &records[i].Streams[j]
			s.BackPath = records[(i+1)%len(records)].Streams[0].Path // the path on which another sends
		}
	}
	a := explain(t, e, records)
	assert.Zero(t, a.Alone.BackUnknown)
	n := func(a *results.Attribution, classes ...string) (sum int) {
		for _, c := range a.Transport {
			if c.Policy == results.AllPolicies && slices.Contains(classes, c.Class) {
				sum += c.N
			}
		}
		return sum
	}
	free := []string{attribution.ClassAlone, attribution.ClassUnslowed}
	assert.Zero(t, n(before, attribution.ClassAckPath))
	assert.Positive(t, n(a, attribution.ClassAckPath))
	assert.Equal(t, n(before, free...), n(a, append(free, attribution.ClassAckPath)...))
	assert.Equal(t, n(before, attribution.ClassBoth), n(a, attribution.ClassBoth))
	for _, w := range append(a.Means, a.Gains...) {
		transport := w.Steps[5]
		sum, parts := 0.0, map[string]float64{}
		for _, c := range transport.Classes {
			sum += c.Value
			parts[c.Class] = c.Value
		}
		require.Contains(t, parts, attribution.ClassAckPath)
		assert.InDelta(t, transport.Value, sum, 1e-9, "%s %s %s", w.Policy, w.Baseline, w.Metric)
		assert.Nil(t, w.Steps[4].Classes)
		for _, c := range a.Transport {
			if w.Baseline == "" && w.Metric == results.MetricTransfer && c.Policy == w.Policy {
				assert.InDelta(t, c.ExcessMS, parts[c.Class], 1e-9)
			}
		}
	}
}

// A request that did not complete in one world is left out of all, and is counted.
func TestFailedRequestsAreLeftOutAndCounted(t *testing.T) {
	t.Parallel()
	e := experiment(t)
	records := threeWorlds(t, e)
	failed := 0
	for i := range records {
		r := &records[i]
		if r.Policy == "cla" && r.ID%10 == 0 && r.World != results.WorldFlow {
			*r = results.Record{World: r.World, Policy: r.Policy, Seed: r.Seed, ID: r.ID, Status: results.Failed, Reason: "agent died", Tier: -1}
			failed++
		}
	}
	a := explain(t, e, records)
	for _, w := range a.Means {
		if w.Policy == "cla" {
			assert.Equal(t, failed/2, w.NotCompared)
			assert.Equal(t, 100-failed/2, w.Requests)
		} else {
			assert.Zero(t, w.NotCompared)
		}
	}
}

func TestNothingCompletedHasAReasonAndNoFigures(t *testing.T) {
	t.Parallel()
	e := experiment(t)
	records := threeWorlds(t, e)
	for i := range records {
		if records[i].Policy == "cla" {
			records[i].Status, records[i].Reason = results.Failed, "agent died"
		}
	}
	a := explain(t, e, records)
	for _, w := range append(a.Means, a.Gains...) {
		if w.Policy == "cla" || w.Baseline == "cla" {
			assert.Equal(t, "no request completed in every stage", w.Reason)
			assert.Empty(t, w.Steps)
			assert.Nil(t, w.Gap)
		}
	}
}

func TestExplainFails(t *testing.T) {
	t.Parallel()
	t.Run("with the context's error when cancelled", func(t *testing.T) {
		t.Parallel()
		e := experiment(t)
		records := threeWorlds(t, e)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := attribution.Explain(ctx, e, records, nil, comparisons)
		assert.ErrorIs(t, err, context.Canceled)
	})
	t.Run("naming a policy that the scenario does not have", func(t *testing.T) {
		t.Parallel()
		e := experiment(t)
		_, err := attribution.Explain(t.Context(), e, []results.Record{{World: results.WorldPacket, Policy: "magic", Seed: 1}}, nil, nil)
		assert.ErrorContains(t, err, "magic")
	})
	t.Run("naming the trial whose replay is of others", func(t *testing.T) {
		t.Parallel()
		e := experiment(t)
		_, err := attribution.Classify(t.Context(), e.Config, []results.Record{{Policy: "rr", Seed: 4}}, nil)
		assert.ErrorContains(t, err, "rr, seed 4")
	})
}
