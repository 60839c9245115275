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
// Neighbouring requests share queues, so they do not count as independent. The means of batches of
// neighbours nearly are. With fewer than SeedsEnough seeds, each seed's pairs are cut into Batches equal
// parts in arrival order, and the interval is Student's over the means of all batches. With more seeds it is Student's over
// the seeds' means. A ratio of means is linearised first (the delta method): each request's
// share in its error enters the batches. Three seeds alone have a t of 4.3, which would hide
// effects that their hundreds of pairs show. The figures of a Summary, and those compared with
// other requests, use the seeds' means from two seeds on.
//
// Data is not changed once made, so concurrent reading is safe. Start reading at Summarize and
// at Figure.
package analysis

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/netkvlab/netkvlab/internal/results"
)

// Change is the relative change from a baseline in per cent: negative is less.
func Change(policy, baseline float64) float64 { return 100 * (policy/baseline - 1) }

// Key names a request: the same in every world and under every policy.
type Key struct {
	Seed uint64
	ID   int // its place in arrival order
}

func (k Key) compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Seed, other.Seed), cmp.Compare(k.ID, other.ID))
}

// Column holds one figure for each request that has it.
type Column map[Key]float64

// at returns the column's values of requests, all of which it must have.
func (c Column) at(keys []Key) []float64 {
	out := make([]float64, len(keys))
	for i, k := range keys {
		out[i] = c[k]
	}
	return out
}

// common lists the requests that all columns have, by seed and id. It is empty without columns.
func common(columns ...Column) []Key {
	if len(columns) == 0 {
		return nil
	}
	var keys []Key
	for k := range columns[0] {
		if !slices.ContainsFunc(columns[1:], func(c Column) bool { _, has := c[k]; return !has }) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, Key.compare)
	return keys
}

// Cell names a column of a Table: a run (a world, a stage or a source), a policy and a metric.
type Cell struct{ Run, Policy, Metric string }

// Table holds the figures of runs.
type Table map[Cell]Column

// Times lists the metrics that are times, and whose gains are relative.
func Times() []string { return []string{results.MetricTTFT, results.MetricTransfer} }

// Set sets the figure of a request in a cell; nil is none.
func (t Table) Set(c Cell, k Key, value *float64) {
	if value == nil {
		return
	}
	if t[c] == nil {
		t[c] = Column{}
	}
	t[c][k] = *value
}

// Figure is the mean of a cell, or the gain over a baseline if one is named.
func (t Table) Figure(c Cell, baseline string) Figure {
	if baseline == "" {
		return Figure{Unit: MS, Policy: t[c]}
	}
	return Figure{Unit: Percent, Policy: t[c], Baseline: t[Cell{c.Run, baseline, c.Metric}]}
}

// Unit is the unit of a figure.
type Unit string

// The units.
const (
	MS      Unit = "ms" // of the policy's mean
	Percent Unit = "%"  // the policy's mean relative to the baseline's: negative is faster
	Points  Unit = "pp" // 100 times the difference of the means
)

// OfDifference is the unit of the difference of two figures.
func (u Unit) OfDifference() Unit {
	if u == Percent {
		return Points
	}
	return u
}

// Figure is a number in which runs are compared: a policy's mean, or its gain over a baseline.
type Figure struct {
	Unit             Unit
	Policy, Baseline Column // a mean has no baseline
}

// Requests lists the requests that all of the figures have, by seed and id.
func Requests(figures ...Figure) []Key {
	var columns []Column
	for _, f := range figures {
		columns = append(columns, f.Policy)
		if f.Unit != MS {
			columns = append(columns, f.Baseline)
		}
	}
	return common(columns...)
}

// Value returns the figure over the given requests, all of which it must have. It is false
// without requests, and where the baseline's mean is 0.
func (f Figure) Value(keys []Key) (float64, bool) {
	p := f.on(keys)
	base := p.base()
	return p.value(base), len(keys) > 0 && base != 0
}

// Estimate is Value with its interval. That of a gain within one run comes from paired requests.
// The interval of a mean, and of a figure that is compared with other requests (unpaired),
// includes the randomness of seeds: from two seeds on it uses the seeds' means.
func (f Figure) Estimate(keys []Key, unpaired bool) (Estimate, bool) {
	value, ok := f.Value(keys)
	if !ok {
		return Estimate{}, false
	}
	seedsEnough := SeedsEnough
	if unpaired || f.Unit == MS {
		seedsEnough = seedsAlone
	}
	return estimate(value, keys, f.on(keys).shares(), seedsEnough), true
}

// Minus returns the figure minus another, over requests that both have; false if undefined.
func (f Figure) Minus(other Figure, keys []Key) (Estimate, bool) {
	x, okX := f.Value(keys)
	y, okY := other.Value(keys)
	if !okX || !okY {
		return Estimate{}, false
	}
	shares := f.on(keys).shares()
	for i, share := range other.on(keys).shares() {
		shares[i] -= share
	}
	return estimate(x-y, keys, shares, SeedsEnough), true
}

// pairs are a figure's values of the same requests.
type pairs struct {
	unit             Unit
	policy, baseline []float64
}

func (f Figure) on(keys []Key) pairs {
	p := pairs{unit: f.Unit, policy: f.Policy.at(keys)}
	if f.Unit != MS {
		p.baseline = f.Baseline.at(keys)
	}
	return p
}

