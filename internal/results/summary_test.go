package results

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
			for _, f := range []*Stats{g.TTFT, g.TBT, g.Transfer, g.Queue, g.Prefill, g.Decision} {
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
	g := s.Worlds[WorldPacket]["dead"]
	assert.Equal(t, Counts{Submitted: 90, Failed: 90}, g.Requests)
	assert.Equal(t, "no request completed", g.Reason)
	assert.Equal(t, map[string]int{"decode instance died": 90}, g.FailureReasons)
	assert.Nil(t, g.TTFT)
	assert.Nil(t, g.TierShare)
	require.NotNil(t, g.SLOAttainment, "failed requests miss their SLO")
	assert.Zero(t, *g.SLOAttainment)

	gain := findGain(t, s, "dead", "rr", MetricTTFT)
	assert.Nil(t, gain.PacketPct)
	assert.Equal(t, 90, gain.Worlds[WorldPacket].PolicyNotCompleted)
	assert.Equal(t, "no request completed under both policies", gain.Worlds[WorldPacket].Reason)
	slo := findGain(t, s, "dead", "rr", MetricSLO)
	require.NotNil(t, slo.PacketPct)
	assert.Negative(t, *slo.PacketPct)
}

func TestGainIsPairedByRequest(t *testing.T) {
	t.Parallel()
	var records []Record
	for seed := uint64(1); seed <= 3; seed++ {
		rng := rand.New(rand.NewPCG(seed, 9))
		for id := range 10 {
			base := madeRecord(rng, WorldPacket, "rr", seed, id)
			fast := base
			fast.Policy = "netkv-full"
			fast.TransferMS = base.TransferMS * 0.8
			fast.TTFTMS = ptr(*base.TTFTMS - base.TransferMS*0.2)
			if id == 0 {
				fast = fail(fast, "timeout") // must not flatter: its partner drops out as well
			}
			records = append(records, base, fast)
		}
	}
	meta := testMeta()
	meta.Policies, meta.Worlds = []string{"rr", "netkv-full"}, nil
	g := findGain(t, Summarize(records, meta), "netkv-full", "rr", MetricTransfer)
	require.NotNil(t, g.PacketPct)
	assert.InDelta(t, -20, *g.PacketPct, 1e-9)
	require.NotNil(t, g.PacketCI95)
	assert.InDelta(t, 0, *g.PacketCI95, 1e-9, "every seed gains the same")
	assert.Equal(t, 27, g.Worlds[WorldPacket].Pairs)
	assert.Equal(t, 3, g.Worlds[WorldPacket].PolicyNotCompleted)
	assert.Nil(t, g.FlowPct)
	assert.Nil(t, g.GapPP, "one world has no gap")
}

func TestOnlyTheSameSeedAndRequestMakeAPair(t *testing.T) {
	t.Parallel()
	at := func(seed uint64, id int) *Record {
		return &Record{Seed: seed, ID: id, TransferMS: float64(10*seed) + float64(id)}
	}
	policy := []*Record{at(1, 0), at(3, 0), at(3, 2), at(4, 1)}
	baseline := []*Record{at(2, 0), at(3, 0), at(3, 1), at(3, 2), at(5, 1)}
	seeds, pairs := pairUp(policy, baseline, transfer)
	assert.Equal(t, []uint64{3}, seeds)
	assert.Equal(t, [][]pair{{{30, 30}, {32, 32}}}, pairs)
}

func TestGainOfEqualPoliciesIsZero(t *testing.T) {
	t.Parallel()
	var records []Record
	for id := range 40 {
		rng := rand.New(rand.NewPCG(1, uint64(id)))
		r := madeRecord(rng, WorldFlow, "a", 1, id)
		twin := r
		twin.Policy = "b"
		records = append(records, r, twin)
	}
	s := Summarize(records, Meta{Seeds: []uint64{1}, Fidelity: Fidelity{Verdict: VerdictGood}})
	require.Len(t, s.Gains, 3)
	for _, g := range s.Gains {
		require.NotNil(t, g.FlowPct, g.Metric)
		assert.Zero(t, *g.FlowPct)
		require.NotNil(t, g.FlowCI95)
		assert.Zero(t, *g.FlowCI95)
		assert.Equal(t, methodBatches, g.Worlds[WorldFlow].CIMethod)
	}
}

func TestGainAgainstBaselineThatMovedNothing(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	a := madeRecord(rng, WorldFlow, "a", 1, 0)
	b := madeRecord(rng, WorldFlow, "b", 1, 0)
	*a.TTFTMS -= a.TransferMS
	a.TransferMS = 0
	s := Summarize([]Record{a, b}, Meta{Seeds: []uint64{1}, Fidelity: Fidelity{Verdict: VerdictGood}})
	g := findGain(t, s, "b", "a", MetricTransfer)
	assert.Nil(t, g.FlowPct)
	assert.Contains(t, g.Worlds[WorldFlow].Reason, "is 0")
	assert.Equal(t, VerdictGood, s.Fidelity.Verdict)
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
	done := madeRecord(rng, WorldPacket, "rr", 1, 0)
	cut := fail(madeRecord(rng, WorldPacket, "rr", 1, 1), "interrupted")
	cut.Status = Incomplete
	meta := Meta{Seeds: []uint64{1}, Fidelity: Fidelity{Verdict: VerdictDegraded, Reasons: []string{"interrupted"}}}

	meta.Interrupted = true
	s := Summarize([]Record{done, cut}, meta)
	g := s.Worlds[WorldPacket]["rr"]
	assert.True(t, s.Interrupted)
	assert.Equal(t, Counts{Submitted: 2, Completed: 1, Incomplete: 1}, g.Requests)
	assert.InDelta(t, 1, *g.SLOAttainment, 0)

	meta.Interrupted = false
	g = Summarize([]Record{done, cut}, meta).Worlds[WorldPacket]["rr"]
	assert.InDelta(t, 0.5, *g.SLOAttainment, 0, "without an interruption nobody excuses them")
}

