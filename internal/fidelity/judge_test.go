package fidelity

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/telemetry"
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
		{"cut short", results.VerdictDegraded, "cut short", func(e *Evidence) { e.Interrupted = true }},
		{"path table at its end", results.VerdictInvalid, "no source port left", func(e *Evidence) { e.PortFailures = 1 }},
		{"CPU unwatched", results.VerdictDegraded, "could not be watched: no file", func(e *Evidence) { e.Host.Err = errors.New("no file") }},
		{"CPU short", results.VerdictDegraded, "short of CPU: under 10% idle in 2.5% of 200 windows of 250ms; raise scale.rate", func(e *Evidence) { e.Host.Busy = 5 }},
		{"CPU taken", results.VerdictDegraded, "of 200 windows of 250ms; processes other than this run took 40% of the CPU time: see to that, or raise scale.rate", func(e *Evidence) { e.Host.Busy, e.Host.Others = 5, 0.4 }},
		{"others, and enough for all", results.VerdictGood, "", func(e *Evidence) { e.Host.Others = 0.4 }},
		{"CPU gone", results.VerdictInvalid, "overloaded: under 10% idle in 20.5%", func(e *Evidence) { e.Host.Busy = 41 }},
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
	e.Faults, e.Interrupted = []string{"gone"}, true
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
