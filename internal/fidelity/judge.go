package fidelity

import (
	"fmt"
	"time"

	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/telemetry"
)

// The limits. A figure beyond the first makes a run degraded, beyond the second
// (where there is one) invalid.
const (
	// Shares of busy windows.
	busyDegraded, busyInvalid = 0.02, 0.20
	// stealDegraded is the share of CPU time that a hypervisor took.
	stealDegraded = 0.02
	// lateDegraded is how late an agent's timer may be, in real time.
	lateDegraded = 50 * time.Millisecond
	// lossDegraded and lossInvalid are shares of segments sent again that no shaped
	// queue can account for.
	lossDegraded, lossInvalid = 0.005, 0.05
	// limitedDegraded is the share of sending time spent waiting for socket buffers.
	limitedDegraded = 0.05
	// excessInvalid is how much more than rate and burst a port may have served in a window.
	excessInvalid = 0.02
	// servedInvalid is what the best of a backlogged port's windows must have carried.
	servedInvalid = 0.90
	// strayInvalid is how far a port's bytes may be from what the records send over it.
	strayInvalid = 0.02
	// backgroundDegraded is how far, relatively, background may be from what was asked.
	backgroundDegraded = 0.05
	// Lone transfers of the calibration against the fluid model.
	loneDegraded, loneInvalid = 0.02, 0.20
)

// Evidence is what a run measured of itself. The zero value is a run without fault.
type Evidence struct {
	// Interrupted: the run was cut short.
	Interrupted bool
	// Faults are sentences about what makes the records wrong: bytes that do not add
	// up, agents that were lost, a fabric that is not what was planned.
	Faults []string
	// Host is the load while trials ran.
	Host host.Load
	// StoodStill is the longest time that the controller itself did not run.
	StoodStill time.Duration
	// TimerLate is the worst lateness of an agent's timer, and whose.
	TimerLate   time.Duration
	TimerLateOf string
	// PortFailures are requests that found no free source port on a path.
	PortFailures int
	// Transport sums what the senders' TCP did.
	Transport Transport
	// Ports are what the shaped ports did, in all trials.
	Ports Ports
	// Oracle is what the scheduler was told of the network, and Asked the share of each
	// tier's links that background traffic was asked to use.
	Oracle telemetry.Accuracy
	Asked  [4]float64
	// Calibration are the lone transfers before the trials.
	Calibration *results.Calibration
	// Alone are the trials' transfers that met no other; nil when none was.
	Alone *results.AloneCheck
}

// Transport is what the TCP senders of all trials did.
type Transport struct {
	// Segments are the full ones that the payloads fill.
	Segments, Retransmits int64
	// QueueDrops are packets that shaped queues refused, each up to SegmentsPerPacket segments.
	QueueDrops        int64
	SegmentsPerPacket int
	// Busy is how long connections had data to send, Limited how much of that no buffer.
	Busy, Limited time.Duration
}

// unexplained is the share of segments that were sent again and that no shaped queue dropped.
func (t *Transport) unexplained() float64 {
	if t.Segments == 0 {
		return 0
	}
	// A retransmission may be lost again, or be one too many: a tenth on top.
	explained := 1.1 * float64(t.QueueDrops) * float64(max(1, t.SegmentsPerPacket))
	return max(0, float64(t.Retransmits)-explained) / float64(t.Segments)
}

func (t *Transport) limited() float64 {
	if t.Busy <= 0 {
		return 0
	}
	return float64(t.Limited) / float64(t.Busy)
}

// judge collects reasons.
type judge struct{ results.Fidelity }

func (j *judge) add(verdict, format string, args ...any) {
	if j.Verdict != results.VerdictInvalid {
		j.Verdict = verdict
	}
	j.Reasons = append(j.Reasons, fmt.Sprintf(format, args...))
}

// degraded and invalid add a reason.
func (j *judge) degraded(format string, args ...any) {
	j.add(results.VerdictDegraded, format, args...)
}

func (j *judge) invalid(format string, args ...any) {
	j.add(results.VerdictInvalid, format, args...)
}

// beyond adds a reason if a figure is above a limit.
func (j *judge) beyond(figure, degraded, invalid float64, format string, args ...any) {
	switch {
	case invalid > 0 && figure > invalid:
		j.invalid(format, args...)
	case figure > degraded:
		j.degraded(format, args...)
	}
}

// Judge gives the verdict and its reasons, the gravest kinds first.
func Judge(e *Evidence) results.Fidelity {
	j := judge{results.Fidelity{Verdict: results.VerdictGood, Reasons: []string{}, Notes: []string{}, Figures: figures(e)}}
	for _, f := range e.Faults {
		j.invalid("%s", f)
	}
	if e.Interrupted {
		j.degraded("the run was cut short: the requests that ended are not a sample of all")
	}
	if e.PortFailures > 0 {
		j.invalid("%d requests failed because a pair had no source port left on a path: a limit of the emulation, not of the network; lower the load or use more instances", e.PortFailures)
	}
	j.host(e)
	j.transport(&e.Transport)
	j.ports(&e.Ports)
	j.background(e)
	j.transfers(e)
	return j.Fidelity
}