func TestBrokenLawsMakeTheVerdictInvalid(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	r := madeRecord(rng, WorldPacket, "rr", 1, 0)
	broken := madeRecord(rng, WorldPacket, "rr", 1, 1)
	broken.MovedBytesEmulated = 1
	s := Summarize([]Record{r, r, broken}, testMeta())
	assert.Equal(t, VerdictInvalid, s.Fidelity.Verdict)
	assert.Equal(t, 2, s.ViolationCount)
	require.Len(t, s.Violations, 2)
	assert.Contains(t, s.Violations[0], "recorded twice")
	assert.Contains(t, s.Violations[1], "the receiver counted 1")
}

func TestEmptyRunIsValidJSON(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(Summarize(nil, Meta{Policies: []string{"rr"}, Worlds: []string{WorldFlow}}))
	require.NoError(t, err)
	assert.NotContains(t, string(data), "null")
	assert.Contains(t, string(data), `"reason":"no request was submitted"`)
	assert.Contains(t, string(data), `"verdict":"invalid"`)
}

func TestExplicitFlowsHaveTransfersOnly(t *testing.T) {
	t.Parallel()
	r := Record{
		World: WorldFlow, Policy: "as-given", Seed: 1, Status: Completed, Tier: 3, TransferMS: 1000, FinishMS: ptr(1000),
		PayloadBytes: 125e6, PayloadBytesEmulated: 125e6, MovedBytesEmulated: 125e6,
	}
	s := Summarize([]Record{r}, Meta{Fidelity: Fidelity{Verdict: VerdictGood}})
	g := s.Worlds[WorldFlow]["as-given"]
	require.NotNil(t, g.Transfer)
	assert.InDelta(t, 1000, g.Transfer.Mean, 0)
	assert.Nil(t, g.TTFT)
	assert.Nil(t, g.Queue)
	assert.Nil(t, g.Prefill)
	assert.Nil(t, g.Decision)
	assert.Nil(t, g.SLOAttainment)
	assert.Nil(t, g.HitShare)
	assert.Equal(t, VerdictGood, s.Fidelity.Verdict)
}

func TestGapIntervalNeedsTheSameSeeds(t *testing.T) {
	t.Parallel()
	packet := map[uint64]float64{1: -10, 2: -12}
	assert.Nil(t, gapInterval(packet, map[uint64]float64{1: -9, 3: -11}))
	assert.Nil(t, gapInterval(packet, map[uint64]float64{1: -9, 2: -11, 3: -10}))
	ci := gapInterval(packet, map[uint64]float64{1: -9, 2: -13})
	require.NotNil(t, ci)
	// Gaps -1 and 1: s = sqrt 2, t(0.975, 1) = 12.7062, half width 12.7062.
	assert.InDelta(t, 12.7062, *ci, 1e-3)
	assert.False(t, math.IsNaN(*ci))
}

func findGain(t *testing.T, s *Summary, policy, baseline, metric string) Gain {
	t.Helper()
	for _, g := range s.Gains {
		if g.Policy == policy && g.Baseline == baseline && g.Metric == metric {
			return g
		}
	}
	require.Failf(t, "no such gain", "%s vs %s: %s", policy, baseline, metric)
	return Gain{}
}

func TestGapIsOverThePacketRunsSeeds(t *testing.T) {
	t.Parallel()
	records := madeRun(30)
	rng := rand.New(rand.NewPCG(8, 8))
	for _, policy := range []string{"rr", "netkv-full"} {
		for id := range 30 { // a seed that only the flow world runs
			records = append(records, madeRecord(rng, WorldFlow, policy, 4, id))
		}
	}
	g := findGain(t, Summarize(records, testMeta()), "netkv-full", "rr", MetricTransfer)
	same := findGain(t, Summarize(madeRun(30), testMeta()), "netkv-full", "rr", MetricTransfer)
	require.NotNil(t, g.FlowPairedPct)
	assert.InDelta(t, *same.FlowPct, *g.FlowPairedPct, 1e-12)
	assert.NotEqual(t, *same.FlowPct, *g.FlowPct)
	assert.InDelta(t, *same.GapPP, *g.GapPP, 1e-12)
	assert.InDelta(t, *g.GapPP, *g.TransportPP+*g.DecisionsPP, 1e-9)
	require.NotNil(t, g.GapCI95)
	assert.Nil(t, same.FlowPairedPct, "where both ran the same seeds there is one figure")
}
