package fidelity

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/fidelity/telemetry"
	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/results"
)

// believable is the evidence of a run without fault.
func believable() Evidence {
	return Evidence{
		Host:      host.Load{Windows: 200, Busy: 4, Idle: 0.6, Steal: 0.001},
		TimerLate: 10 * time.Millisecond, TimerLateOf: "d0",
		Transport:   Transport{Segments: 100_000, Retransmits: 3900, QueueDrops: 1000, SegmentsPerPacket: 4, Busy: time.Minute, Limited: time.Second},
		Ports:       Ports{Excess: 0.01, Served: 0.99, Stray: 0.001},
		Calibration: &results.Calibration{Lone: []results.LoneTransfers{{Tier: 2, N: 1, OffPct: -0.4}}, Pair: &results.PairTransfers{N: 1, LastOffPct: 0.5, FirstOffPct: -20}},
		Alone:       &results.AloneCheck{AloneFigures: results.AloneFigures{N: 90, P50Pct: 0.3, P99Pct: 9}, LimitP50Pct: 1, LimitP99Pct: 10, Streams: 1, Within: true},
	}
}

func TestEveryFaultHasItsReason(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, verdict, reason string
		edit                  func(*Evidence)
	}{
		{"nothing wrong", results.VerdictGood, "", func(*Evidence) {}},
		{"bytes that do not add up", results.VerdictInvalid, "d0 counted 5", func(e *Evidence) { e.Faults = []string{"d0 counted 5"} }},
		{"path table at its end", results.VerdictInvalid, "no source port left", func(e *Evidence) { e.PortFailures = 1 }},
		{"CPU unwatched", results.VerdictDegraded, "could not be watched: no file", func(e *Evidence) { e.Host.Err = errors.New("no file") }},
		{"CPU short", results.VerdictDegraded, "short of CPU: under 10% idle in 2.5% of 200 windows of 250ms; raise scale.rate", func(e *Evidence) { e.Host.Busy = 5 }},
		{"CPU taken", results.VerdictDegraded, "of 200 windows of 250ms; processes other than this run took 40% of the CPU time: see to that, or raise scale.rate", func(e *Evidence) { e.Host.Busy, e.Host.Others = 5, 0.4 }},
		{"others, and enough for all", results.VerdictGood, "", func(e *Evidence) { e.Host.Others = 0.4 }},
		{"CPU gone", results.VerdictInvalid, "overloaded: under 10% idle in 20.5%", func(e *Evidence) { e.Host.Busy = 41 }},
		{"two short windows of few", results.VerdictGood, "", func(e *Evidence) { e.Host.Windows, e.Host.Busy = 30, 2 }},
		{"three of few", results.VerdictDegraded, "in 10.0% of 30 windows", func(e *Evidence) { e.Host.Windows, e.Host.Busy = 30, 3 }},
		{"steal", results.VerdictDegraded, "hypervisor took 3.0%", func(e *Evidence) { e.Host.Steal = 0.03 }},
		{"backlog drops", results.VerdictDegraded, "dropped 7 packets between the emulated ports", func(e *Evidence) { e.Host.SoftnetDrops = 7 }},
		{"TCP memory", results.VerdictDegraded, "under pressure in 3 of 200 windows", func(e *Evidence) { e.Host.MemoryPressure = 3 }},
		{"stopped", results.VerdictDegraded, "stood still for 2s", func(e *Evidence) { e.StoodStill = 2 * time.Second }},
		{"late timer", results.VerdictDegraded, "a timer of agent d0 was 60ms late", func(e *Evidence) { e.TimerLate = 60 * time.Millisecond }},
		{"a leg that loses some", results.VerdictDegraded, "1.0% of all segments were sent again although no shaped queue dropped them", func(e *Evidence) { e.Transport.Retransmits += 1500 }},
		{"a leg that loses much", results.VerdictInvalid, "of all segments were sent again", func(e *Evidence) { e.Transport.Retransmits += 6000 }},
		{"small buffers", results.VerdictDegraded, "waited for socket buffers during 50% of their sending time", func(e *Evidence) { e.Transport.Limited = 30 * time.Second }},
		{"too fast a port", results.VerdictInvalid, "tor0-0>agg0-0 served 40% more than its rate", func(e *Evidence) { e.Ports.Excess, e.Ports.ExcessAt = 0.4, "tor0-0>agg0-0" }},
		{"too slow a port", results.VerdictInvalid, "core0>agg0-0 had a queue and served no more than 50%", func(e *Evidence) { e.Ports.Served, e.Ports.ServedAt = 0.5, "core0>agg0-0" }},
		{"another path", results.VerdictInvalid, "x carried 10 bytes of KV traffic, the recorded paths send 20", func(e *Evidence) {
			e.Ports.Stray, e.Ports.StrayAt, e.Ports.StrayGot, e.Ports.StrayWant = 0.5, "x", 10, 20
		}},
		{"background that fell short", results.VerdictDegraded, "background used 15.0% of the links of tier 3, 20.0% were asked for", func(e *Evidence) {
			e.Asked, e.Oracle = [4]float64{2: 0.1, 3: 0.2}, telemetry.Accuracy{Polls: 9, Truth: [4]float64{2: 0.104, 3: 0.15}}
		}},
		{"background that few polls saw", results.VerdictGood, "", func(e *Evidence) {
			e.Asked, e.Oracle = [4]float64{3: 0.2}, telemetry.Accuracy{Polls: 4, Truth: [4]float64{3: 0.15}}
		}},
		{"few that met no other", results.VerdictGood, "", func(e *Evidence) {
			e.Alone = &results.AloneCheck{AloneFigures: results.AloneFigures{N: 19, P50Pct: 2, P99Pct: 30}, LimitP50Pct: 1, LimitP99Pct: 10, Streams: 1}
		}},
		{"slow alone", results.VerdictDegraded, "a lone transfer over tier 2 took +3.0% from ideal (median of 5)", func(e *Evidence) {
			e.Calibration = &results.Calibration{Lone: []results.LoneTransfers{{Tier: 2, N: 5, OffPct: 3}}}
		}},
		{"fast alone", results.VerdictInvalid, "took -50.0% from ideal", func(e *Evidence) {
			e.Calibration = &results.Calibration{Lone: []results.LoneTransfers{{Tier: 2, N: 5, OffPct: -50}}}
		}},
		{"a link left idle", results.VerdictDegraded, "two transfers on one link were done +5.0% from ideal", func(e *Evidence) {
			e.Calibration = &results.Calibration{Pair: &results.PairTransfers{N: 1, LastOffPct: 5}}
		}},
		{"off in the trials", results.VerdictDegraded, "met no other were 2.0% from ideal at the median, the limit is 1%", func(e *Evidence) {
			e.Alone = &results.AloneCheck{AloneFigures: results.AloneFigures{N: 50, P50Pct: 2, P99Pct: 30}, LimitP50Pct: 1, LimitP99Pct: 10, Streams: 4}
		}},
		{"a tail of single streams", results.VerdictDegraded, "30.0% from ideal at the 99th percentile, the limit is 10%", func(e *Evidence) {
			e.Alone = &results.AloneCheck{AloneFigures: results.AloneFigures{N: 50, P99Pct: 30}, LimitP50Pct: 1, LimitP99Pct: 10, Streams: 1}
		}},
		{"a tail of transfers that compete with themselves", results.VerdictGood, "", func(e *Evidence) {
			e.Alone = &results.AloneCheck{AloneFigures: results.AloneFigures{N: 50, P99Pct: 30}, LimitP50Pct: 1, LimitP99Pct: 10, Streams: 4}
		}},
	} {
		e := believable()
		tt.edit(&e)
		f := Judge(&e)
		assert.Equal(t, tt.verdict, f.Verdict, "%s: %v", tt.name, f.Reasons)
		if tt.reason == "" {
			assert.Empty(t, f.Reasons, tt.name)
			continue
		}
		if assert.Len(t, f.Reasons, 1, tt.name) {
			assert.Contains(t, f.Reasons[0], tt.reason, tt.name)
		}
	}
}

