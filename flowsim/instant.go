package flowsim

import (
	"cmp"
	"math"
	"time"
)

// Instant is a point on the virtual clock: seconds since the start, as the
// unevaluated sum of two float64. Its resolution is far below a nanosecond at
// any time of any simulation, and multiplying all times by a power of two is
// exact. The zero Instant is the start. Compare Instants with Compare or ==.
type Instant struct {
	// hi is the sum rounded to a float64, lo what the rounding lost.
	hi, lo float64
}

// never is later than every other Instant.
var never = Instant{hi: math.Inf(1)}

// At is the Instant a duration after the start. It is exact to 1e-16 s, and At(d).Duration() is d.
func At(d time.Duration) Instant {
	whole, rest := d/time.Second, d%time.Second
	return sum(float64(whole), float64(rest)/float64(time.Second))
}

// Seconds is the Instant s seconds after the start.
func Seconds(s float64) Instant { return Instant{hi: s} }

// Seconds is the float64 nearest to the Instant, in seconds.
func (t Instant) Seconds() float64 { return t.hi }

// Duration rounds to the nearest nanosecond. Instants beyond the range of
// time.Duration (292 years) become its ends.
func (t Instant) Duration() time.Duration {
	const limit = float64(math.MaxInt64 / int64(time.Second))
	switch {
	case t.hi >= limit:
		return math.MaxInt64
	case t.hi <= -limit:
		return math.MinInt64
	}
	whole := math.Floor(t.hi)
	nanos := math.Round((t.hi - whole + t.lo) * float64(time.Second))
	return time.Duration(whole)*time.Second + time.Duration(nanos)
}

// Add is the Instant that many seconds later.
func (t Instant) Add(seconds float64) Instant {
	if math.IsInf(seconds, 0) {
		return Instant{hi: seconds}
	}
	s := sum(t.hi, seconds)
	return fastSum(s.hi, s.lo+t.lo)
}

// Sub is the time from u to t in seconds.
func (t Instant) Sub(u Instant) float64 { return (t.hi - u.hi) + (t.lo - u.lo) }

// Compare is -1, 0 or 1 as t is before, at or after u.
func (t Instant) Compare(u Instant) int {
	if t.hi != u.hi {
		return cmp.Compare(t.hi, u.hi)
	}
	return cmp.Compare(t.lo, u.lo)
}

// Before reports whether t is before u.
func (t Instant) Before(u Instant) bool { return t.hi < u.hi || t.hi == u.hi && t.lo < u.lo }

// sum adds two float64 without loss (Knuth's two-sum).
func sum(a, b float64) Instant {
	s := a + b
	bb := s - a
	return Instant{hi: s, lo: (a - (s - bb)) + (b - bb)}
}

// fastSum does the same where |a| >= |b| or a is 0 (Dekker).
func fastSum(a, b float64) Instant {
	s := a + b
	return Instant{hi: s, lo: b - (s - a)}
}
