package analysis

import (
	"cmp"
	"math"
	"slices"

	"github.com/netkvlab/netkvlab/internal/results"
)

// peakTransfersInto is the largest number of transfers into one decode instance at once, over
// all seeds. It shows when decisions crowd on one instance, because of old state or equal views.
// Transfers that moved nothing or never completed do not count. A transfer that starts in the
// nanosecond in which another ends does not overlap it.
func peakTransfersInto(records []*results.Record) int {
	type target struct {
		seed   uint64
		decode string
	}
	changes := map[target][]edge{}
	for _, r := range records {
		from, to := transferInterval(r)
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

// transferInterval is when a transfer started and ended, in ns since the trial's start.
func transferInterval(r *results.Record) (from, to int64) {
	if r.TransferMS <= 0 {
		return 0, 0
	}
	return int64(math.Round(r.TransferStartMS * 1e6)), int64(math.Round(r.TransferEndMS() * 1e6))
}
