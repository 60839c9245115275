// Package fidelity judges whether the results of an emulated run can be trusted.
//
// When an emulation runs out of CPU, loses its shaping or sends flows over wrong paths, its
// figures still look normal. Every run therefore gathers Evidence: before the trials (lone
// transfers, the fabric against its plan), during them (idle windows, timers, queues, sockets)
// and after them (bytes per link, transfers that met no other). Judge turns it into a verdict
// with measured reasons. The package is pure.
package fidelity

import (
	"fmt"
	"math"
	"time"

	"github.com/netkvlab/netkvlab/internal/fidelity/telemetry"
	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/results"
)

// The limits. Beyond ...Degraded a run is degraded, beyond ...Invalid it is invalid.
const (
	// Shares of overloaded windows, and how many a trial of any length may have.
	busyDegraded, busyInvalid = 0.02, 0.20
	busyAllowed               = 2
	// outsideIdle is the mean idle share that the host must have had without the CPU time of others,
	// if these are to be the cause of overloaded windows.
	outsideIdle = 0.25
	// stealDegraded is the share of CPU time that a hypervisor took.
	stealDegraded = 0.02
	// lateDegraded is how late an agent's timer may be, in real time.
	lateDegraded = 50 * time.Millisecond
	// lossDegraded and lossInvalid are shares of segments sent again without a drop in a shaped
	// queue.
	lossDegraded, lossInvalid = 0.005, 0.05
	// limitedDegraded is the share of sending time spent waiting for socket buffers.
	limitedDegraded = 0.05
	// excessInvalid is the share by which a port may exceed rate and burst in a window.
	excessInvalid = 0.02
	// servedInvalid is the share of its rate that a backlogged port's best window must carry.
	servedInvalid = 0.90
	// strayInvalid is how far a port's bytes may be from the bytes that the records place on it.
	strayInvalid = 0.02
	// enoughPolls and enoughAlone are the least numbers of oracle polls, and of transfers that met
	// no other, for judging a single trial. With fewer they are judged over the whole run.
	enoughPolls, enoughAlone = 5, 20
	// backgroundDegraded is how far background may be from its configured share, relative to it.
	backgroundDegraded = 0.05
	// Lone transfers of the calibration against the fluid model.
	loneDegraded, loneInvalid = 0.02, 0.20
)

// Evidence is a trial's measurements of its own quality. The zero value has no fault.
type Evidence struct {
	// Faults are sentences about what makes the records wrong: bytes that do not add
	// up, agents that were lost, a fabric that is not what was planned.
	Faults []string
	// Host is the load while the trial ran.
	Host host.Load
	// StoodStill is the longest time for which the controller itself did not run.
	StoodStill time.Duration
	// TimerLate is the worst lateness of an agent's timer, and TimerLateOf that agent.
	TimerLate   time.Duration
	TimerLateOf string
	// PortFailures are requests that found no free source port on a path.
	PortFailures int
	// Transport sums what the senders' TCP did.
	Transport Transport
	// Ports are what the shaped ports did, in all trials.
	Ports Ports
	// Oracle is how well the scheduler knew the network, and Asked the share of each tier's links
	// that background traffic was configured to use.
	Oracle telemetry.Accuracy
	Asked  [4]float64
	// Calibration are the lone transfers before the trials.
	Calibration *results.Calibration
	// Alone are the trials' transfers that met no other; nil when none was.
	Alone *results.AloneCheck
}

// Transport is what the TCP senders of all trials did.
type Transport struct {
	// Segments counts the full segments that the payloads fill.
	Segments, Retransmits int64
	// QueueDrops are packets that shaped queues refused, each up to SegmentsPerPacket segments.
	QueueDrops        int64
	SegmentsPerPacket int
	// Busy is how long connections had data to send, Limited the part of it without buffer space.
	Busy, Limited time.Duration
}

