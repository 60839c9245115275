package analysis

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

const (
	// Batches is how many runs of neighbouring requests each seed is cut into.
	Batches = 10
	// SeedsEnough is how many seeds make an interval of their own means, where requests are paired.
	SeedsEnough = 10
	// seedsAlone is the same where they are not.
	seedsAlone = 2
)

// The methods of an interval.
const (
	MethodSeeds       = "seeds-t"
	MethodBatches     = "batch-means-t"
	MethodIndependent = "independent" // root of the sum of two intervals' squares
)

// Estimate is a figure and how sure it is.
type Estimate struct {
	Value float64
	// CI95 is the half width of the 95% interval; nil where there is too little data.
	CI95   *float64
	Method string
	N      int // means that the interval rests on
}

// estimate gives a value its interval. shares are the requests' shares in it:
// numbers whose mean varies as the value does.
func estimate(value float64, keys []Key, shares []float64, seedsEnough int) Estimate {
	runs, method := cut(keys, seedsEnough)
	means := make([]float64, len(runs))
	for i, r := range runs {
		means[i] = mean(shares[r.from:r.to])
	}
	return interval(value, means, method)
}

// interval rests on parts that vary independently around the value.
func interval(value float64, parts []float64, method string) Estimate {
	if half, ok := halfWidth(parts); ok {
		return Estimate{Value: value, CI95: &half, Method: method, N: len(parts)}
	}
	return Estimate{Value: value}
}

// run is a run of neighbours in sorted keys, without to.
type run struct{ from, to int }

// cut gives the runs that an interval rests on: seeds, or batches inside each seed, where
// one that is too short for batches of two counts as one batch. Requests that share
// a queue resemble their neighbours; a batch contains most of that, so that its mean is
// near enough independent.
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

// seedRuns are the runs of equal seeds.
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

// Independent is b - a for estimates that share no request. Its interval is there
// when both have one.
func Independent(b, a Estimate) Estimate {
	e := Estimate{Value: b.Value - a.Value}
	if b.CI95 != nil && a.CI95 != nil {
		e.CI95, e.Method, e.N = new(math.Hypot(*b.CI95, *a.CI95)), MethodIndependent, min(a.N, b.N)
	}
	return e
}

// Mean is the mean of independent values and the half width of its 95% interval by
// Student's t, which is NaN with fewer than two. NaNs among the values are left out.
func Mean(values []float64) (m, ci95 float64) {
	known := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	half, ok := halfWidth(known)
	if !ok {
		half = math.NaN()
	}
	return mean(known), half
}

// halfWidth is t(0.975, n-1) x s / sqrt(n); not ok with fewer than two values.
func halfWidth(x []float64) (float64, bool) {
	n := float64(len(x))
	if n < 2 {
		return 0, false
	}
	m := mean(x)
	var squares float64
	for _, v := range x {
		squares += (v - m) * (v - m)
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975)
	return t * math.Sqrt(squares/(n-1)/n), true
}

// mean is NaN of no value. It adds in order, so that a run gives the same bits on every
// machine; gonum's mean adds as the processor's vectors do.
func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// Percentile returns the p-th percentile (0..100) of at least one sorted value, by
// linear interpolation between the closest ranks as numpy does by default. (gonum
// has no such rule: its LinInterp puts p at n p, not at (n-1) p.)
func Percentile(sorted []float64, p float64) float64 {
	pos := float64(len(sorted)-1) * p / 100
	i := int(pos)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	frac := pos - float64(i)
	return sorted[i] + frac*(sorted[i+1]-sorted[i])
}
