package analysis

import (
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/results"
)

func TestSummaryDoesNotDependOnOrder(t *testing.T) {
	t.Parallel()
	records := madeRun(30)
	want, err := json.Marshal(Summarize(records, testMeta()))
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(5, 5))
	for range 5 {
		rng.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
		got, err := json.Marshal(Summarize(records, testMeta()))
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got))
		require.Equal(t, string(want), string(got))
	}
}

func TestSummaryLaws(t *testing.T) {
	t.Parallel()
	s := Summarize(madeRun(30), testMeta())
	for world, policies := range s.Worlds {
		for policy, g := range policies {
			c := g.Requests
			assert.Equal(t, c.Submitted, c.Completed+c.Failed+c.Incomplete, "%s/%s", world, policy)
			if g.Transfers > 0 {
				var sum float64
				for _, share := range g.TierShare {
					sum += share
				}
				assert.InDelta(t, 1, sum, 1e-12)
			}
			for _, f := range []*results.Stats{g.TTFT, g.TBT, g.Transfer, g.Queue, g.Prefill, g.Decision} {
				if f != nil {
					assert.True(t, f.Min <= f.P50 && f.P50 <= f.P90 && f.P90 <= f.P99 && f.P99 <= f.Max)
					assert.True(t, f.Min <= f.Mean && f.Mean <= f.Max)
				}
			}
			if g.TTFT != nil {
				assert.Positive(t, g.TTFT.Min)
			}
		}
	}
	for _, g := range s.Gains {
		if g.GapPP != nil && g.TransportPP != nil {
			assert.InDelta(t, *g.GapPP, *g.TransportPP+*g.DecisionsPP, 1e-9)
		}
	}
}

func TestPolicyThatCompletesNothingHasReasonsAndNoFigures(t *testing.T) {
	t.Parallel()
	s := Summarize(madeRun(30), testMeta())
	g := s.Worlds[results.WorldPacket]["dead"]
	assert.Equal(t, results.Counts{Submitted: 90, Failed: 90}, g.Requests)
	assert.Equal(t, "no request completed", g.Reason)
	assert.Equal(t, map[string]int{"decode instance died": 90}, g.FailureReasons)
	assert.Nil(t, g.TTFT)
	assert.Nil(t, g.TierShare)
	require.NotNil(t, g.SLOAttainment, "failed requests miss their SLO")
	assert.Zero(t, *g.SLOAttainment)

	gain := findGain(t, s, "dead", "rr", results.MetricTTFT)
	assert.Nil(t, gain.PacketPct)
	assert.Equal(t, 90, gain.Worlds[results.WorldPacket].PolicyNotCompleted)
	assert.Equal(t, "no request completed under both policies", gain.Worlds[results.WorldPacket].Reason)
	slo := findGain(t, s, "dead", "rr", results.MetricSLO)
	require.NotNil(t, slo.PacketPct)
	assert.Negative(t, *slo.PacketPct)
}

func TestOnlyFailuresHaveReasonsCounted(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	retried := madeRecord(rng, results.WorldPacket, "rr", 1, 0)
	retried.Reason = "completed at the second attempt"
	silent := fail(madeRecord(rng, results.WorldPacket, "rr", 1, 1), "")
	dead := fail(madeRecord(rng, results.WorldPacket, "rr", 1, 2), "agent died")
	g := Summarize([]results.Record{retried, silent, dead}, results.Meta{}).Worlds[results.WorldPacket]["rr"]
	assert.Equal(t, map[string]int{"agent died": 1}, g.FailureReasons)
}

func TestGainIsPairedByRequest(t *testing.T) {
	t.Parallel()
	var records []results.Record
	for seed := uint64(1); seed <= 3; seed++ {
		rng := rand.New(rand.NewPCG(seed, 9))
		for id := range 10 {
			base := madeRecord(rng, results.WorldPacket, "rr", seed, id)
			fast := base
			fast.Policy = "netkv-full"
			fast.TransferMS = base.TransferMS * 0.8
			fast.TTFTMS = ptr(*base.TTFTMS - base.TransferMS*0.2)
			if id == 0 {
				fast = fail(fast, "timeout") // must not improve the gain: its partner is left out too
			}
			records = append(records, base, fast)
		}
	}
	meta := testMeta()
	meta.Policies, meta.Worlds = []string{"rr", "netkv-full"}, nil
	g := findGain(t, Summarize(records, meta), "netkv-full", "rr", results.MetricTransfer)
	require.NotNil(t, g.PacketPct)
	assert.InDelta(t, -20, *g.PacketPct, 1e-9)
	require.NotNil(t, g.PacketCI95)
	assert.InDelta(t, 0, *g.PacketCI95, 1e-9, "every seed gains the same")
	assert.Equal(t, 27, g.Worlds[results.WorldPacket].Pairs)
	assert.Equal(t, 3, g.Worlds[results.WorldPacket].PolicyNotCompleted)
	assert.Nil(t, g.FlowPct)
	assert.Nil(t, g.GapPP, "one world has no gap")
}

