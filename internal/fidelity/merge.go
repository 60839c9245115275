package fidelity

import (
	"cmp"
	"slices"

	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/results"
)

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
	n := float64(a.Windows + b.Windows)
	mean := func(x, y float64) float64 {
		if n == 0 {
			return x
		}
		return (x*float64(a.Windows) + y*float64(b.Windows)) / n
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
		if i < 0 {
			out.Lone = append(out.Lone, l)
			continue
		}
		if l == out.Lone[i] {
			continue // the same transfers: both trials ran on one fabric
		}
		l.N += out.Lone[i].N
		if abs(out.Lone[i].OffPct) > abs(l.OffPct) {
			l.OffPct = out.Lone[i].OffPct
		}
		out.Lone[i] = l
	}
	slices.SortFunc(out.Lone, func(x, y results.LoneTransfers) int { return cmp.Compare(x.Tier, y.Tier) })
	if a.Pair == nil || b.Pair == nil || *a.Pair == *b.Pair {
		out.Pair = cmp.Or(a.Pair, b.Pair)
		return out
	}
	pair := *a.Pair
	if abs(b.Pair.LastOffPct) > abs(pair.LastOffPct) {
		pair = *b.Pair
	}
	pair.N = a.Pair.N + b.Pair.N
	out.Pair = &pair
	return out
}
