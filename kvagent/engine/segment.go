package engine

import (
	"math"
	"time"
)

// segment is a stretch of iterations with an unchanged batch. Because each
// iteration adds one token to every sequence, the time of its k-th boundary has
// a closed form. So a machine can skip any number of iterations without an event
// and still get the same nanosecond as one that runs each iteration.
type segment struct {
	model   Model
	anchor  time.Duration // boundary 0; it may lie ahead of now, then an iteration of an older batch still runs
	first   int64         // number of iterations of the machine finished at the anchor
	batch   int
	context int64 // tokens held by the batch at the anchor
}

// at returns the time of boundary k >= 0: k iterations after the anchor. The
// context part is rounded to a nanosecond once for all k, not once per
// iteration, so the result does not depend on the machine's steps.
func (s segment) at(k int64) time.Duration {
	fixed := float64(s.model.DecodeBase) + float64(s.model.DecodePerSequence)*float64(s.batch)
	n := float64(k)
	context := s.model.DecodePerContextTokenNs * (n*float64(s.context) + float64(s.batch)*n*(n-1)/2)
	if float64(s.anchor)+n*fixed+context >= math.MaxInt64/2 {
		return maxDuration
	}
	step := s.model.DecodeBase + s.model.DecodePerSequence*time.Duration(s.batch)
	return s.anchor + time.Duration(k)*step + time.Duration(math.Round(context))
}

// floor returns the last boundary at or before t, -1 when the anchor is after t.
func (s segment) floor(t time.Duration) int64 {
	if t < s.anchor {
		return -1
	}
	step := max(s.model.DecodeBase+s.model.DecodePerSequence*time.Duration(s.batch), 1)
	bound := int64((t-s.anchor)/step) + 1 // context only makes iterations longer
	if s.model.DecodePerContextTokenNs == 0 {
		return bound - 1
	}
	lo, hi := int64(0), bound // at(lo) <= t < at(hi)
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		if s.at(mid) <= t {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}
