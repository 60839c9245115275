// Package controller is the control plane of a trial. It decides which prefill instance takes an
// arriving request, which decode instance takes its KV cache, and what happens after a failure,
// and it writes the records.
//
// A Driver is a state machine: its inputs are the time and events, its outputs are actions. It
// never sleeps and opens no socket. It does not know whether real agents with real TCP or a
// simulator carry out its actions, so both worlds have the same control plane. Times are paper
// time since the trial's start. Every random draw of a decision comes with the request
// (workload.Request), never from a shared stream, where the first different decision would
// change every later draw.
//
// The requests of a trial may belong to several tenants, whose schedulers decide independently:
// tenants.go says what each of them knows.
//
// Serving drives prefill, transfer and decode; Flows replays explicit transfers.
// Neither is safe for concurrent use. Start reading at serving.go.
package controller

import (
	"time"

	"github.com/netkvlab/netkvlab/internal/results"
)

// Driver is one trial: one policy, one seed, one list of requests.
type Driver interface {
	// Next is when the driver must be woken if no event comes before.
	Next() (at time.Duration, ok bool)
	// Wake passes the time, Handle an event with its time. The returned slice is valid until the
	// next call.
	Wake(now time.Duration) []Action
	Handle(now time.Duration, ev Event) []Action
	// Postpone moves every deadline and the drain limit by a time for which the controller did not run.
	Postpone(by time.Duration)
	// Done reports whether every request has ended.
	Done() bool
	// Cut ends the trial early: requests in progress become incomplete with the reason.
	Cut(now time.Duration, reason string)
	// Records returns one record per request, in order. Unfinished requests are incomplete.
	Records() []results.Record
	// Progress returns the numbers of ended requests and of all requests.
	Progress() (ended, total int)
}

// ActionKind says what a world is to do.
type ActionKind uint8

// The kinds of action.
const (
	// DoPrefill: instance Prefill computes the prompt of Tokens.
	DoPrefill ActionKind = iota + 1
	// DoReserve: instance Decode reserves memory for Tokens + OutputTokens. It reuses Blocks that
	// it holds.
	DoReserve
	// DoTransfer: Source sends Streams to Dest.
	DoTransfer
	// DoCancelPrefill and DoCancelDecode: the instance forgets the request's Attempt (0: all).
	DoCancelPrefill
	DoCancelDecode
)

// Action is a command to the world.
type Action struct {
	Kind    ActionKind
	Request int
	Attempt int
	// Prefill and Decode are instance indices; for explicit flows the sender and the receiver.
	Prefill, Decode int

	Tokens, OutputTokens int
	Blocks               []uint64

	Streams []Stream
	// Pieces > 0: piece i of Pieces may leave at ReleaseFrom + (i+1)/Pieces x (ReleaseTo - ReleaseFrom).
	Pieces                 int
	ReleaseFrom, ReleaseTo time.Duration

	Reason string
}

// Stream is one TCP connection's share of a transfer.
type Stream struct {
	NIC, Path int // Path is the equal-cost path slot
	// BytesEmulated is the size in the emulated fabric, Bytes the same in paper units.
	BytesEmulated, Bytes int64
}

// EventKind says what happened.
type EventKind uint8

// The kinds of event.
const (
	PrefillStarted EventKind = iota + 1
	PrefillDone
	Reserved     // OK, HitTokens, FreeBytes; or not OK with Reason
	TransferSent // reported by the sender: Start, Streams
	TransferDone // the last byte is at the receiver: Streams, BytesEmulated
	Admitted
	FirstToken
	Finished
	Failed       // Reason; of the request's current attempt
	CacheChanged // Decode, Stored, Evicted, FreeBytes
	PrefillDown  // instance Prefill is gone for good: Reason
	DecodeDown   // instance Decode is gone for good: Reason
	Congestion   // the oracle's new sample
)

// Event is a report from the world.
type Event struct {
	Kind             EventKind
	Request, Attempt int
	// At is when it happened, which may be earlier than its report.
	At time.Duration

	Prefill, Decode int // for the events that are about an instance

	OK        bool
	Reason    string
	BySender  bool // of Failed: reported by the sending end
	HitTokens int
	FreeBytes int64 // paper bytes; negative if not reported

	Start         time.Duration
	Streams       []StreamReport
	BytesEmulated int64

	Stored, Evicted []uint64
	Congestion      [4]float64
}

// StreamReport is what one end of a connection measured.
type StreamReport struct {
	NIC, Path, SourcePort int
	BytesEmulated         int64
	First, Last           time.Duration // paper time of the first and last byte at the receiver
	Retransmits           int           // the sender's
}
