package engine

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// maxTokens bounds a prompt and an output, so that sums over a batch cannot wrap.
const maxTokens = 1 << 30

// DecodeConfig describes a decode instance.
type DecodeConfig struct {
	Model Model
	// MaxBatch is beta_max, the sequences that one iteration can serve; 1 to 2^20.
	MaxBatch int
	// MemoryBytes is the memory for KV caches; at least one block. The part beyond whole blocks is not used.
	MemoryBytes int64
	// KVBytesPerToken is the size of one token's KV cache (Eq. 1 of the notes for one token); 1 to 2^30.
	KVBytesPerToken int64
	// BlockTokens is the tokens of a block, the unit of memory and of the prefix cache; 1 to 2^30.
	BlockTokens int
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

// DecodeKind is what happened.
type DecodeKind uint8

// The kinds of decode event.
const (
	// Admitted: the request joined the batch; its first iteration begins.
	Admitted DecodeKind = iota + 1
	// FirstToken: its first iteration ended.
	FirstToken
	// Finished: it has all its tokens; its memory is released, its prompt stays cached.
	Finished
	// CacheChanged: the set of cached blocks changed, or memory became free without a Finished.
	CacheChanged
)

// String returns the kind in words.
func (k DecodeKind) String() string {
	switch k {
	case Admitted:
		return "admitted"
	case FirstToken:
		return "first token"
	case Finished:
		return "finished"
	case CacheChanged:
		return "cache changed"
	}
	return fmt.Sprintf("DecodeKind(%d)", uint8(k))
}

// DecodeEvent is one thing that happened, at its exact model time.
type DecodeEvent struct {
	// ID is the request; for CacheChanged the one whose command changed the cache.
	ID   uint64
	Kind DecodeKind
	At   time.Duration
	// Batch is how many sequences the batch holds after the event, FreeBytes the result of Decode.FreeBytes after it.
	Batch     int
	FreeBytes int64
	// AdmittedAt is when the request joined the batch; 0 for CacheChanged.
	AdmittedAt time.Duration
	// Tokens is the number generated so far: 1 at FirstToken, all at Finished, else 0.
	Tokens int
	// MeanTBT is the mean time between tokens, at Finished; 0 with fewer than two tokens.
	MeanTBT time.Duration
	// Stored and Evicted are the blocks that entered and left the prefix cache,
	// for CacheChanged: Stored in prompt order, Evicted oldest first. The slices are the caller's.
	Stored, Evicted []uint64
}

// Decode is a decode instance with continuous batching, KV memory and a prefix
// cache. Make it with NewDecode.
//
// Batching: at each iteration boundary arrived requests join in order of
// arrival while the batch has room; an idle instance starts at once. Each
// iteration gives every sequence one token. A boundary's instant stays open
// until time moves on: requests that arrive exactly then still join, so the
// result does not depend on whether Advance or Arrive of that instant is
// called first.
//
// Order of events at one instant: for each sequence of the batch in order of
// admission FirstToken, then Finished; then Admitted in order of arrival; then
// what the commands of that instant cause, in the order of the commands.
//
// Memory is counted in blocks and reported in bytes. A request takes
// ceil(prompt/BlockTokens) blocks minus those that the cache holds already, plus
// ceil(output/BlockTokens): output never goes into a prompt block, which others may share.
type Decode struct {
	cfg        DecodeConfig
	blockBytes int64
	now        time.Duration
	seg        segment
	due        int64 // boundary of seg that needs work; -1: none
	here       map[uint64]*request
	batch      []*request // in order of admission
	waiting    []*request // in order of arrival
	reserved   int        // requests whose bytes have not arrived
	cache      *cache
	pending    []DecodeEvent
}

// NewDecode checks the configuration and returns an idle instance with an empty cache.
func NewDecode(c DecodeConfig) (*Decode, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	blockBytes := int64(c.BlockTokens) * c.KVBytesPerToken
	return &Decode{
		cfg:        c,
		blockBytes: blockBytes,
		seg:        segment{model: c.Model},
		due:        -1,
		here:       make(map[uint64]*request),
		cache:      newCache(c.MemoryBytes / blockBytes),
	}, nil
}

// Next returns when the next event happens if no command comes, false when there is none.
// Iterations that end without an event are skipped, so a driver wakes two or
// three times per request. When Advance has something to return, the instant is not after
// the latest one given.
func (d *Decode) Next() (time.Duration, bool) {
	switch {
	case len(d.pending) > 0:
		return d.pending[0].At, true
	case d.due >= 0:
		return d.seg.at(d.due), true
	}
	return 0, false
}

// Advance returns what happened up to and including now and was not returned
// before, in order of time. The slice is the caller's; nil means nothing.
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

// Reservations returns how many requests hold memory and have not arrived.
// Reservations + Queue + Batch is the number of unfinished requests.
func (d *Decode) Reservations() int { return d.reserved }

// Cached returns how many blocks the prefix cache holds, pinned or evictable.
func (d *Decode) Cached() int { return len(d.cache.entries) }

// CachedBlocks returns the ids of the cached blocks, sorted.
func (d *Decode) CachedBlocks() []uint64 {
	ids := make([]uint64, 0, len(d.cache.entries))
	for id := range d.cache.entries {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// FreeBytes returns the memory that a reservation could get; evictable cache
// counts as free. It is never negative.
func (d *Decode) FreeBytes() int64 { return d.bytes(d.cache.available()) }

// MemoryBytes returns the capacity: MemoryBytes of the configuration in whole blocks.
func (d *Decode) MemoryBytes() int64 { return d.bytes(d.cache.capacity) }

// bytes converts blocks, saturating: a request may ask for more than any memory.
func (d *Decode) bytes(blocks int64) int64 {
	if blocks > math.MaxInt64/d.blockBytes {
		return math.MaxInt64
	}
	return blocks * d.blockBytes
}

// emit fills in the fields of every event and keeps the event for Advance.
func (d *Decode) emit(e DecodeEvent) {
	e.Batch, e.FreeBytes = len(d.batch), d.FreeBytes()
	d.pending = append(d.pending, e)
}
