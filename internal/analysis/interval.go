package analysis

import (
	"math"

	"github.com/netkvlab/netkvlab/internal/results"
)

const (
	// Batches is how many runs of neighbouring requests each seed is cut into.
	Batches = 10
	// SeedsEnough is how many seeds make an interval of their own means.
	SeedsEnough = 10
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
	e := Estimate{Value: value}
	means, method := groupMeans(keys, shares, seedsEnough)
	if half, ok := results.HalfWidth(means); ok {
		e.CI95, e.Method, e.N = &half, method, len(means)
	}
	return e
}

// groupMeans are the means of seeds, or of batches inside each seed. Seeds too short to
// be cut into batches of two count as one batch.
func groupMeans(keys []Key, shares []float64, seedsEnough int) (means []float64, method string) {
	bounds := seedBounds(keys)
	method = MethodBatches
	if len(bounds) >= seedsEnough {
		method = MethodSeeds
	}
	for _, b := range bounds {
		n := b[1] - b[0]
		parts := 1
		if method == MethodBatches && n >= 2*Batches {
			parts = Batches
		}
		for i := range parts {
			means = append(means, mean(shares[b[0]+i*n/parts:b[0]+(i+1)*n/parts]))
		}
	}
	return means, method
}

// seedBounds are the runs [from, to) of equal seeds in sorted keys.
func seedBounds(keys []Key) [][2]int {
	var out [][2]int
	for i, k := range keys {
		if i == 0 || keys[i-1].Seed != k.Seed {
			out = append(out, [2]int{i, i})
		}
		out[len(out)-1][1] = i + 1
	}
	return out
}

func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// Independent is b - a for estimates that share no request. Its interval is there
// when both have one.
func Independent(b, a Estimate) Estimate {
	e := Estimate{Value: b.Value - a.Value}
	if b.CI95 != nil && a.CI95 != nil {
		half := math.Hypot(*b.CI95, *a.CI95)
		e.CI95, e.Method, e.N = &half, MethodIndependent, min(a.N, b.N)
	}
	return e
}
