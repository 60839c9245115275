package engine

import "time"

// Mode is how a prefill instance treats prompts that meet.
type Mode string

// The two modes.
const (
	// Queue serves one prompt at a time in order of submission.
	Queue Mode = "queue"
	// Delay serves every prompt at once, as if alone: the paper's pure delay.
	Delay Mode = "delay"
)

// PrefillConfig describes a prefill instance.
type PrefillConfig struct {
	Model Model
	Mode  Mode // empty means Queue
}

// PrefillKind is what happened to a prompt.
type PrefillKind uint8

// The kinds of prefill event.
const (
	PrefillStarted PrefillKind = iota + 1
	PrefillDone
)

// PrefillEvent is one thing that happened, at its exact model time.
type PrefillEvent struct {
	ID   uint64
	Kind PrefillKind
	At   time.Duration
}

// Prefill is a prefill instance.
type Prefill struct{}

// NewPrefill checks the configuration and returns an idle instance.
func NewPrefill(PrefillConfig) (*Prefill, error) { return &Prefill{}, nil }

// Submit hands over a prompt of so many uncached tokens (0 or more).
func (p *Prefill) Submit(now time.Duration, id uint64, tokens int) error { return nil }

// Cancel forgets a prompt that is not done and reports whether there was one.
func (p *Prefill) Cancel(now time.Duration, id uint64) bool { return false }

// Next returns when the next event happens, false when none will.
func (p *Prefill) Next() (time.Duration, bool) { return 0, false }

// Advance returns what happened up to and including now, in order of time. The slice is the caller's.
func (p *Prefill) Advance(now time.Duration) []PrefillEvent { return nil }

// Waiting returns how many prompts wait for their turn.
func (p *Prefill) Waiting() int { return 0 }

// Running returns how many prompts compute.
func (p *Prefill) Running() int { return 0 }
