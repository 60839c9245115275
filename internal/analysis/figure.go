package analysis

// Change is the relative change from a baseline in per cent: negative is less.
func Change(policy, baseline float64) float64 { return 100 * (policy/baseline - 1) }

// Unit says what a figure is.
type Unit string

// The units.
const (
	MS      Unit = "ms" // of the policy's mean
	Percent Unit = "%"  // by how much the policy's mean is above the baseline's: negative is faster
	Points  Unit = "pp" // 100 times the difference of the means
)

// OfDifference is the unit of the difference of two figures.
func (u Unit) OfDifference() Unit {
	if u == Percent {
		return Points
	}
	return u
}

// Figure is what runs are compared by: a policy's mean, or its gain over a baseline.
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

// Value is the figure over these requests, which it must have. It is false where there
// is none, and where the baseline's mean is 0.
func (f Figure) Value(keys []Key) (float64, bool) {
	p := f.on(keys)
	base := p.base()
	return p.value(base), len(keys) > 0 && base != 0
}

// Estimate is Value with the interval of a figure within one run: of a gain, that of
// paired requests.
func (f Figure) Estimate(keys []Key) (Estimate, bool) {
	if f.Unit == MS {
		return f.Alone(keys)
	}
	return f.estimate(keys, SeedsEnough)
}

// Alone is Value with an interval for a comparison with other requests, so that what
// is random in a seed counts: from two seeds on it rests on the seeds' means.
func (f Figure) Alone(keys []Key) (Estimate, bool) { return f.estimate(keys, seedsAlone) }

func (f Figure) estimate(keys []Key, seedsEnough int) (Estimate, bool) {
	value, ok := f.Value(keys)
	if !ok {
		return Estimate{}, false
	}
	return estimate(value, keys, f.on(keys).shares(), seedsEnough), true
}

// Minus is how far the figure is above another, over requests that both have. It is
// false where one of them is not defined.
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

// part cuts a gain.
func (p pairs) part(r run) pairs {
	return pairs{p.unit, p.policy[r.from:r.to], p.baseline[r.from:r.to]}
}

// base is what the figure is counted in.
func (p pairs) base() float64 {
	if p.unit == Percent {
		return mean(p.baseline)
	}
	return 1
}

// value adds the differences of a gain, so that equal policies differ by 0 to the bit.
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

// shares are the requests' shares in the figure. A ratio is linearised at its means:
// the mean of a few shares is by how much those move it.
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
