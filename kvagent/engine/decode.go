package engine

import (
	"fmt"
	"slices"
	"time"
)

// maxTokens bounds a prompt and an output, so that sums over a batch cannot wrap.
const maxTokens = 1 << 30

// DecodeConfig describes a decode instance.
type DecodeConfig struct {
	Model           Model
	MaxBatch        int   // beta_max, the sequences that one iteration can serve; 1 to 2^20
	MemoryBytes     int64 // for KV caches; at least one block. The part beyond whole blocks is not used
	KVBytesPerToken int64 // of one token's KV cache (Eq. 1 of the notes for one token); 1 to 2^30
	BlockTokens     int   // of a block, the unit of memory and of the prefix cache; 1 to 2^30
}

func (c DecodeConfig) validate() error {
	if err := c.Model.Validate(); err != nil {
		return err
	}
	if c.Model.DecodeBase+c.Model.DecodePerSequence < 1 {
		return fmt.Errorf("decode: %w: DecodeBase + DecodePerSequence is 0, want 1 ns or more", ErrInvalid)
	}
	for _, f := range []struct {
		name     string
		v, limit int64
	}{
		{"MaxBatch", int64(c.MaxBatch), 1 << 20},
		{"KVBytesPerToken", c.KVBytesPerToken, 1 << 30},
		{"BlockTokens", int64(c.BlockTokens), maxTokens},
	} {
		if f.v < 1 || f.v > f.limit {
			return fmt.Errorf("decode: %w: %s is %d, want 1 to %d", ErrInvalid, f.name, f.v, f.limit)
		}
	}
	if block := int64(c.BlockTokens) * c.KVBytesPerToken; c.MemoryBytes < block {
		return fmt.Errorf("decode: %w: MemoryBytes is %d, want %d or more: a block of %d tokens at %d bytes",
			ErrInvalid, c.MemoryBytes, block, c.BlockTokens, c.KVBytesPerToken)
	}
	return nil
}

// DecodeKind is what happened, in words.
type DecodeKind string

// The kinds of decode event.
const (
	Admitted     DecodeKind = "admitted"      // the request joined the batch; its first iteration begins
	FirstToken   DecodeKind = "first token"   // its first iteration ended
	Finished     DecodeKind = "finished"      // it has all its tokens; its memory is released, its prompt stays cached
	CacheChanged DecodeKind = "cache changed" // the set of cached blocks changed, or memory became free without a Finished
)

// DecodeEvent is one thing that happened, at its exact model time.
type DecodeEvent struct {
	ID         uint64 // the request; for CacheChanged the one whose command changed the cache
	Kind       DecodeKind
	At         time.Duration
	Batch      int           // sequences in the batch after the event
	FreeBytes  int64         // the result of Decode.FreeBytes after the event
	AdmittedAt time.Duration // when the request joined the batch; 0 for CacheChanged
	Tokens     int           // generated so far: 1 at FirstToken, all at Finished, else 0
	MeanTBT    time.Duration // the mean time between tokens, at Finished; 0 with fewer than two tokens
	// Stored and Evicted are the blocks that entered and left the prefix cache, for CacheChanged: Stored in prompt
	// order, Evicted oldest first. The slices are the caller's.
	Stored, Evicted []uint64
}

// Decode is a decode instance with continuous batching, KV memory and a prefix cache. Make it with NewDecode.
//
// Batching: at each iteration boundary arrived requests join in order of arrival while the batch has room; an idle
// instance starts at once. Each iteration gives every sequence one token. A boundary's instant stays open until time
// moves on: requests that arrive exactly then still join, so the result does not depend on whether Advance or Arrive
// of that instant is called first.
//
// Order of events at one instant: for each sequence of the batch in order of admission FirstToken, then Finished;
// then Admitted in order of arrival; then what the commands of that instant cause, in the order of the commands.
//
// Memory is counted in blocks and reported in bytes. A request takes ceil(prompt/BlockTokens) blocks minus those
// that the cache holds already, plus ceil(output/BlockTokens): output never goes into a prompt block, which others
// may share.
type Decode struct {
	maxBatch int
	now      time.Duration
	seg      segment
	due      int64 // boundary of seg that needs work; -1: none
	here     map[uint64]*request
	batch    []*request // in order of admission
	waiting  []*request // in order of arrival
	cache    *cache
	pending  []DecodeEvent
}

// NewDecode checks the configuration and returns an idle instance with an empty cache.
func NewDecode(c DecodeConfig) (*Decode, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &Decode{
		maxBatch: c.MaxBatch, seg: segment{model: c.Model}, due: -1,
		here: make(map[uint64]*request), cache: newCache(c.MemoryBytes, c.KVBytesPerToken, c.BlockTokens),
	}, nil
}

// Next returns when the next event happens if no command comes, false when there is none. Iterations that end
// without an event are skipped, so a driver wakes two or three times per request. When Advance has something to
// return, the instant is not after the latest one given.
func (d *Decode) Next() (time.Duration, bool) {
	switch {
	case len(d.pending) > 0:
		return d.pending[0].At, true
	case d.due >= 0:
		return d.seg.at(d.due), true
	}
	return 0, false
}

