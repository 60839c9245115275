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
// pools.go says what each of them knows.
//
// Serving drives prefill, transfer and decode; Flows replays explicit transfers.
// Neither is safe for concurrent use. Start reading at serving.go.
package controller

import (
	"slices"
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

// nothing marks a time that is not set.
const nothing = time.Duration(-1)

// course is how far a trial has come: what both drivers share.
type course struct {
	arrivals []time.Duration // of all requests, in order
	next     int             // first request that has not arrived
	ended    int
	drain    time.Duration // after the last arrival, open requests fail; 0: never
	deadline time.Duration // the last arrival and the drain
	actions  []Action      // of this call
}

func (c *course) arrive(at time.Duration) {
	c.arrivals = append(c.arrivals, at)
	c.deadline = at + c.drain
}

// Done implements Driver.
func (c *course) Done() bool { return c.ended == len(c.arrivals) }

// Progress implements Driver.
func (c *course) Progress() (ended, total int) { return c.ended, len(c.arrivals) }

// Next implements Driver.
func (c *course) Next() (time.Duration, bool) {
	switch {
	case c.next < len(c.arrivals):
		return c.arrivals[c.next], true
	case !c.Done() && c.drain > 0:
		return c.deadline, true
	}
	return 0, false
}

// Postpone implements Driver.
func (c *course) Postpone(by time.Duration) { c.deadline += by }

// due takes the next request, if its time has come.
func (c *course) due(now time.Duration) (request int, ok bool) {
	if c.next == len(c.arrivals) || c.arrivals[c.next] > now {
		return 0, false
	}
	c.next++
	return c.next - 1, true
}

// overtime reports whether the drain limit has passed.
func (c *course) overtime(now time.Duration) bool {
	return c.next == len(c.arrivals) && c.drain > 0 && now >= c.deadline
}

func (c *course) act(a Action) { c.actions = append(c.actions, a) }

// movement is what the two ends of a transfer have reported of it, in any order.
type movement struct {
	issued, sent time.Duration // when it was requested, and when the sender began
	moved        int64         // emulated bytes
	streams      []results.StreamRecord
}

// onSent takes the sender's report.
func (m *movement) onSent(ev Event) {
	m.sent = ev.Start
	for _, s := range ev.Streams {
		m.stream(s).Retransmits = s.Retransmits
	}
}

// onArrived takes the receiver's report.
func (m *movement) onArrived(ev Event) {
	m.moved = ev.BytesEmulated
	for _, s := range ev.Streams {
		r := m.stream(s)
		r.Bytes, r.FirstMS, r.LastMS = s.BytesEmulated, results.MS(s.First), results.MS(s.Last)
	}
}

// stream finds or adds a stream's row.
func (m *movement) stream(s StreamReport) *results.StreamRecord {
	i := slices.IndexFunc(m.streams, func(r results.StreamRecord) bool { return r.SourcePort == s.SourcePort && r.NIC == s.NIC })
	if i < 0 {
		m.streams = append(m.streams, results.StreamRecord{SourcePort: s.SourcePort, NIC: s.NIC, Slot: s.Path})
		i = len(m.streams) - 1
	}
	return &m.streams[i]
}

// record writes bytes, streams and start into a record, and returns the start.
func (m *movement) record(r *results.Record) (start time.Duration) {
	if start = m.sent; start == nothing {
		start = m.issued
	}
	if start != nothing {
		r.TransferStartMS = results.MS(start)
	}
	r.MovedBytesEmulated, r.Streams = m.moved, slices.Clone(m.streams)
	for i := range r.Streams {
		s := &r.Streams[i]
		r.Retransmits += s.Retransmits
		s.FirstMS -= r.TransferStartMS
		s.LastMS -= r.TransferStartMS
	}
	return start
}
