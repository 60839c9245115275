package engine

import (
	"errors"
	"fmt"
	"time"
)

// Errors of the machines; test with errors.Is.
var (
	ErrNoMemory  = errors.New("not enough KV memory")
	ErrDuplicate = errors.New("request is already here")
	ErrUnknown   = errors.New("request is not here")
	ErrState     = errors.New("request is past that stage")
)

// NoMemoryError says how much a reservation needs and how much there is, in bytes. It matches ErrNoMemory.
type NoMemoryError struct {
	Need, Free, Capacity int64
}

func (e *NoMemoryError) Error() string {
	return fmt.Sprintf("%v: need %d bytes, %d of %d are free", ErrNoMemory, e.Need, e.Free, e.Capacity)
}

// Unwrap returns ErrNoMemory.
func (e *NoMemoryError) Unwrap() error { return ErrNoMemory }

// DecodeConfig describes a decode instance.
type DecodeConfig struct {
	Model           Model
	MaxBatch        int   // beta_max, 1 or more
	MemoryBytes     int64 // KV memory; at least one block
	KVBytesPerToken int64 // 1 or more
	BlockTokens     int   // 1 or more
}

// Reservation is a request for memory.
type Reservation struct {
	ID           uint64
	PromptTokens int // 1 or more
	OutputTokens int // 1 or more
	// Blocks identify the prompt's prefix blocks in order: at most
	// ceil(PromptTokens/BlockTokens); what they do not cover is never shared.
	Blocks []uint64
}

// DecodeKind is what happened.
type DecodeKind uint8

// The kinds of decode event.
const (
	Admitted DecodeKind = iota + 1
	FirstToken
	Finished
	CacheChanged
)

// DecodeEvent is one thing that happened, at its exact model time.
type DecodeEvent struct {
	ID   uint64
	Kind DecodeKind
	At   time.Duration
	// Batch is the number of sequences in the batch after the event; FreeBytes the free memory after it.
	Batch     int
	FreeBytes int64
	// AdmittedAt is when the request joined the batch (Admitted, FirstToken, Finished).
	AdmittedAt time.Duration
	// Tokens generated so far (FirstToken: 1; Finished: all).
	Tokens int
	// MeanTBT is the mean time between tokens (Finished); 0 with fewer than two tokens.
	MeanTBT time.Duration
	// Stored and Evicted are the blocks that entered and left the prefix cache (CacheChanged).
	Stored, Evicted []uint64
}

// Decode is a decode instance.
type Decode struct{}

// NewDecode checks the configuration and returns an idle instance.
func NewDecode(DecodeConfig) (*Decode, error) { return &Decode{}, nil }

// Reserve books memory for a request and returns how many tokens of its prompt are already here.
func (d *Decode) Reserve(now time.Duration, r Reservation) (hitTokens int, err error) { return 0, nil }

// Arrive says that all bytes of a reserved request are here.
func (d *Decode) Arrive(now time.Duration, id uint64) error { return nil }

// Release forgets an unfinished request at any stage and reports whether there was one.
func (d *Decode) Release(now time.Duration, id uint64) bool { return false }

// Next returns when the next event happens, false when none will by itself.
func (d *Decode) Next() (time.Duration, bool) { return 0, false }

// Advance returns what happened up to and including now, in order of time. The slice is the caller's.
func (d *Decode) Advance(now time.Duration) []DecodeEvent { return nil }

// Cached returns how many blocks the prefix cache holds.
func (d *Decode) Cached() int { return 0 }

// Batch returns how many sequences are in the batch.
func (d *Decode) Batch() int { return 0 }

// Queue returns how many requests have arrived and wait for the batch.
func (d *Decode) Queue() int { return 0 }

// Reservations returns how many requests hold memory and have not arrived.
func (d *Decode) Reservations() int { return 0 }

// FreeBytes returns the memory that a reservation could get; evictable cache counts as free.
func (d *Decode) FreeBytes() int64 { return 0 }

// MemoryBytes returns the capacity in whole blocks.
func (d *Decode) MemoryBytes() int64 { return 0 }
