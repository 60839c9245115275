// Package analysis computes the figures of a run from its records: the Summary, and the means,
// percentiles, intervals and gains in it. Comparisons of runs (package compare) and the
// attribution of the gap between the worlds (package attribution) use the same.
//
// A Summary is a pure function of records and Meta: the order of the records does not matter,
// and every figure can be recomputed from requests.jsonl. What cannot be known is absent, never
// 0 or NaN. Failures stay visible: failed requests miss their SLO, and each gain says how many
// requests it could not compare.
//
// # Pairs
//
// Two runs of one seed have the same requests. So the differences per request show what differs
// between the runs, and the randomness of the workload cancels. A comparison is a mean over the
// requests that all sides have (Requests), or a ratio of such means, with an interval from the
// same pairs.
//
// # Intervals
//
// Neighbouring requests share queues, so they do not count as independent. With fewer than
// SeedsEnough seeds, each seed's pairs are cut into Batches equal parts in arrival order, and
// the interval is Student's over the means of all batches. With more seeds it is Student's over
// the seeds' means. A ratio of means is linearised first (the delta method): each request's
// share in its error enters the batches. Three seeds alone have a t of 4.3, which would hide
// effects that their hundreds of pairs show. The figures of a Summary, and those compared with
// other requests, use the seeds' means from two seeds on.
//
// All types are plain data that is not changed once made, so concurrent reading is safe. Start
// reading at Summarize and at Figure.
package analysis

import (
	"cmp"
	"maps"
	"slices"
)

// Key names a request: the same in every world and under every policy.
type Key struct {
	Seed uint64
	ID   int // its place in arrival order
}

func (k Key) compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Seed, other.Seed), cmp.Compare(k.ID, other.ID))
}

// Column holds one figure for each request that has it, by seed and id. The zero value is empty.
type Column struct {
	keys   []Key
	values []float64
}

// NewColumn makes a column of figures.
func NewColumn(figures map[Key]float64) Column {
	c := Column{keys: slices.SortedFunc(maps.Keys(figures), Key.compare)}
	for _, k := range c.keys {
		c.values = append(c.values, figures[k])
	}
	return c
}

// Keys lists the requests of the column by seed and id. Do not change it.
func (c Column) Keys() []Key { return c.keys }

// common lists the requests that all columns have, by seed and id. It is empty
// without columns.
func common(columns ...Column) []Key {
	if len(columns) == 0 {
		return nil
	}
	return within(columns[0].keys, columns[1:]...)
}

// within lists the given sorted keys that all columns have.
func within(keys []Key, columns ...Column) []Key {
	out := slices.Clone(keys)
	for _, c := range columns {
		next := 0
		out = slices.DeleteFunc(out, func(k Key) bool {
			for next < len(c.keys) && c.keys[next].compare(k) < 0 {
				next++
			}
			if next == len(c.keys) || c.keys[next] != k {
				return true
			}
			next++
			return false
		})
	}
	return out
}

// At returns the values of sorted keys. The column must have all of them.
func (c Column) At(keys []Key) []float64 {
	out := make([]float64, len(keys))
	next := 0
	for i, k := range keys {
		for c.keys[next] != k {
			next++
		}
		out[i] = c.values[next]
		next++
	}
	return out
}