func TestOnlyTheSameSeedAndRequestMakeAPair(t *testing.T) {
	t.Parallel()
	at := func(seed uint64, id int) *results.Record {
		return &results.Record{Seed: seed, ID: id, TransferMS: float64(10*seed) + float64(id)}
	}
	policy := []*results.Record{at(1, 0), at(3, 0), at(3, 2), at(4, 1)}
	baseline := []*results.Record{at(2, 0), at(3, 0), at(3, 1), at(3, 2), at(5, 1)}
	table := Table{}
	for _, r := range policy {
		table.Set(Cell{"flow", "a", results.MetricTransfer}, keyOf(r), &r.TransferMS)
	}
	for _, r := range baseline {
		table.Set(Cell{"flow", "b", results.MetricTransfer}, keyOf(r), &r.TransferMS)
	}
	f := table.Figure(Cell{"flow", "a", results.MetricTransfer}, "b")
	keys := Requests(f)
	assert.Equal(t, []Key{{3, 0}, {3, 2}}, keys)
	assert.Equal(t, []float64{30, 32}, f.Policy.at(keys))
	assert.Equal(t, []float64{30, 32}, f.Baseline.at(keys))
}

func TestGainOfEqualPoliciesIsZero(t *testing.T) {
	t.Parallel()
	var records []results.Record
	for id := range 40 {
		rng := rand.New(rand.NewPCG(1, uint64(id)))
		r := madeRecord(rng, results.WorldFlow, "a", 1, id)
		twin := r
		twin.Policy = "b"
		records = append(records, r, twin)
	}
	s := Summarize(records, results.Meta{Seeds: []uint64{1}, Fidelity: results.Fidelity{Verdict: results.VerdictGood}})
	require.Len(t, s.Gains, 3)
	for _, g := range s.Gains {
		require.NotNil(t, g.FlowPct, g.Metric)
		assert.Zero(t, *g.FlowPct)
		require.NotNil(t, g.FlowCI95)
		assert.Zero(t, *g.FlowCI95)
		assert.Equal(t, MethodBatches, g.Worlds[results.WorldFlow].CIMethod)
	}
}

func TestGainAgainstBaselineThatMovedNothing(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	a := madeRecord(rng, results.WorldFlow, "a", 1, 0)
	b := madeRecord(rng, results.WorldFlow, "b", 1, 0)
	*a.TTFTMS -= a.TransferMS
	a.TransferMS = 0
	s := Summarize([]results.Record{a, b}, results.Meta{Seeds: []uint64{1}, Fidelity: results.Fidelity{Verdict: results.VerdictGood}})
	g := findGain(t, s, "b", "a", results.MetricTransfer)
	assert.Nil(t, g.FlowPct)
	assert.Contains(t, g.Worlds[results.WorldFlow].Reason, "is 0")
	assert.Equal(t, results.VerdictGood, s.Fidelity.Verdict)
}

func TestNamedBaselinesLimitTheComparisons(t *testing.T) {
	t.Parallel()
	policies := []string{"rr", "cla", "netkv-full"}
	assert.Equal(t, [][2]string{{"cla", "rr"}, {"netkv-full", "rr"}, {"netkv-full", "cla"}}, Comparisons(policies, nil))
	assert.Equal(t, [][2]string{{"rr", "cla"}, {"netkv-full", "cla"}}, Comparisons(policies, []string{"cla", "unknown"}))
}

func TestInterruptedRunLeavesCutRequestsOutOfTheSLO(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	done := madeRecord(rng, results.WorldPacket, "rr", 1, 0)
	cut := fail(madeRecord(rng, results.WorldPacket, "rr", 1, 1), "interrupted")
	cut.Status = results.Incomplete
	meta := results.Meta{Seeds: []uint64{1}, Fidelity: results.Fidelity{Verdict: results.VerdictDegraded, Reasons: []string{"interrupted"}}}

	meta.Interrupted = true
	s := Summarize([]results.Record{done, cut}, meta)
	g := s.Worlds[results.WorldPacket]["rr"]
	assert.True(t, s.Interrupted)
	assert.Equal(t, results.Counts{Submitted: 2, Completed: 1, Incomplete: 1}, g.Requests)
	assert.InDelta(t, 1, *g.SLOAttainment, 0)

	meta.Interrupted = false
	g = Summarize([]results.Record{done, cut}, meta).Worlds[results.WorldPacket]["rr"]
	assert.InDelta(t, 0.5, *g.SLOAttainment, 0, "without an interruption nobody excuses them")
}

