package engine

import (
	"fmt"
	"math"
	"time"
)

const (
	// maxDuration is where computed times saturate instead of wrapping.
	maxDuration = time.Duration(math.MaxInt64)
	// maxTerm bounds the constant terms of a Model, so that their sum over a batch cannot wrap.
	maxTerm = time.Hour
)

// Model is how long the two phases compute. The form is that of DistServe's
// simulator: linear plus quadratic in the prompt for prefill; a constant, the
// batch and the total context for a decode iteration.
//
// Durations are at most an hour. The zero value computes in no time; NewDecode refuses it, because an
// iteration must take at least one nanosecond.
type Model struct {
	// PrefillBase is the constant part of a prefill, 0 or more.
	PrefillBase time.Duration
	// PrefillPerTokenNs is nanoseconds per prompt token, finite, 0 or more.
	PrefillPerTokenNs float64
	// PrefillPerTokenSquaredNs is nanoseconds per squared prompt token (attention), finite, 0 or more.
	PrefillPerTokenSquaredNs float64
	// DecodeBase is the constant part of an iteration (reading the weights), 0 or more.
	DecodeBase time.Duration
	// DecodePerSequence is added for each sequence in the batch, 0 or more.
	DecodePerSequence time.Duration
	// DecodePerContextTokenNs is nanoseconds for each token of context in the batch (reading the KV cache), finite, 0 or more.
	DecodePerContextTokenNs float64
}

// Prefill returns how long a prompt with this number of uncached tokens takes. Negative
// tokens count as 0; the result saturates at the largest Duration.
func (m Model) Prefill(tokens int) time.Duration {
	l := float64(max(tokens, 0))
	ns := m.PrefillPerTokenNs*l + m.PrefillPerTokenSquaredNs*l*l
	if ns >= math.MaxInt64/2 {
		return maxDuration
	}
	return m.PrefillBase + time.Duration(math.Round(ns))
}

// Iteration returns how long one decode iteration of batch sequences that hold
// contextTokens in total takes: t_iter of the notes' Algorithm 1.
func (m Model) Iteration(batch, contextTokens int) time.Duration {
	return segment{model: m, batch: max(batch, 0), context: int64(max(contextTokens, 0))}.at(1)
}

// Validate names the first field that is out of range.
func (m Model) Validate() error {
	for _, f := range []struct {
		name string
		d    time.Duration
	}{
		{"PrefillBase", m.PrefillBase},
		{"DecodeBase", m.DecodeBase},
		{"DecodePerSequence", m.DecodePerSequence},
	} {
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

// later returns t + d, saturating.
func later(t, d time.Duration) time.Duration {
	if d > maxDuration-t {
		return maxDuration
	}
	return t + d
}
