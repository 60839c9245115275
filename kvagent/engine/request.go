package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Errors of the machines; compare with errors.Is.
var (
	ErrNoMemory  = errors.New("not enough KV memory")       // a reservation needs more than is free; always a *NoMemoryError
	ErrDuplicate = errors.New("request is already here")    // there is an unfinished request with that id
	ErrUnknown   = errors.New("request is not here")        // no unfinished request has that id
	ErrArrived   = errors.New("request has arrived before") // all its bytes were here already
	ErrInvalid   = errors.New("invalid argument")           // an argument is out of range; the text says which
)

// NoMemoryError says how much a reservation needs and how much there is, in bytes of whole blocks. It is an ErrNoMemory.
type NoMemoryError struct {
	// Need is what the reservation takes from the free memory: new blocks, and cached ones that it would pin. Need >
	// Capacity can never succeed.
	Need     int64
	Free     int64 // FreeBytes at the time
	Capacity int64 // MemoryBytes
}

func (e *NoMemoryError) Error() string {
	return fmt.Sprintf("%v: need %d bytes, free %d of %d", ErrNoMemory, e.Need, e.Free, e.Capacity)
}

// Unwrap returns ErrNoMemory.
func (e *NoMemoryError) Unwrap() error { return ErrNoMemory }

// Reservation asks for the memory of one request.
type Reservation struct {
	ID                         uint64
	PromptTokens, OutputTokens int // 1 to 2^30 each
	// Blocks identify the prompt's prefix blocks in order: equal id means equal block and equal prefix. At most
	// ceil(PromptTokens/BlockTokens); tokens beyond them are never shared. The last may be partial. Reserve copies
	// the slice.
	Blocks []uint64
}

// request is a request from its reservation to its last token.
type request struct {
	id             uint64
	prompt, output int64
	blocks         []uint64
	pinned         int   // leading blocks pinned in the cache
	private        int64 // blocks held outside the cache
	arrived        bool
	admitted       bool
	admittedAt     time.Duration
	firstAt        time.Duration
	admittedIter   int64 // iterations of the machine finished when it joined
}

// Reserve reserves all memory that a request will need, prompt and output. It returns hitTokens: how many tokens of
// its prompt the cache holds and the transfer need not bring: min(PromptTokens, held leading blocks x BlockTokens).
// It equals PromptTokens on a full hit; then nothing must be moved, and Arrive may follow at once. Held blocks are
// pinned until the request ends; least recently used blocks without a pin are evicted to make room.
//
// Errors: *NoMemoryError (nothing changed; try elsewhere or later), ErrDuplicate, ErrInvalid.
func (d *Decode) Reserve(now time.Duration, r Reservation) (hitTokens int, err error) {
	d.run(now)
	evicted, err := d.reserve(r)
	if err != nil {
		return 0, fmt.Errorf("reserve for request %d: %w", r.ID, err)
	}
	if len(evicted) > 0 {
		d.emit(DecodeEvent{ID: r.ID, Kind: CacheChanged, At: d.now, Evicted: evicted})
	}
	return min(r.PromptTokens, d.here[r.ID].pinned*d.cache.blockTokens), nil
}

// reserve checks a reservation, takes its memory and records it. It returns the evicted blocks.
func (d *Decode) reserve(r Reservation) (evicted []uint64, err error) {
	if r.PromptTokens < 1 || r.PromptTokens > maxTokens || r.OutputTokens < 1 || r.OutputTokens > maxTokens {
		return nil, fmt.Errorf("%w: %d prompt and %d output tokens, want 1 to %d each", ErrInvalid, r.PromptTokens, r.OutputTokens, maxTokens)
	}
	prompt := d.cache.blocksFor(r.PromptTokens)
	if int64(len(r.Blocks)) > prompt {
		return nil, fmt.Errorf("%w: %d blocks, want at most %d for %d tokens", ErrInvalid, len(r.Blocks), prompt, r.PromptTokens)
	}
	if _, ok := d.here[r.ID]; ok {
		return nil, ErrDuplicate
	}
	q := &request{id: r.ID, prompt: int64(r.PromptTokens), output: int64(r.OutputTokens), blocks: slices.Clone(r.Blocks)}
	if evicted, err = d.cache.reserve(q, prompt+d.cache.blocksFor(r.OutputTokens)); err == nil {
		d.here[r.ID] = q
	}
	return evicted, err
}

// Arrive reports that all bytes of a reserved request have arrived. Its blocks become visible to the prefix cache
// and the request joins the batch, or waits for it behind those that arrived before. Where another request brought
// an equal block in the meantime, the second copy is dropped and its memory freed.
//
// Errors: ErrUnknown, ErrArrived.
func (d *Decode) Arrive(now time.Duration, id uint64) error {
	d.run(now)
	q, ok := d.here[id]
	if !ok {
		return fmt.Errorf("arrival of request %d: %w", id, ErrUnknown)
	}
	if q.arrived {
		return fmt.Errorf("arrival of request %d: %w", id, ErrArrived)
	}
	q.arrived = true
	if q.pinned < len(q.blocks) {
		stored := d.cache.store(q)
		d.emit(DecodeEvent{ID: id, Kind: CacheChanged, At: d.now, Stored: stored})
	}
	d.waiting = append(d.waiting, q)
	d.join()
	return nil
}

// Release forgets an unfinished request at any stage, frees its memory at once and reports whether there was one.
// Blocks whose bytes had all arrived stay cached. A running iteration continues to its end; then the request's place
// in the batch becomes free. A CacheChanged event without blocks gives the new FreeBytes.
func (d *Decode) Release(now time.Duration, id uint64) bool {
	d.run(now)
	q, ok := d.here[id]
	if !ok {
		return false
	}
	switch {
	case q.admitted:
		d.leave(q)
	case q.arrived:
		d.waiting = slices.DeleteFunc(d.waiting, func(w *request) bool { return w == q })
		d.restart() // no request may be left to join
	}
	d.drop(q)
	d.emit(DecodeEvent{ID: id, Kind: CacheChanged, At: d.now})
	if q.admitted {
		d.join()
	}
	return true
}

// drop forgets a request and returns its memory.
func (d *Decode) drop(q *request) {
	d.cache.release(q)
	delete(d.here, q.id)
}
