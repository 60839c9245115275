// Package analysis compares runs request by request.
//
// Two runs of one seed meet the same requests, so what differs between them is
// seen in the differences of each request, and the luck of the workload cancels.
// Everything here is a mean over the requests that all sides have (Common), or a
// ratio of such means, with an interval that rests on the same pairs. Results do
// not depend on the order in which requests were recorded.
//
// # Intervals
//
// Neighbouring requests share queues, so they do not count as independent. With
// fewer than SeedsEnough seeds each seed's pairs are cut into Batches equal runs in
// arrival order, and the interval is Student's over the means of all batches; with
// more it is over the seeds' own means. A ratio of means is linearised first (the
// delta method): each request's share in its error is what enters the batches.
// Three seeds alone have a t of 4.3, and would hide effects that their hundreds of
// pairs show.
//
// Plain data: nothing here is changed after it was made, so all is safe for
// concurrent reading. Start at Common, then Difference and Gain.
package analysis

import (
	"cmp"
	"slices"
)

// Key names a request: the same in every world and under every policy.
type Key struct {
	Seed uint64
	ID   int // its place in arrival order
}

// Column is one figure of each request that has it.
type Column map[Key]float64

// Common lists the requests that all columns have, by seed and id. It is empty
// without columns.
func Common(columns ...Column) []Key {
	if len(columns) == 0 {
		return nil
	}
	keys := make([]Key, 0, len(columns[0]))
	for k := range columns[0] {
		shared := true
		for _, c := range columns[1:] {
			if _, ok := c[k]; !ok {
				shared = false
				break
			}
		}
		if shared {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, Compare)
	return keys
}

// Compare orders keys by seed and id, as cmp.Compare does.
func Compare(a, b Key) int { return cmp.Or(cmp.Compare(a.Seed, b.Seed), cmp.Compare(a.ID, b.ID)) }

// Seeds lists the seeds of sorted keys.
func Seeds(keys []Key) []uint64 {
	out := []uint64{}
	for _, k := range keys {
		if len(out) == 0 || out[len(out)-1] != k.Seed {
			out = append(out, k.Seed)
		}
	}
	return out
}

// Mean is the mean over these requests, all of which the column must have; 0 for none.
func (c Column) Mean(keys []Key) float64 {
	if len(keys) == 0 {
		return 0
	}
	var sum float64
	for _, k := range keys {
		sum += c[k]
	}
	return sum / float64(len(keys))
}
