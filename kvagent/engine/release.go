package engine

import (
	"math"
	"math/bits"
	"time"
)

// Release is the schedule by which a prefill that is still computing releases its
// KV cache: piece i of Pieces is available at From + (i+1)/Pieces x (To - From).
// No pieces: everything is available from the start. Both worlds send by it.
type Release struct {
	Pieces   int64
	From, To time.Duration
}

// Ready returns how many of a stream's total bytes may leave at now and, unless that
// is all, when the next may.
func (r Release) Ready(total int64, now time.Duration) (ready int64, next time.Duration) {
	if r.Pieces <= 0 || now >= r.To || r.To <= r.From {
		if r.Pieces > 0 && now < r.To {
			return 0, r.To
		}
		return total, now
	}
	// The last piece whose time has come; then the first that brings a byte more.
	i := int64(0)
	if now > r.From {
		i = muldiv(int64(now-r.From), r.Pieces, int64(r.To-r.From))
	}
	ready = muldiv(total, i, r.Pieces)
	for i++; i < r.Pieces && muldiv(total, i, r.Pieces) == ready; i++ {
		// a piece without a byte causes no wake-up
	}
	return ready, r.at(i)
}

// at is when this number of pieces is available, rounded up.
func (r Release) at(pieces int64) time.Duration {
	span := int64(r.To - r.From)
	d := muldiv(span, pieces, r.Pieces)
	for muldiv(d, r.Pieces, span) < pieces {
		d++
	}
	return r.From + time.Duration(d)
}

// muldiv is a*b/c rounded down without overflow in between, for a, b >= 0, c > 0.
func muldiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, math.MaxInt64))
}
