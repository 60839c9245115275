package kvagent

import (
	"math"
	"math/bits"
	"time"

	"github.com/netkvlab/netkvlab/kvagent/control"
)

// release is the schedule by which a prefill that is still computing gives its
// KV cache away: piece i of n is there at from + (i+1)/n x (to - from), paper time.
// No pieces: everything is there from the start.
type release struct {
	pieces   int64
	from, to time.Duration
}

func newRelease(t *control.Transfer) release {
	return release{
		pieces: int64(t.GetPieces()),
		from:   time.Duration(t.GetReleaseFromPaperNs()),
		to:     time.Duration(t.GetReleaseToPaperNs()),
	}
}

// released tells how many of a stream's total bytes may be written at now and,
// unless that is all, when the next may.
func (r release) released(total int64, now time.Duration) (ready int64, next time.Duration) {
	if r.pieces <= 0 || now >= r.to || r.to <= r.from {
		if r.pieces > 0 && now < r.to {
			return 0, r.to
		}
		return total, now
	}
	// The last piece whose time has come; then the first that brings a byte more.
	i := int64(0)
	if now > r.from {
		i = muldiv(int64(now-r.from), r.pieces, int64(r.to-r.from))
	}
	ready = muldiv(total, i, r.pieces)
	for i++; i < r.pieces && muldiv(total, i, r.pieces) == ready; i++ {
		// a piece of no byte wakes nobody
	}
	return ready, r.at(i)
}

// at is when so many pieces are there, rounded up.
func (r release) at(pieces int64) time.Duration {
	span := int64(r.to - r.from)
	d := muldiv(span, pieces, r.pieces)
	for muldiv(d, r.pieces, span) < pieces {
		d++
	}
	return r.from + time.Duration(d)
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