func TestADoubtNeverSoftensAnInvalidRun(t *testing.T) {
	t.Parallel()
	e := believable()
	e.Faults, e.Host.Steal = []string{"gone"}, 0.5
	f := Judge(&e)
	assert.Equal(t, results.VerdictInvalid, f.Verdict)
	assert.Len(t, f.Reasons, 2)
}

func TestARunThatMeasuredNothingIsNotAccused(t *testing.T) {
	t.Parallel()
	f := Judge(&Evidence{})
	assert.Equal(t, results.VerdictGood, f.Verdict)
	assert.NotNil(t, f.Reasons)
	assert.NotNil(t, f.Notes)
}

func TestOnlyACauseOutsideOfTheExperimentSpoilsATrial(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		spoiled bool
		edit    func(*Evidence)
	}{
		{"nothing wrong", false, func(*Evidence) {}},
		{"an agent stopped on an idle host", true, func(e *Evidence) { e.TimerLate = 100 * time.Millisecond }},
		{"this program stopped", true, func(e *Evidence) { e.StoodStill = time.Second }},
		{"steal", true, func(e *Evidence) { e.Host.Steal = 0.05 }},
		{"others took the CPU", true, func(e *Evidence) { e.Host.Busy, e.Host.Idle, e.Host.Others = 50, 0.1, 0.4 }},
		{"the run overloaded the host", false, func(e *Evidence) { e.Host.Busy, e.Host.Idle = 50, 0.05 }},
		{"the run overloaded the host and timers were late", false, func(e *Evidence) {
			e.Host.Busy, e.Host.Idle, e.TimerLate = 50, 0.05, 100*time.Millisecond
		}},
		{"the run overloads the host with others or without", false, func(e *Evidence) { e.Host.Busy, e.Host.Idle, e.Host.Others = 50, 0.02, 0.15 }},
		{"transfers are off, nobody knows why", false, func(e *Evidence) { e.Transport.Retransmits += 1500 }},
		{"transfers are off after a stop", true, func(e *Evidence) { e.Transport.Retransmits, e.TimerLate = e.Transport.Retransmits+1500, time.Second }},
		{"the fabric was changed, and a timer was late", false, func(e *Evidence) { e.Faults, e.TimerLate = []string{"changed"}, time.Second }},
	} {
		e := believable()
		tt.edit(&e)
		assert.Equal(t, tt.spoiled, Judge(&e).Spoiled, tt.name)
	}
}

