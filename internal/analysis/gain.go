package analysis

// Change is the relative change from a baseline in per cent: negative is less.
func Change(policy, baseline float64) float64 { return 100 * (policy/baseline - 1) }

// Gain is a policy against a baseline, in one run.
type Gain struct {
	Policy, Baseline Column
	// Points counts 100 times the difference of the means, instead of per cent of the baseline's.
	Points bool
}

// Percent is by how many per cent the policy's mean over these requests is above the
// baseline's: negative is faster. It is false where the baseline's mean is 0 or there is no request.
func (g Gain) Percent(keys []Key) (float64, bool) {
	p := g.on(keys)
	base := p.base()
	return p.change(base), len(keys) > 0 && base != 0
}

// Estimate is Percent with the interval of a gain within one run: of paired requests.
func (g Gain) Estimate(keys []Key) (Estimate, bool) { return g.estimate(keys, SeedsEnough) }

// Alone is Percent with the interval for a comparison with other requests, as in Column.Estimate.
func (g Gain) Alone(keys []Key) (Estimate, bool) { return g.estimate(keys, seedsAlone) }

func (g Gain) estimate(keys []Key, seedsEnough int) (Estimate, bool) {
	value, ok := g.Percent(keys)
	if !ok {
		return Estimate{}, false
	}
	return estimate(value, keys, g.on(keys).shares(), seedsEnough), true
}

// GainDifference is the gain b minus the gain a, in percentage points, over requests
// that all four columns have. It is false where one of them is not defined.
func GainDifference(keys []Key, b, a Gain) (Estimate, bool) {
	x, okB := b.Percent(keys)
	y, okA := a.Percent(keys)
	if !okB || !okA {
		return Estimate{}, false
	}
	shares, other := b.on(keys).shares(), a.on(keys).shares()
	for i := range shares {
		shares[i] -= other[i]
	}
	return estimate(x-y, keys, shares, SeedsEnough), true
}

// pairs are a gain's figures of the same requests.
type pairs struct {
	policy, baseline []float64
	points           bool
}

func (g Gain) on(keys []Key) pairs { return pairs{g.Policy.at(keys), g.Baseline.at(keys), g.Points} }

func (p pairs) part(r run) pairs {
	return pairs{p.policy[r.from:r.to], p.baseline[r.from:r.to], p.points}
}

// base is what a change is counted in.
func (p pairs) base() float64 {
	if p.points {
		return 1
	}
	return mean(p.baseline)
}

// change is the mean difference in per cent of base. It adds differences, so that
// equal policies differ by 0 to the bit.
func (p pairs) change(base float64) float64 {
	var sum float64
	for i := range p.policy {
		sum += p.policy[i] - p.baseline[i]
	}
	return sum * (100 / float64(len(p.policy))) / base
}

// shares linearise the ratio at its means: their own mean is 0, and the mean of a few
// of them is by how much those move the gain.
func (p pairs) shares() []float64 {
	base, ratio := p.base(), 1.0
	if !p.points {
		ratio = mean(p.policy) / base
	}
	out := make([]float64, len(p.policy))
	for i := range out {
		out[i] = 100 / base * (p.policy[i] - ratio*p.baseline[i])
	}
	return out
}