// part returns the pairs of a part of the requests.
func (p pairs) part(r run) pairs {
	return pairs{p.unit, p.policy[r.from:r.to], p.baseline[r.from:r.to]}
}

// base is the number by which the figure is divided.
func (p pairs) base() float64 {
	if p.unit == Percent {
		return mean(p.baseline)
	}
	return 1
}

// value adds the differences of a gain, so that equal policies differ by exactly 0.
func (p pairs) value(base float64) float64 {
	if p.unit == MS {
		return mean(p.policy)
	}
	var sum float64
	for i := range p.policy {
		sum += p.policy[i] - p.baseline[i]
	}
	return sum * (100 / float64(len(p.policy))) / base
}

// shares returns the requests' shares in the figure. A ratio is linearised at its means, so that
// the mean of a batch's shares is its effect on the ratio.
func (p pairs) shares() []float64 {
	if p.unit == MS {
		return p.policy
	}
	base, ratio := p.base(), 1.0
	if p.unit == Percent {
		ratio = mean(p.policy) / base
	}
	out := make([]float64, len(p.policy))
	for i := range out {
		out[i] = 100 / base * (p.policy[i] - ratio*p.baseline[i])
	}
	return out
}

const (
	// Batches is the number of batches of neighbouring requests per seed.
	Batches = 10
	// SeedsEnough is the number of seeds from which an interval uses their means, for paired
	// requests; seedsAlone is the same for requests that are not paired.
	SeedsEnough, seedsAlone = 10, 2
)

// The methods of an interval.
const (
	MethodSeeds       = "seeds-t"
	MethodBatches     = "batch-means-t"
	MethodIndependent = "independent" // root of the sum of two intervals' squares
)

// Estimate is a figure with its interval.
type Estimate struct {
	Value float64
	// CI95 is the half width of the 95% interval; nil if there is too little data.
	CI95   *float64
	Method string
	N      int // number of means in the interval
}

// estimate adds the interval to a value. shares are the requests' shares in it: numbers whose
// mean varies like the value.
func estimate(value float64, keys []Key, shares []float64, seedsEnough int) Estimate {
	runs, method := cut(keys, seedsEnough)
	means := make([]float64, len(runs))
	for i, r := range runs {
		means[i] = mean(shares[r.from:r.to])
	}
	return interval(value, means, method)
}

// interval computes the interval from parts that vary independently around the value.
func interval(value float64, parts []float64, method string) Estimate {
	if _, half := Mean(parts); !math.IsNaN(half) {
		return Estimate{Value: value, CI95: &half, Method: method, N: len(parts)}
	}
	return Estimate{Value: value}
}

// run is a range of neighbours in sorted keys; to is not included.
type run struct{ from, to int }

// cut returns the runs for an interval: seeds, or batches inside each seed. A seed too short for
// batches of two is one batch.
func cut(keys []Key, seedsEnough int) (runs []run, method string) {
	seeds := seedRuns(keys)
	if len(seeds) >= seedsEnough {
		return seeds, MethodSeeds
	}
	for _, s := range seeds {
		n, parts := s.to-s.from, 1
		if n >= 2*Batches {
			parts = Batches
		}
		for i := range parts {
			runs = append(runs, run{s.from + i*n/parts, s.from + (i+1)*n/parts})
		}
	}
	return runs, MethodBatches
}

// seedRuns returns the runs of equal seeds.
func seedRuns(keys []Key) []run {
	var out []run
	for i, k := range keys {
		if i == 0 || keys[i-1].Seed != k.Seed {
			out = append(out, run{from: i})
		}
		out[len(out)-1].to = i + 1
	}
	return out
}

// Independent is b - a for estimates that share no request. It has an interval if both have one.
func Independent(b, a Estimate) Estimate {
	e := Estimate{Value: b.Value - a.Value}
	if b.CI95 != nil && a.CI95 != nil {
		e.CI95, e.Method, e.N = new(math.Hypot(*b.CI95, *a.CI95)), MethodIndependent, min(a.N, b.N)
	}
	return e
}

// Mean is the mean of independent values and the half width of its 95% interval by Student's t,
// t(0.975, n-1) x s / sqrt(n), which is NaN with fewer than two values. NaNs among the values are
// left out.
func Mean(values []float64) (m, ci95 float64) {
	known := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	m = mean(known)
	n := float64(len(known))
	if n < 2 {
		return m, math.NaN()
	}
	var squares float64
	for _, v := range known {
		squares += (v - m) * (v - m)
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975)
	return m, t * math.Sqrt(squares/(n-1)/n)
}

// mean is NaN without values. It adds in order, so that results have the same bits on every
// machine; gonum's order of addition depends on the processor's vectors.
func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// Percentile returns the p-th percentile (0..100) of at least one sorted value, by linear
// interpolation between the closest ranks, the default of numpy. (gonum does not have it: its
// LinInterp puts p at n p, not at (n-1) p.)
func Percentile(sorted []float64, p float64) float64 {
	pos := float64(len(sorted)-1) * p / 100
	i := int(pos)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	frac := pos - float64(i)
	return sorted[i] + frac*(sorted[i+1]-sorted[i])
}