func judged(name string, edit func(*Evidence)) Trial {
	e := believable()
	edit(&e)
	return Trial{Name: name, Evidence: &e, Judgement: Judge(&e)}
}

func TestARunIsWorthItsWorstTrial(t *testing.T) {
	t.Parallel()
	good := judged("rr, seed 1", func(*Evidence) {})
	late := judged("cla, seed 1", func(e *Evidence) { e.TimerLate = time.Second })
	gone := judged("cla, seed 2", func(e *Evidence) { e.Faults = []string{"a link was changed"} })
	f := JudgeRun([]Trial{good, good}, nil, false)
	assert.Equal(t, results.VerdictGood, f.Verdict)
	assert.Empty(t, f.Reasons)
	assert.Equal(t, 400, f.Figures.Windows, "of both")
	f = JudgeRun([]Trial{good, late}, nil, false)
	assert.Equal(t, results.VerdictDegraded, f.Verdict)
	assert.Equal(t, []string{"cla, seed 1: " + late.Judgement.Reasons[0]}, f.Reasons)
	f = JudgeRun([]Trial{gone, good, late}, nil, true)
	assert.Equal(t, results.VerdictInvalid, f.Verdict)
	require.Len(t, f.Reasons, 3)
	assert.Equal(t, "cla, seed 2: a link was changed", f.Reasons[0])
	assert.Contains(t, f.Reasons[2], "cut short")
	f = JudgeRun([]Trial{gone, gone}, nil, false)
	assert.Equal(t, []string{"a link was changed"}, f.Reasons, "what holds for all trials names none")
	assert.Equal(t, results.VerdictGood, JudgeRun(nil, nil, false).Verdict)
}

func TestWhatOneTrialHasTooLittleDataForIsJudgedOverTheRun(t *testing.T) {
	t.Parallel()
	short := func(e *Evidence) { e.Host.Windows, e.Host.Busy = 30, 2 }
	f := JudgeRun([]Trial{judged("a", short), judged("b", short)}, nil, false)
	require.Len(t, f.Reasons, 1)
	assert.Contains(t, f.Reasons[0], "in 6.7% of 60 windows")
	few := func(e *Evidence) {
		e.Asked, e.Oracle = [4]float64{3: 0.2}, telemetry.Accuracy{Polls: 4, Truth: [4]float64{3: 0.15}}
	}
	f = JudgeRun([]Trial{judged("a", few), judged("b", few)}, nil, false)
	require.Len(t, f.Reasons, 1)
	assert.Contains(t, f.Reasons[0], "background used 15.0%")
	off := &results.AloneCheck{AloneFigures: results.AloneFigures{N: 38, P50Pct: 2}, LimitP50Pct: 1, LimitP99Pct: 10, Streams: 1}
	nothing := func(e *Evidence) { e.Alone = nil }
	f = JudgeRun([]Trial{judged("a", nothing), judged("b", nothing)}, off, false)
	require.Len(t, f.Reasons, 1)
	assert.Contains(t, f.Reasons[0], "2.0% from ideal at the median")
	alone := judged("a", func(e *Evidence) {
		e.Alone = &results.AloneCheck{AloneFigures: results.AloneFigures{N: 38, P50Pct: 2}, LimitP50Pct: 1, LimitP99Pct: 10, Streams: 1}
	})
	assert.Len(t, JudgeRun([]Trial{alone}, off, false).Reasons, 1, "what a trial has said is not said again")
}

func TestManyReasonsAreCut(t *testing.T) {
	t.Parallel()
	var trials []Trial
	for i := range 30 {
		trials = append(trials, judged(fmt.Sprint(i), func(e *Evidence) { e.Faults = []string{fmt.Sprint("fault ", i), "all"} }))
	}
	f := JudgeRun(trials, nil, false)
	require.Len(t, f.Reasons, 13)
	assert.Equal(t, "all", f.Reasons[1])
	assert.Contains(t, f.Reasons[12], "and 19 more reasons")
}