// Advance returns what happened up to and including now and was not returned before, in order of time. The slice is
// the caller's; nil means nothing.
func (d *Decode) Advance(now time.Duration) []DecodeEvent {
	d.run(now)
	out := d.pending
	d.pending = nil
	return out
}

// Batch returns how many sequences are in the batch.
func (d *Decode) Batch() int { return len(d.batch) }

// Queue returns how many requests have arrived and wait for room in the batch.
func (d *Decode) Queue() int { return len(d.waiting) }

// Reservations returns how many requests hold memory and have not arrived. Reservations + Queue + Batch is the
// number of unfinished requests.
func (d *Decode) Reservations() int { return len(d.here) - len(d.waiting) - len(d.batch) }

// Cached returns how many blocks the prefix cache holds, pinned or evictable.
func (d *Decode) Cached() int { return len(d.cache.entries) }

// FreeBytes returns the memory that a reservation could get; evictable cache counts as free. It is never negative.
func (d *Decode) FreeBytes() int64 { return d.cache.bytes(d.cache.available()) }

// MemoryBytes returns the capacity: MemoryBytes of the configuration in whole blocks.
func (d *Decode) MemoryBytes() int64 { return d.cache.bytes(d.cache.capacity) }

// emit fills in the fields of every event and keeps the event for Advance.
func (d *Decode) emit(e DecodeEvent) {
	e.Batch, e.FreeBytes = len(d.batch), d.FreeBytes()
	d.pending = append(d.pending, e)
}

// run does what is due by t and moves the time to t.
func (d *Decode) run(t time.Duration) {
	d.now = max(d.now, t)
	for d.due >= 0 {
		at := d.seg.at(d.due)
		if at > d.now {
			return
		}
		d.seg.anchor, d.seg.first = at, d.seg.first+d.due
		d.handOut()
		d.admit()
	}
}

// handOut ends the iteration before the anchor: it reports first tokens and removes finished sequences.
func (d *Decode) handOut() {
	at := d.seg.anchor
	for i := 0; i < len(d.batch); {
		q := d.batch[i]
		tokens := d.seg.first - q.admittedIter
		if tokens >= 1 && q.firstAt == 0 {
			q.firstAt = at // never 0: an iteration takes time
			d.emit(DecodeEvent{ID: q.id, Kind: FirstToken, At: at, AdmittedAt: q.admittedAt, Tokens: 1})
		}
		if tokens < q.output {
			i++
			continue
		}
		d.batch = slices.Delete(d.batch, i, i+1)
		d.drop(q)
		e := DecodeEvent{ID: q.id, Kind: Finished, At: at, AdmittedAt: q.admittedAt, Tokens: int(q.output)}
		if q.output > 1 {
			e.MeanTBT = (at - q.firstAt) / time.Duration(q.output-1)
		}
		d.emit(e)
	}
}

// admit lets waiting requests join at the anchor while there is room.
func (d *Decode) admit() {
	for len(d.waiting) > 0 && len(d.batch) < d.maxBatch {
		q := d.waiting[0]
		d.waiting = d.waiting[1:]
		q.admitted, q.admittedAt, q.admittedIter = true, d.seg.anchor, d.seg.first
		d.batch = append(d.batch, q)
		d.emit(DecodeEvent{ID: q.id, Kind: Admitted, At: q.admittedAt, AdmittedAt: q.admittedAt})
	}
	d.restart()
}

// join admits at this instant if it is a boundary or the instance is idle; otherwise the next boundary will.
func (d *Decode) join() {
	k := d.seg.floor(d.now)
	switch {
	case len(d.batch) == 0 && d.seg.anchor <= d.now:
		d.seg.anchor = d.now
	case k >= 0 && d.seg.at(k) == d.now:
		d.seg.anchor, d.seg.first = d.now, d.seg.first+k
	default:
		d.restart()
		return
	}
	d.admit()
}

// leave takes a sequence out of the batch. Unless this instant is a boundary, the iteration that runs keeps its
// length: the next segment starts at its end.
func (d *Decode) leave(q *request) {
	k := d.seg.floor(d.now)
	if k < 0 || d.seg.at(k) != d.now {
		k++
	}
	d.seg.anchor, d.seg.first = d.seg.at(k), d.seg.first+k
	d.batch = slices.DeleteFunc(d.batch, func(b *request) bool { return b == q })
	d.restart()
}

// restart makes the segment describe the batch from its anchor on and finds the next boundary that needs work. It
// changes nothing when the batch is the same.
func (d *Decode) restart() {
	d.seg.batch, d.seg.context = len(d.batch), 0
	d.due = -1
	need := func(k int64) {
		if d.due < 0 || k < d.due {
			d.due = k
		}
	}
	for _, q := range d.batch {
		d.seg.context += q.prompt + d.seg.first - q.admittedIter
		next := q.admittedIter + q.output
		if q.firstAt == 0 {
			next = q.admittedIter + 1
		}
		need(next - d.seg.first)
	}
	if len(d.waiting) > 0 && len(d.batch) < d.maxBatch {
		need(d.seg.floor(d.now) + 1)
	}
}
