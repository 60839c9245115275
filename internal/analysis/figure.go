package analysis

// Change is the relative change from a baseline in per cent: negative is less.
func Change(policy, baseline float64) float64 { return 100 * (policy/baseline - 1) }

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

// Estimate is Value with the interval of a figure within one run. For a gain it comes from
// paired requests.
func (f Figure) Estimate(keys []Key) (Estimate, bool) {
	if f.Unit == MS {
		return f.Alone(keys)
	}
	return f.estimate(keys, SeedsEnough)
}

// Alone is Value with an interval for a comparison with other requests. This interval includes
// the randomness of seeds: from two seeds on it uses the seeds' means.
func (f Figure) Alone(keys []Key) (Estimate, bool) { return f.estimate(keys, seedsAlone) }

func (f Figure) estimate(keys []Key, seedsEnough int) (Estimate, bool) {
	value, ok := f.Value(keys)
	if !ok {
		return Estimate{}, false
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
	p := pairs{unit: f.Unit, policy: f.Policy.At(keys)}
	if f.Unit != MS {
		p.baseline = f.Baseline.At(keys)
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
