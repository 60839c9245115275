package flowrun

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Mean is a mean over seeds and the half width of its 95% interval by Student's t,
// which is NaN with fewer than two seeds. NaNs among the values are left out.
func Mean(values []float64) (mean, ci95 float64) {
	var n, sum float64
	for _, v := range values {
		if !math.IsNaN(v) {
			n++
			sum += v
		}
	}
	if n == 0 {
		return math.NaN(), math.NaN()
	}
	mean = sum / n
	if n < 2 {
		return mean, math.NaN()
	}
	var squares float64
	for _, v := range values {
		if !math.IsNaN(v) {
			squares += (v - mean) * (v - mean)
		}
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975)
	return mean, t * math.Sqrt(squares/(n-1)/n)
}

// Gain is the relative change from a baseline in per cent: negative is less.
func Gain(policy, baseline float64) float64 { return 100 * (policy/baseline - 1) }
