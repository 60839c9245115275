package engine

import (
	"fmt"
	"math"
	"time"
)

const (
	maxDuration = time.Duration(math.MaxInt64) // computed times saturate here instead of wrapping
	maxTerm     = time.Hour                    // of a Model's constant terms, so that their sum over a batch cannot wrap
)

// Model is how long the two phases compute. The form is that of DistServe's simulator: linear plus quadratic in the
// prompt for prefill; a constant, the batch and the total context for a decode iteration.
//
// Durations are 0 to an hour. Numbers are finite, 0 or more. The zero value computes in no time; NewDecode refuses
// it, because an iteration must take at least one nanosecond.
type Model struct {
	PrefillBase              time.Duration // the constant part of a prefill
	PrefillPerTokenNs        float64       // nanoseconds per prompt token
	PrefillPerTokenSquaredNs float64       // nanoseconds per squared prompt token (attention)
	DecodeBase               time.Duration // the constant part of an iteration (reading the weights)
	DecodePerSequence        time.Duration // added for each sequence in the batch
	DecodePerContextTokenNs  float64       // nanoseconds for each token of context in the batch (reading the KV cache)
}

// Prefill returns how long a prompt with this number of uncached tokens takes. Negative tokens count as 0; the
// result saturates at the largest Duration.
func (m Model) Prefill(tokens int) time.Duration {
	l := float64(max(tokens, 0))
	ns := m.PrefillPerTokenNs*l + m.PrefillPerTokenSquaredNs*l*l
	if ns >= math.MaxInt64/2 {
		return maxDuration
	}
	return m.PrefillBase + time.Duration(math.Round(ns))
}

// Validate names the first field that is out of range.
func (m Model) Validate() error {
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"PrefillBase", m.PrefillBase}, {"DecodeBase", m.DecodeBase}, {"DecodePerSequence", m.DecodePerSequence}} {
		if f.d < 0 || f.d > maxTerm {
			return fmt.Errorf("engine model: %w: %s is %v, want 0 to %v", ErrInvalid, f.name, f.d, maxTerm)
		}
	}
	for _, f := range []struct {
		name string
		v    float64
	}{
		{"PrefillPerTokenNs", m.PrefillPerTokenNs},
		{"PrefillPerTokenSquaredNs", m.PrefillPerTokenSquaredNs},
		{"DecodePerContextTokenNs", m.DecodePerContextTokenNs},
	} {
		if !(f.v >= 0) || math.IsInf(f.v, 0) {
			return fmt.Errorf("engine model: %w: %s is %v, want a finite number, 0 or more", ErrInvalid, f.name, f.v)
		}
	}
	return nil
}

// segment is a stretch of iterations with an unchanged batch. Because each iteration adds one token to every
// sequence, the time of its k-th boundary has a closed form. So a machine can skip any number of iterations without
// an event and still get the same nanosecond as one that runs each iteration.
type segment struct {
	model   Model
	anchor  time.Duration // boundary 0; it may lie ahead of now, then an iteration of an older batch still runs
	first   int64         // number of iterations of the machine finished at the anchor
	batch   int
	context int64 // tokens held by the batch at the anchor
}

// step is an iteration's time without its context part.
func (s segment) step() time.Duration {
	return s.model.DecodeBase + s.model.DecodePerSequence*time.Duration(s.batch)
}

// at returns the time of boundary k >= 0: k iterations after the anchor. The context part is rounded to a nanosecond
// once for all k, not once per iteration, so the result does not depend on the machine's steps.
func (s segment) at(k int64) time.Duration {
	n := float64(k)
	context := s.model.DecodePerContextTokenNs * (n*float64(s.context) + float64(s.batch)*n*(n-1)/2)
	if float64(s.anchor)+n*float64(s.step())+context >= math.MaxInt64/2 {
		return maxDuration
	}
	return s.anchor + time.Duration(k)*s.step() + time.Duration(math.Round(context))
}

// floor returns the last boundary at or before t, -1 when the anchor is after t.
func (s segment) floor(t time.Duration) int64 {
	if t < s.anchor {
		return -1
	}
	bound := int64((t-s.anchor)/max(s.step(), 1)) + 1 // context only makes iterations longer
	if s.model.DecodePerContextTokenNs == 0 {
		return bound - 1
	}
	lo, hi := int64(0), bound // at(lo) <= t < at(hi)
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; s.at(mid) <= t {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}
