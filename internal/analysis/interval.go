package analysis

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

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
// batches of two is one batch. Requests that share a queue depend on their neighbours; most of
// this is within a batch, so the means of batches are nearly independent.
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