// unexplained is the share of segments that were sent again without a drop in a shaped queue.
func (t *Transport) unexplained() float64 {
	if t.Segments == 0 {
		return 0
	}
	// Retransmissions may be lost again or be needless: allow a tenth more.
	explained := 1.1 * float64(t.QueueDrops) * float64(max(1, t.SegmentsPerPacket))
	return max(0, float64(t.Retransmits)-explained) / float64(t.Segments)
}

func (t *Transport) limited() float64 {
	if t.Busy <= 0 {
		return 0
	}
	return float64(t.Limited) / float64(t.Busy)
}

// cause says where a reason comes from.
type cause int

const (
	// effect: a figure is wrong; the cause is not known.
	effect cause = iota
	// inside: the experiment itself is the cause, such as a load that the host does not carry.
	// Repeating the trial until it passes would bias the results.
	inside
	// outside: the cause is not the experiment, such as other processes, a hypervisor, or a CPU
	// that stopped while the host was otherwise idle.
	outside
)

// Judgement is the verdict on one trial.
type Judgement struct {
	results.Fidelity
	// Spoiled: the trial is not good, a cause outside of the experiment is known, and none inside
	// of it. It may be repeated.
	Spoiled bool

	found found
}

// found says which of the checks that one trial may have too little data for gave a reason.
type found struct{ busy, background, alone bool }

// judge collects reasons.
type judge struct {
	Judgement
	cause           cause // of the reasons that are added next
	inside, outside bool
}

func (j *judge) add(verdict, format string, args ...any) {
	if j.Verdict != results.VerdictInvalid {
		j.Verdict = verdict
	}
	j.Reasons = append(j.Reasons, fmt.Sprintf(format, args...))
	j.inside = j.inside || j.cause == inside
	j.outside = j.outside || j.cause == outside
}

func (j *judge) degraded(format string, args ...any) { j.add(results.VerdictDegraded, format, args...) }

func (j *judge) invalid(format string, args ...any) { j.add(results.VerdictInvalid, format, args...) }

// beyond adds a reason if a figure is above a limit, and reports whether it is.
func (j *judge) beyond(figure, degraded, invalid float64, format string, args ...any) bool {
	switch {
	case invalid > 0 && figure > invalid:
		j.invalid(format, args...)
	case figure > degraded:
		j.degraded(format, args...)
	default:
		return false
	}
	return true
}

// Judge returns the verdict on a trial and its reasons, the most serious kinds first.
func Judge(e *Evidence) Judgement {
	j := newJudge(e)
	j.cause = inside
	for _, f := range e.Faults {
		j.invalid("%s", f)
	}
	if e.PortFailures > 0 {
		j.invalid("%d requests failed because a pair had no source port left on a path: a limit of the emulation, not of the network; lower the load or use more instances", e.PortFailures)
	}
	j.host(e)
	j.cause = effect
	j.transport(&e.Transport)
	j.ports(&e.Ports)
	if e.Oracle.Polls >= enoughPolls {
		j.background(e)
	}
	j.calibration(e.Calibration)
	if e.Alone != nil && e.Alone.N >= enoughAlone {
		j.alone(e.Alone)
	}
	j.Spoiled = j.outside && !j.inside
	return j.Judgement
}

func newJudge(e *Evidence) *judge {
	f := results.Fidelity{Verdict: results.VerdictGood, Reasons: []string{}, Notes: []string{}, Figures: figures(e)}
	return &judge{Judgement: Judgement{Fidelity: f}}
}