func TestBrokenLawsMakeTheVerdictInvalid(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	r := madeRecord(rng, results.WorldPacket, "rr", 1, 0)
	broken := madeRecord(rng, results.WorldPacket, "rr", 1, 1)
	broken.MovedBytesEmulated = 1
	s := Summarize([]results.Record{r, r, broken}, testMeta())
	assert.Equal(t, results.VerdictInvalid, s.Fidelity.Verdict)
	assert.Equal(t, 2, s.ViolationCount)
	require.Len(t, s.Violations, 2)
	assert.Contains(t, s.Violations[0], "recorded twice")
	assert.Contains(t, s.Violations[1], "the receiver counted 1")
}

func TestEmptyRunIsValidJSON(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(Summarize(nil, results.Meta{Policies: []string{"rr"}, Worlds: []string{results.WorldFlow}}))
	require.NoError(t, err)
	assert.NotContains(t, string(data), "null")
	assert.Contains(t, string(data), `"reason":"no request was submitted"`)
	assert.Contains(t, string(data), `"verdict":"invalid"`)
}

func TestExplicitFlowsHaveTransfersOnly(t *testing.T) {
	t.Parallel()
	r := results.Record{
		World: results.WorldFlow, Policy: "as-given", Seed: 1, Status: results.Completed, Tier: 3, TransferMS: 1000, FinishMS: ptr(1000),
		PayloadBytes: 125e6, PayloadBytesEmulated: 125e6, MovedBytesEmulated: 125e6,
	}
	s := Summarize([]results.Record{r}, results.Meta{Fidelity: results.Fidelity{Verdict: results.VerdictGood}})
	g := s.Worlds[results.WorldFlow]["as-given"]
	require.NotNil(t, g.Transfer)
	assert.InDelta(t, 1000, g.Transfer.Mean, 0)
	assert.Nil(t, g.TTFT)
	assert.Nil(t, g.Queue)
	assert.Nil(t, g.Prefill)
	assert.Nil(t, g.Decision)
	assert.Nil(t, g.SLOAttainment)
	assert.Nil(t, g.HitShare)
	assert.Equal(t, results.VerdictGood, s.Fidelity.Verdict)
}

func TestGapIntervalNeedsTheSameSeeds(t *testing.T) {
	t.Parallel()
	seeds := func(gains map[uint64]float64) *effect {
		e := &effect{seeds: slices.Sorted(maps.Keys(gains))}
		for _, seed := range e.seeds {
			e.ofSeed = append(e.ofSeed, gains[seed])
		}
		return e
	}
	packet := seeds(map[uint64]float64{1: -10, 2: -12})
	assert.Nil(t, gapInterval(packet, seeds(map[uint64]float64{1: -9, 3: -11})))
	assert.Nil(t, gapInterval(packet, seeds(map[uint64]float64{1: -9, 2: -11, 3: -10})))
	ci := gapInterval(packet, seeds(map[uint64]float64{1: -9, 2: -13}))
	require.NotNil(t, ci)
	// Gaps -1 and 1: s = sqrt 2, t(0.975, 1) = 12.7062, half width 12.7062.
	assert.InDelta(t, 12.7062, *ci, 1e-3)
	assert.False(t, math.IsNaN(*ci))
}

func findGain(t *testing.T, s *results.Summary, policy, baseline, metric string) results.Gain {
	t.Helper()
	for _, g := range s.Gains {
		if g.Policy == policy && g.Baseline == baseline && g.Metric == metric {
			return g
		}
	}
	require.Failf(t, "no such gain", "%s vs %s: %s", policy, baseline, metric)
	return results.Gain{}
}

func TestGapIsOverThePacketRunsSeeds(t *testing.T) {
	t.Parallel()
	records := madeRun(30)
	rng := rand.New(rand.NewPCG(8, 8))
	for _, policy := range []string{"rr", "netkv-full"} {
		for id := range 30 { // a seed that only the flow world runs
			records = append(records, madeRecord(rng, results.WorldFlow, policy, 4, id))
		}
	}
	g := findGain(t, Summarize(records, testMeta()), "netkv-full", "rr", results.MetricTransfer)
	same := findGain(t, Summarize(madeRun(30), testMeta()), "netkv-full", "rr", results.MetricTransfer)
	require.NotNil(t, g.FlowPairedPct)
	assert.InDelta(t, *same.FlowPct, *g.FlowPairedPct, 1e-12)
	assert.NotEqual(t, *same.FlowPct, *g.FlowPct)
	assert.InDelta(t, *same.GapPP, *g.GapPP, 1e-12)
	assert.InDelta(t, *g.GapPP, *g.TransportPP+*g.DecisionsPP, 1e-9)
	require.NotNil(t, g.GapCI95)
	assert.Nil(t, same.FlowPairedPct, "where both ran the same seeds there is one figure")
}
