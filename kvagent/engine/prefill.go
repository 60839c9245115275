package engine

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"
)

// Mode is how a prefill instance serves several prompts at a time.
type Mode string

// The two modes.
const (
	Queue Mode = "queue" // one prompt at a time in order of submission
	Delay Mode = "delay" // every prompt at once, as if alone: the paper's pure delay
)

// PrefillConfig describes a prefill instance.
type PrefillConfig struct {
	Model Model
	Mode  Mode // empty means Queue
}

// PrefillKind is what happened to a prompt, in words.
type PrefillKind string

// The kinds of prefill event.
const (
	PrefillStarted PrefillKind = "started" // the prompt computes
	PrefillDone    PrefillKind = "done"    // its KV cache is complete
)

// PrefillEvent is one thing that happened, at its exact model time.
type PrefillEvent struct {
	ID   uint64
	Kind PrefillKind
	At   time.Duration
}

// Prefill is a prefill instance. Make it with NewPrefill.
//
// Order of events at one instant: completions in order of submission, each followed at once by the start of the
// prompt that takes its place; then what the commands of that instant cause, in the order of the commands.
type Prefill struct {
	model   Model
	slots   int // prompts served at once; 0: no limit
	now     time.Duration
	here    map[uint64]struct{}
	waiting []prompt
	running []prompt // by end, then in order of submission
	pending []PrefillEvent
}

type prompt struct {
	id     uint64
	tokens int
	done   time.Duration
}

// NewPrefill checks the configuration and returns an idle instance.
func NewPrefill(c PrefillConfig) (*Prefill, error) {
	if err := c.Model.Validate(); err != nil {
		return nil, err
	}
	p := &Prefill{model: c.Model, here: make(map[uint64]struct{})}
	switch c.Mode {
	case Queue, "":
		p.slots = 1
	case Delay:
	default:
		return nil, fmt.Errorf("prefill mode %q: %w: want %q or %q", c.Mode, ErrInvalid, Queue, Delay)
	}
	return p, nil
}

// Submit adds a prompt with this number of uncached tokens, 0 or more. It fails with ErrDuplicate while an earlier
// prompt of that id is not done.
func (p *Prefill) Submit(now time.Duration, id uint64, tokens int) error {
	p.run(now)
	if tokens < 0 {
		return fmt.Errorf("prefill of request %d: %w: %d tokens, want 0 or more", id, ErrInvalid, tokens)
	}
	if _, ok := p.here[id]; ok {
		return fmt.Errorf("prefill of request %d: %w", id, ErrDuplicate)
	}
	p.here[id] = struct{}{}
	p.waiting = append(p.waiting, prompt{id: id, tokens: tokens})
	p.fill(p.now)
	p.run(p.now) // a prompt that takes no time is done at once
	return nil
}

// Cancel forgets a prompt that is not done and reports whether there was one. A prompt that computes is stopped at
// once, and the next takes its place.
func (p *Prefill) Cancel(now time.Duration, id uint64) bool {
	p.run(now)
	if _, ok := p.here[id]; !ok {
		return false
	}
	delete(p.here, id)
	same := func(q prompt) bool { return q.id == id }
	p.waiting = slices.DeleteFunc(p.waiting, same)
	p.running = slices.DeleteFunc(p.running, same)
	p.fill(p.now)
	p.run(p.now)
	return true
}

// Next returns when the next event happens if no command comes, false when there is none. When Advance has something
// to return, the instant is not after the latest one given.
func (p *Prefill) Next() (time.Duration, bool) {
	switch {
	case len(p.pending) > 0:
		return p.pending[0].At, true
	case len(p.running) > 0:
		return p.running[0].done, true
	}
	return 0, false
}

// Advance returns what happened up to and including now and was not returned before, in order of time. The slice is
// the caller's; nil means nothing.
func (p *Prefill) Advance(now time.Duration) []PrefillEvent {
	p.run(now)
	out := p.pending
	p.pending = nil
	return out
}

// Waiting returns how many prompts wait for their turn.
func (p *Prefill) Waiting() int { return len(p.waiting) }

// Running returns how many prompts compute.
func (p *Prefill) Running() int { return len(p.running) }

// run completes what is due by t and moves the time to t.
func (p *Prefill) run(t time.Duration) {
	p.now = max(p.now, t)
	for len(p.running) > 0 && p.running[0].done <= p.now {
		q := p.running[0]
		p.running = slices.Delete(p.running, 0, 1)
		delete(p.here, q.id)
		p.pending = append(p.pending, PrefillEvent{ID: q.id, Kind: PrefillDone, At: q.done})
		p.fill(q.done)
	}
}

// fill starts waiting prompts at t while there are slots.
func (p *Prefill) fill(t time.Duration) {
	for len(p.waiting) > 0 && (p.slots == 0 || len(p.running) < p.slots) {
		q := p.waiting[0]
		p.waiting = p.waiting[1:]
		q.done = maxDuration // where the sum would wrap
		if d := p.model.Prefill(q.tokens); d <= maxDuration-t {
			q.done = t + d
		}
		i, _ := slices.BinarySearchFunc(p.running, q.done, func(r prompt, done time.Duration) int {
			if r.done <= done {
				return -1 // q stands behind those that end at the same time
			}
			return 1
		})
		p.running = slices.Insert(p.running, i, q)
		p.pending = append(p.pending, PrefillEvent{ID: q.id, Kind: PrefillStarted, At: t})
	}
}

// Release is the schedule by which a prefill that is still computing releases its KV cache: piece i of Pieces is
// available at From + (i+1)/Pieces x (To - From). No pieces: everything is available from the start. Both worlds
// send by it.
type Release struct {
	Pieces   int64
	From, To time.Duration
}

// Ready returns how many of a stream's total bytes may leave at now and, unless that is all, when the next may.
func (r Release) Ready(total int64, now time.Duration) (ready int64, next time.Duration) {
	switch {
	case r.Pieces <= 0 || now >= r.To:
		return total, now
	case r.To <= r.From:
		return 0, r.To
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
