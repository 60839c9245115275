package fidelity

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/results"
)

// Trial is one trial of a run with its last attempt's evidence and judgement.
type Trial struct {
	Name      string // as in reasons: "rr, seed 1"
	Evidence  *Evidence
	Judgement Judgement
}

// reasonsShown bounds how many reasons a run's verdict lists.
const reasonsShown = 12

// JudgeRun returns the verdict on a run: that of its worst trial, or a worse one from checks
// that need the data of all trials. alone are the transfers of all trials that met no other; nil
// if there were none. An interrupted run is never good.
func JudgeRun(trials []Trial, alone *results.AloneCheck, interrupted bool) results.Fidelity {
	var all Evidence
	for i := range trials {
		all.Merge(trials[i].Evidence)
	}
	j := newJudge(&all)
	var found found // by any trial
	for _, t := range trials {
		if t.Judgement.Verdict == results.VerdictInvalid || j.Verdict == results.VerdictGood {
			j.Verdict = t.Judgement.Verdict
		}
		found.busy = found.busy || t.Judgement.found.busy
		found.background = found.background || t.Judgement.found.background
		found.alone = found.alone || t.Judgement.found.alone
	}
	j.Reasons = reasons(trials)
	if interrupted {
		j.degraded("the run was cut short: the requests that ended are not a sample of all")
	}
	// A reason from all trials together is added only if no single trial gave it.
	if short(&all.Host, 0) && !found.busy {
		j.busy(&all.Host)
	}
	if all.Oracle.Polls > 0 && !found.background {
		j.background(&all)
	}
	if alone != nil && !found.alone {
		j.alone(alone)
	}
	return j.Fidelity
}

// reasons lists the reasons of all trials, each with the trials to which it applies.
func reasons(trials []Trial) []string {
	names := map[string][]string{}
	var order []string
	for _, t := range trials {
		for _, text := range t.Judgement.Reasons {
			if names[text] == nil {
				order = append(order, text)
			}
			names[text] = append(names[text], t.Name)
		}
	}
	out := make([]string, 0, len(order))
	for _, text := range order {
		switch in := names[text]; {
		case len(in) == len(trials):
			out = append(out, text)
		case len(in) > 3:
			out = append(out, fmt.Sprintf("%d of %d trials: %s", len(in), len(trials), text))
		default:
			out = append(out, fmt.Sprintf("%s: %s", strings.Join(in, "; "), text))
		}
	}
	if more := len(out) - reasonsShown; more > 0 {
		out = append(out[:reasonsShown], fmt.Sprintf("and %d more reasons: summary.json has those of each trial", more))
	}
	return out
}

// Merge adds the evidence of another trial: counts are summed, shares of the host's time are
// averaged, and of judged figures the worst is kept. Alone is not changed.
func (e *Evidence) Merge(o *Evidence) {
	e.Host = mergeLoad(e.Host, o.Host)
	e.Faults = append(e.Faults, o.Faults...)
	e.StoodStill = max(e.StoodStill, o.StoodStill)
	if o.TimerLate > e.TimerLate {
		e.TimerLate, e.TimerLateOf = o.TimerLate, o.TimerLateOf
	}
	e.PortFailures += o.PortFailures
	e.Transport.merge(&o.Transport)
	e.Ports.merge(&o.Ports)
	e.Oracle.Add(o.Oracle)
	e.Calibration = mergeCalibration(e.Calibration, o.Calibration)
	e.Asked = o.Asked
}

// mergeLoad weights shares by their numbers of windows.
func mergeLoad(a, b host.Load) host.Load {
	mean := func(x, y float64) float64 {
		return (x*float64(a.Windows) + y*float64(b.Windows)) / float64(max(1, a.Windows+b.Windows))
	}
	return host.Load{
		Windows: a.Windows + b.Windows, Busy: a.Busy + b.Busy, MemoryPressure: a.MemoryPressure + b.MemoryPressure,
		Idle: mean(a.Idle, b.Idle), SoftIRQ: mean(a.SoftIRQ, b.SoftIRQ), Steal: mean(a.Steal, b.Steal), Others: mean(a.Others, b.Others),
		SoftnetDrops: a.SoftnetDrops + b.SoftnetDrops, CPUStopped: max(a.CPUStopped, b.CPUStopped), Stopped: max(a.Stopped, b.Stopped),
		Err: cmp.Or(a.Err, b.Err),
	}
}

func (t *Transport) merge(o *Transport) {
	t.Segments += o.Segments
	t.Retransmits += o.Retransmits
	t.QueueDrops += o.QueueDrops
	t.SegmentsPerPacket = max(t.SegmentsPerPacket, o.SegmentsPerPacket)
	t.Busy += o.Busy
	t.Limited += o.Limited
}

func (p *Ports) merge(o *Ports) {
	if o.Excess > p.Excess {
		p.Excess, p.ExcessAt = o.Excess, o.ExcessAt
	}
	if o.Served > 0 && (p.Served == 0 || o.Served < p.Served) {
		p.Served, p.ServedAt = o.Served, o.ServedAt
	}
	if o.Stray > p.Stray {
		p.Stray, p.StrayAt, p.StrayGot, p.StrayWant = o.Stray, o.StrayAt, o.StrayGot, o.StrayWant
	}
}

// mergeCalibration keeps, per tier, the result of the fabric that is furthest from ideal.
func mergeCalibration(a, b *results.Calibration) *results.Calibration {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	out := &results.Calibration{Lone: slices.Clone(a.Lone), Pair: a.Pair}
	for _, l := range b.Lone {
		i := slices.IndexFunc(out.Lone, func(x results.LoneTransfers) bool { return x.Tier == l.Tier })
		switch {
		case i < 0:
			out.Lone = append(out.Lone, l)
		case l != out.Lone[i]: // else they are the same transfers: both trials ran on one fabric
			l.N += out.Lone[i].N
			if math.Abs(out.Lone[i].OffPct) > math.Abs(l.OffPct) {
				l.OffPct = out.Lone[i].OffPct
			}
			out.Lone[i] = l
		}
	}
	slices.SortFunc(out.Lone, func(x, y results.LoneTransfers) int { return cmp.Compare(x.Tier, y.Tier) })
	if a.Pair == nil || b.Pair == nil || *a.Pair == *b.Pair {
		out.Pair = cmp.Or(a.Pair, b.Pair)
		return out
	}
	pair := *a.Pair
	if math.Abs(b.Pair.LastOffPct) > math.Abs(pair.LastOffPct) {
		pair = *b.Pair
	}
	pair.N = a.Pair.N + b.Pair.N
	out.Pair = &pair
	return out
}