// host judges how the machine disturbed the trial. If a timer was late or a program did not run
// although the run did not overload the host, the cause is outside.
func (j *judge) host(e *Evidence) {
	h := &e.Host
	j.cause = inside
	if h.Err != nil {
		j.degraded("the host's idle time could not be watched: %v", h.Err)
	}
	// Others caused the windows without idle time if the host had enough of it without their CPU time.
	_, others := h.Outside()
	others = others && h.Idle+h.Others+h.Steal >= outsideIdle
	if short(h, busyAllowed) && !others {
		j.busy(h)
	}
	if h.SoftnetDrops > 0 {
		j.degraded("the host dropped %d packets between the emulated ports (softnet backlog): they are no loss of the network's; raise net.core.netdev_max_backlog or scale.rate", h.SoftnetDrops)
	}
	if h.MemoryPressure > 0 {
		j.degraded("the host's TCP memory was under pressure in %d of %d windows: raise net.ipv4.tcp_mem", h.MemoryPressure, h.Windows)
	}
	if !j.inside {
		j.cause = outside
	}
	if short(h, busyAllowed) && others {
		j.busy(h)
	}
	j.beyond(h.Steal, stealDegraded, 0, "a hypervisor took %.1f%% of the CPU time: give the machine CPUs of its own", 100*h.Steal)
	if e.StoodStill > 0 {
		j.degraded("netkvlab stood still for %v: it was stopped, or the host was", e.StoodStill.Round(time.Millisecond))
	}
	if e.TimerLate > lateDegraded {
		j.degraded("a timer of agent %s was %v late: it was stopped, or had no CPU", e.TimerLateOf, e.TimerLate.Round(time.Millisecond))
	}
}

// short reports whether the host had too little idle time in more windows than allowed.
func short(h *host.Load, allowed int) bool {
	return h.Busy > allowed && float64(h.Busy) > busyDegraded*float64(h.Windows)
}

// busy adds the reason that the host was short of CPU.
func (j *judge) busy(h *host.Load) {
	share := float64(h.Busy) / float64(h.Windows)
	what := "short of CPU"
	if share > busyInvalid {
		what = "overloaded"
	}
	advice := "raise scale.rate"
	if text, ok := h.Outside(); ok {
		advice = text + ": see to that, or raise scale.rate"
	}
	j.found.busy = j.beyond(share, busyDegraded, busyInvalid, "the host was %s: under %.0f%% idle in %.1f%% of %d windows of %v; %s",
		what, 100*host.BusyIdle, 100*share, h.Windows, host.Window, advice)
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
	for tier, asked := range e.Asked {
		if got := e.Oracle.Truth[tier]; asked > 0 && j.beyond(math.Abs(got/asked-1), backgroundDegraded, 0,
			"background used %.1f%% of the links of tier %d, %.1f%% were asked for", 100*got, tier, 100*asked) {
			j.found.background = true
		}
	}
}

// calibration judges the transfers on the empty fabric, before the first trial.
func (j *judge) calibration(c *results.Calibration) {
	if c == nil {
		return
	}
	for _, l := range c.Lone {
		j.beyond(math.Abs(l.OffPct)/100, loneDegraded, loneInvalid, "a lone transfer over tier %d took %+.1f%% from ideal (median of %d)", l.Tier, l.OffPct, l.N)
	}
	if p := c.Pair; p != nil {
		j.beyond(math.Abs(p.LastOffPct)/100, loneDegraded, loneInvalid, "two transfers on one link were done %+.1f%% from ideal: the link was not kept busy, or not shared", p.LastOffPct)
	}
}

func (j *judge) alone(a *results.AloneCheck) {
	j.found.alone = j.beyond(a.P50Pct, a.LimitP50Pct, 0, "transfers that met no other were %.1f%% from ideal at the median, the limit is %g%%", a.P50Pct, a.LimitP50Pct)
	// The streams of one transfer share its NIC and perhaps more links, and TCP does not share
	// evenly. So their tail does not show the quality of the emulation; the report prints it only.
	if a.Streams == 1 && j.beyond(a.P99Pct, a.LimitP99Pct, 0,
		"transfers that met no other were %.1f%% from ideal at the 99th percentile, the limit is %g%%", a.P99Pct, a.LimitP99Pct) {
		j.found.alone = true
	}
}

// figures returns the measured values for the verdict.
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

// oracle lists the figures of the tiers that the oracle knows.
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
