package results

import (
	"cmp"
	"math"
	"slices"
)

// peakTransfersInto is the most transfers that were under way into one decode
// instance at once, over all seeds: what shows deciders that herd, on stale state or
// on an equal view. Transfers that moved nothing, or were never completed, do not count; one
// that starts in the nanosecond in which another ends does not meet it.
func peakTransfersInto(records []*Record) int {
	type target struct {
		seed   uint64
		decode string
	}
	changes := map[target][]edge{}
	for _, r := range records {
		from, to := r.transferInterval()
		if r.Decode == "" || r.PayloadBytes == 0 || to <= from {
			continue
		}
		k := target{r.Seed, r.Decode}
		changes[k] = append(changes[k], edge{from, 1}, edge{to, -1})
	}
	peak := 0
	for _, c := range changes {
		slices.SortFunc(c, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
		n := 0
		for _, x := range c {
			n += x.by
			peak = max(peak, n)
		}
	}
	return peak
}

// edge is a transfer that starts (+1) or ends (-1).
type edge struct {
	at int64 // ns since the trial's start
	by int
}

// TransferEndMS is when the last byte was there, since the trial's start. With overlap
// transfer_ms is only what came after the prefill, so the end is taken from the parts
// before it; explicit flows have no such parts.
func (r *Record) TransferEndMS() float64 {
	return max(r.TransferStartMS, r.ArrivalMS+r.PrefillWaitMS+r.PrefillMS+r.ReserveMS) + r.TransferMS
}

// transferInterval is when a transfer started and ended, in ns since the trial's start.
func (r *Record) transferInterval() (from, to int64) {
	if r.TransferMS <= 0 {
		return 0, 0
	}
	return int64(math.Round(r.TransferStartMS * 1e6)), int64(math.Round(r.TransferEndMS() * 1e6))
}
