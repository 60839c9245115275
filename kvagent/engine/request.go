package engine

import (
	"fmt"
	"slices"
	"time"
)

// Reservation asks for the memory of one request.
type Reservation struct {
	ID uint64
	// PromptTokens and OutputTokens are 1 to 2^30 each.
	PromptTokens, OutputTokens int
	// Blocks identify the prompt's prefix blocks in order: equal id means equal
	// block and equal prefix. At most ceil(PromptTokens/BlockTokens); tokens
	// beyond them are never shared. The last may be partial. Reserve copies the slice.
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

// Reserve reserves all memory that a request will need, prompt and output. It
// returns hitTokens: how many tokens of its prompt the cache holds and the
// transfer need not bring: min(PromptTokens, held leading blocks x
// BlockTokens). It equals PromptTokens on a full hit; then nothing must be
// moved, and Arrive may follow at once. Held blocks are pinned until the
// request ends; least recently used blocks without a pin are evicted to make room.
//
// Errors: *NoMemoryError (nothing changed; try elsewhere or later), ErrDuplicate, ErrInvalid.
func (d *Decode) Reserve(now time.Duration, r Reservation) (hitTokens int, err error) {
	d.run(now)
	if err := d.checkReservation(r); err != nil {
		return 0, fmt.Errorf("reserve for request %d: %w", r.ID, err)
	}
	hits, unpinned := d.cache.hits(r.Blocks)
	private := d.blocksFor(r.PromptTokens) - int64(hits) + d.blocksFor(r.OutputTokens)
	if need := private + unpinned; need > d.cache.available() {
		return 0, fmt.Errorf("reserve for request %d: %w", r.ID,
			&NoMemoryError{Need: d.bytes(need), Free: d.FreeBytes(), Capacity: d.MemoryBytes()})
	}
	q := &request{
		id: r.ID, prompt: int64(r.PromptTokens), output: int64(r.OutputTokens),
		blocks: slices.Clone(r.Blocks), pinned: hits, private: private,
	}
	for _, id := range q.blocks[:hits] {
		d.cache.pin(id)
	}
	evicted := d.cache.allocate(private)
	d.here[r.ID] = q
	d.reserved++
	if len(evicted) > 0 {
		d.emit(DecodeEvent{ID: r.ID, Kind: CacheChanged, At: d.now, Evicted: evicted})
	}
	return min(r.PromptTokens, hits*d.cfg.BlockTokens), nil
}

func (d *Decode) checkReservation(r Reservation) error {
	if r.PromptTokens < 1 || r.PromptTokens > maxTokens || r.OutputTokens < 1 || r.OutputTokens > maxTokens {
		return fmt.Errorf("%w: %d prompt and %d output tokens, want 1 to %d each", ErrInvalid, r.PromptTokens, r.OutputTokens, maxTokens)
	}
	if most := d.blocksFor(r.PromptTokens); int64(len(r.Blocks)) > most {
		return fmt.Errorf("%w: %d blocks, want at most %d for %d tokens", ErrInvalid, len(r.Blocks), most, r.PromptTokens)
	}
	if _, ok := d.here[r.ID]; ok {
		return ErrDuplicate
	}
	return nil
}

// blocksFor returns ceil(tokens / BlockTokens).
func (d *Decode) blocksFor(tokens int) int64 {
	return (int64(tokens) + int64(d.cfg.BlockTokens) - 1) / int64(d.cfg.BlockTokens)
}

// Arrive reports that all bytes of a reserved request have arrived. Its blocks become
// visible to the prefix cache and the request joins the batch, or waits for it
// behind those that arrived before. Where another request brought an equal
// block in the meantime, the second copy is dropped and its memory freed.
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
	d.reserved--
	d.settle(q)
	d.waiting = append(d.waiting, q)
	d.join()
	return nil
}

// settle moves the blocks that the transfer brought into the cache.
func (d *Decode) settle(q *request) {
	var stored []uint64
	fresh := q.blocks[q.pinned:]
	for _, id := range fresh {
		if d.cache.settle(id) {
			stored = append(stored, id)
		}
	}
	q.private -= int64(len(fresh))
	q.pinned = len(q.blocks)
	if len(fresh) > 0 {
		d.emit(DecodeEvent{ID: q.id, Kind: CacheChanged, At: d.now, Stored: stored})
	}
}

// Release forgets an unfinished request at any stage, frees its memory at once
// and reports whether there was one. Blocks whose bytes had all arrived stay
// cached. A running iteration continues to its end; then the request's place in the batch
// becomes free. A CacheChanged event without blocks gives the new FreeBytes.
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
	default:
		d.reserved--
	}
	d.drop(q)
	d.emit(DecodeEvent{ID: id, Kind: CacheChanged, At: d.now})
	if q.admitted {
		d.join()
	}
	return true
}

// drop returns a request's memory: private blocks become free, its part of the cache evictable.
func (d *Decode) drop(q *request) {
	d.cache.private -= q.private
	d.cache.unpinAll(q.blocks[:q.pinned])
	delete(d.here, q.id)
}