func (j *judge) host(e *Evidence) {
	h := &e.Host
	if h.Err != nil {
		j.degraded("the host's idle time could not be watched: %v", h.Err)
	}
	if h.Windows > 0 {
		share := float64(h.Busy) / float64(h.Windows)
		what := "short of CPU"
		if share > busyInvalid {
			what = "overloaded"
		}
		advice := "raise scale.rate"
		if cause, ok := h.Outside(); ok {
			advice = cause + ": see to that, or raise scale.rate"
		}
		j.beyond(share, busyDegraded, busyInvalid, "the host was %s: under %.0f%% idle in %.1f%% of %d windows of %v; %s",
			what, 100*host.BusyIdle, 100*share, h.Windows, host.Window, advice)
	}
	j.beyond(h.Steal, stealDegraded, 0, "a hypervisor took %.1f%% of the CPU time: give the machine CPUs of its own", 100*h.Steal)
	if h.SoftnetDrops > 0 {
		j.degraded("the host dropped %d packets between the emulated ports (softnet backlog): they are no loss of the network's; raise net.core.netdev_max_backlog or scale.rate", h.SoftnetDrops)
	}
	if h.MemoryPressure > 0 {
		j.degraded("the host's TCP memory was under pressure in %d of %d windows: raise net.ipv4.tcp_mem", h.MemoryPressure, h.Windows)
	}
	if e.StoodStill > 0 {
		j.degraded("netkvlab stood still for %v: it was stopped, or the host was", e.StoodStill.Round(time.Millisecond))
	}
	if e.TimerLate > lateDegraded {
		j.degraded("a timer of agent %s was %v late: it was stopped, or had no CPU", e.TimerLateOf, e.TimerLate.Round(time.Millisecond))
	}
}

func (j *judge) transport(t *Transport) {
	loss := t.unexplained()
	j.beyond(loss, lossDegraded, lossInvalid, "%.1f%% of all segments were sent again although no shaped queue dropped them: packets are lost outside of the emulated queues", 100*loss)
	limited := t.limited()
	j.beyond(limited, limitedDegraded, 0, "senders waited for socket buffers during %.0f%% of their sending time: too little socket memory (net.ipv4.tcp_rmem, tcp_wmem, tcp_mem)", 100*limited)
}

func (j *judge) ports(p *Ports) {
	if p.Excess > excessInvalid {
		j.invalid("%s served %.0f%% more than its rate: its shaping is not what was planned", p.ExcessAt, 100*p.Excess)
	}
	if p.Served > 0 && p.Served < servedInvalid {
		j.invalid("%s had a queue and served no more than %.0f%% of its rate in any window", p.ServedAt, 100*p.Served)
	}
	if p.Stray > strayInvalid {
		j.invalid("%s carried %d bytes of KV traffic, the recorded paths send %d over it: flows went another way", p.StrayAt, p.StrayGot, p.StrayWant)
	}
}

func (j *judge) background(e *Evidence) {
	if e.Oracle.Polls == 0 {
		return
	}
	for tier, asked := range e.Asked {
		if got := e.Oracle.Truth[tier]; asked > 0 {
			j.beyond(abs(got/asked-1), backgroundDegraded, 0, "background used %.1f%% of the links of tier %d, %.1f%% were asked for", 100*got, tier, 100*asked)
		}
	}
}

func (j *judge) transfers(e *Evidence) {
	if c := e.Calibration; c != nil {
		for _, l := range c.Lone {
			j.beyond(abs(l.OffPct)/100, loneDegraded, loneInvalid, "a lone transfer over tier %d took %+.1f%% from ideal (median of %d)", l.Tier, l.OffPct, l.N)
		}
		if p := c.Pair; p != nil {
			j.beyond(abs(p.LastOffPct)/100, loneDegraded, loneInvalid, "two transfers on one link were done %+.1f%% from ideal: the link was not kept busy, or not shared", p.LastOffPct)
		}
	}
	a := e.Alone
	if a == nil {
		return
	}
	j.beyond(a.P50Pct, a.LimitP50Pct, 0, "transfers that met no other were %.1f%% from ideal at the median, the limit is %g%%", a.P50Pct, a.LimitP50Pct)
	// The streams of one transfer share its NIC and perhaps more, and TCP does not share
	// evenly: a tail of those says nothing of the emulation. The report prints it.
	if a.Streams == 1 {
		j.beyond(a.P99Pct, a.LimitP99Pct, 0, "transfers that met no other were %.1f%% from ideal at the 99th percentile, the limit is %g%%", a.P99Pct, a.LimitP99Pct)
	}
}

func abs(x float64) float64 { return max(x, -x) }

// figures are the measured values beside the verdict.
func figures(e *Evidence) *results.FidelityFigures {
	t := &e.Transport
	return &results.FidelityFigures{
		Windows: e.Host.Windows, BusyWindows: e.Host.Busy,
		IdlePct: 100 * e.Host.Idle, SoftIRQPct: 100 * e.Host.SoftIRQ, StealPct: 100 * e.Host.Steal, OthersPct: 100 * e.Host.Others,
		TimerLateMS: results.MS(e.TimerLate), Retransmits: t.Retransmits, QueueDrops: t.QueueDrops,
		UnexplainedLossPct: 100 * t.unexplained(), BufferLimitedPct: 100 * t.limited(),
		RateExcessPct: 100 * e.Ports.Excess, ServedPct: 100 * e.Ports.Served, StrayBytesPct: 100 * e.Ports.Stray, Calibration: e.Calibration, Oracle: oracle(e),
	}
}

// oracle lists the tiers of which the oracle knows something.
func oracle(e *Evidence) []results.OracleFigures {
	var out []results.OracleFigures
	for tier := range e.Oracle.Truth {
		if e.Oracle.Polls > 0 && (e.Asked[tier] > 0 || e.Oracle.Error[tier] > 0) {
			out = append(out, results.OracleFigures{
				Tier: tier, AskedPct: 100 * e.Asked[tier], TruePct: 100 * e.Oracle.Truth[tier], ErrorPoints: 100 * e.Oracle.Error[tier],
			})
		}
	}
	return out
}
