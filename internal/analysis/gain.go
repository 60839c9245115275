package analysis

// Difference is the mean of b minus the mean of a over requests that both have.
func Difference(keys []Key, b, a Column) Estimate {
	shares := make([]float64, len(keys))
	for i, k := range keys {
		shares[i] = b[k] - a[k]
	}
	return estimate(b.Mean(keys)-a.Mean(keys), keys, shares, SeedsEnough)
}

// Mean is a column's own mean. Its interval is meant for a comparison with other
// requests, so that the luck of a seed counts: with two seeds or more it is the seeds'.
func Mean(keys []Key, c Column) Estimate {
	shares := make([]float64, len(keys))
	for i, k := range keys {
		shares[i] = c[k]
	}
	return estimate(c.Mean(keys), keys, shares, 2)
}

// Gain is a policy against a baseline, in one run.
type Gain struct{ Policy, Baseline Column }

// Percent is 100 (mean of the policy / mean of the baseline - 1) over these requests:
// negative is faster. It is false where the baseline's mean is 0 or there is no request.
func (g Gain) Percent(keys []Key) (float64, bool) {
	base := g.Baseline.Mean(keys)
	if base == 0 {
		return 0, false
	}
	return 100 * (g.Policy.Mean(keys)/base - 1), true
}

// Estimate is Percent with the interval of a gain within one run: of paired requests.
func (g Gain) Estimate(keys []Key) (Estimate, bool) { return g.estimate(keys, SeedsEnough) }

// Alone is Percent with the interval for a comparison with other requests, as in Mean.
func (g Gain) Alone(keys []Key) (Estimate, bool) { return g.estimate(keys, 2) }

func (g Gain) estimate(keys []Key, seedsEnough int) (Estimate, bool) {
	value, ok := g.Percent(keys)
	if !ok {
		return Estimate{}, false
	}
	return estimate(value, keys, g.shares(keys), seedsEnough), true
}

// shares linearise the ratio at its means: their own mean is 0, and the mean of a few
// of them is by how much those move the gain.
func (g Gain) shares(keys []Key) []float64 {
	base := g.Baseline.Mean(keys)
	ratio := g.Policy.Mean(keys) / base
	out := make([]float64, len(keys))
	for i, k := range keys {
		out[i] = 100 / base * (g.Policy[k] - ratio*g.Baseline[k])
	}
	return out
}

// GainDifference is the gain b minus the gain a, in percentage points, over requests
// that all four columns have. It is false where one of them is not defined.
func GainDifference(keys []Key, b, a Gain) (Estimate, bool) {
	x, okB := b.Percent(keys)
	y, okA := a.Percent(keys)
	if !okB || !okA {
		return Estimate{}, false
	}
	shares, other := b.shares(keys), a.shares(keys)
	for i := range shares {
		shares[i] -= other[i]
	}
	return estimate(x-y, keys, shares, SeedsEnough), true
}
