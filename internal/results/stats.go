package results

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// How the figures are computed, in words; they travel in Summary.Methods.
const (
	percentileMethod = "linear interpolation between closest ranks: p at position (n-1)p/100 of the sorted values (numpy's default)"
	ciMethod         = "half width of the 95% interval of the mean by Student's t; seeds-t: over the means of the seeds (2 seeds or more); " +
		"batch-means-t: one seed, over the means of 10 equal batches of requests in arrival order (20 values or more); absent with less"
)

const (
	methodSeeds   = "seeds-t"
	methodBatches = "batch-means-t"
	batches       = 10
)

// seedValues holds the values of one seed in request order.
type seedValues []float64

// describe computes the statistics over all seeds; nil when there is no value.
func describe(seeds []seedValues) *Stats {
	all := slices.Concat(seeds...)
	if len(all) == 0 {
		return nil
	}
	s := &Stats{N: len(all), Mean: mean(all)}
	means, method := groupMeans(seeds)
	if half, ok := HalfWidth(means); ok {
		s.CI95, s.CIMethod, s.CIN = &half, method, len(means)
	}
	slices.Sort(all)
	s.Min, s.Max = all[0], all[len(all)-1]
	s.P50, s.P90, s.P99 = Percentile(all, 50), Percentile(all, 90), Percentile(all, 99)
	return s
}

// groupMeans returns the means that an interval rests on, and by which method:
// those of the seeds, or, where only one seed has values, those of batches of
// consecutive requests. Requests that share a queue resemble their neighbours;
// a batch swallows most of that, so that its mean is near enough independent.
func groupMeans(seeds []seedValues) (means []float64, method string) {
	var one seedValues
	for _, v := range seeds {
		if len(v) > 0 {
			means = append(means, mean(v))
			one = v
		}
	}
	if len(means) != 1 {
		return means, methodSeeds
	}
	means = nil
	for _, b := range splitBatches(len(one)) {
		means = append(means, mean(one[b[0]:b[1]]))
	}
	return means, methodBatches
}

// splitBatches cuts n values into equal runs [from, to) (sizes differ by at
// most one); none when a batch would hold fewer than two.
func splitBatches(n int) [][2]int {
	if n < 2*batches {
		return nil
	}
	out := make([][2]int, batches)
	for i := range out {
		out[i] = [2]int{i * n / batches, (i + 1) * n / batches}
	}
	return out
}

// HalfWidth returns the half width of the 95% interval of the mean of independent
// values, t(0.975, n-1) x s / sqrt(n); not ok with fewer than two values.
func HalfWidth(x []float64) (float64, bool) {
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

// mean returns the arithmetic mean of at least one value.
func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// Percentile returns the p-th percentile (0..100) of at least one sorted value.
func Percentile(sorted []float64, p float64) float64 {
	pos := float64(len(sorted)-1) * p / 100
	i := int(pos)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	frac := pos - float64(i)
	return sorted[i] + frac*(sorted[i+1]-sorted[i])
}
