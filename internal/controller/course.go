package controller

import (
	"slices"
	"time"

	"github.com/netkvlab/netkvlab/internal/results"
)

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
