package fidelity

import (
	"fmt"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/flowsim"
	"github.com/netkvlab/netkvlab/internal/fidelity/telemetry"
	"github.com/netkvlab/netkvlab/internal/results"
)

// Ports holds the worst figures of any shaped port in any trial.
type Ports struct {
	// Excess is how much a port served above what rate and burst allow, as a share of its rate.
	Excess   float64
	ExcessAt string
	// Served is the share of its rate that a backlogged port carried in its best window: the least
	// of all ports that were backlogged in several windows, 0 when none was.
	Served   float64
	ServedAt string
	// Stray is how far a port's KV bytes were from the bytes that the recorded paths place on it.
	Stray               float64
	StrayAt             string
	StrayGot, StrayWant int64
}

// backlogged is the least number of windows that begin and end with a queue for a port to be
// judged. In a few windows the queue may have been empty in between, without any fault.
const backlogged = 10

// Serve adds a trial's polls: the rows of telemetry, by time, and the time scale. Where a row
// has Since, that is more exact than the poll's time. burst returns how many bytes a port may
// send at once on top of its rate.
func (p *Ports) Serve(ports []telemetry.PortRef, rows []telemetry.Row, timeScale float64, burst func(port int) int) {
	type state struct {
		last    *telemetry.Row // nil before the first poll
		windows int            // that began and ended with a queue
		best    float64        // share of the rate in one of them
	}
	// One packet that waits for tokens is no queue: a port with slow flows always has one.
	queued := func(r *telemetry.Row) bool { return r.Backlog > 2*uint64(burst(r.Port)) }
	states := make([]state, len(ports))
	for i := range rows {
		r := &rows[i]
		s := &states[r.Port]
		if s.last != nil && r.At > s.last.At {
			elapsed := r.Since
			if elapsed == 0 {
				elapsed = time.Duration(float64(r.At-s.last.At) * timeScale)
			}
			capacity := ports[r.Port].Rate.BytesPerSecond() * elapsed.Seconds()
			bytes := float64(r.Bytes - s.last.Bytes)
			if excess := (bytes - float64(burst(r.Port))) / capacity; excess-1 > p.Excess {
				p.Excess, p.ExcessAt = excess-1, ports[r.Port].Name
			}
			if queued(s.last) && queued(r) {
				s.windows++
				s.best = max(s.best, bytes/capacity)
			}
		}
		s.last = r
	}
	for i := range states {
		if s := &states[i]; s.windows >= backlogged && (p.Served == 0 || s.best < p.Served) {
			p.Served, p.ServedAt = s.best, ports[i].Name
		}
	}
}

const (
	// ackShare bounds the bytes of acknowledgements relative to the data: one frame of up to 94
	// bytes, with three SACK blocks, per full segment.
	ackShare = 0.065
	// connBytes bounds the overhead of a stream of any length, in each direction: a connection's
	// handshake and first exchange, and the protocol's own frames. In a test of 64 streams of two
	// to six kilobytes on new connections, 400 to 730 bytes per stream came back.
	connBytes = 1 << 10
	// slackBytes covers bytes of no stream: probes, and connections that were not used.
	slackBytes = 64 << 10
	// least is the base of a port's relative error if the port should carry less.
	least = 1 << 20
	// frame and segment are a full segment's bytes on a link and of payload.
	frame, segment = fabric.FrameBytes, fabric.SegmentBytes
)

// Conserve compares the KV bytes that ports carried in a trial with the bytes that the records'
// paths place on them. Index 2 x link is the direction from A to B, 2 x link + 1 the way back;
// -1 means not known. It does not judge trials with failed attempts, whose bytes no record
// places.
func (p *Ports) Conserve(plan *fabric.Plan, ports []telemetry.PortRef, carried []int64, records []results.Record) error {
	due, err := expected(plan, len(carried), records)
	if err != nil || due == nil {
		return err
	}
	for i, got := range carried {
		if got < 0 {
			continue
		}
		want := due.data[i]
		low := want*0.995 - slackBytes
		high := want*1.005 + due.more[i] + due.anywhere + slackBytes
		off := max(low-float64(got), float64(got)-high, 0) / max(want, least)
		if off > p.Stray {
			p.Stray, p.StrayAt, p.StrayGot, p.StrayWant = off, ports[i].Name, got, int64(want)
		}
	}
	return nil
}

// due holds the bytes that ports should have carried, by port.
type due struct {
	data []float64 // frames of the streams' payload
	more []float64 // the most that may be added: segments sent again, acknowledgements, connections
	// anywhere is the same for acknowledgements whose path is not known; it may be on any port.
	anywhere float64
}

// expected places the bytes of all streams on ports; nil if a transfer failed or was repeated.
func expected(plan *fabric.Plan, ports int, records []results.Record) (*due, error) {
	out := &due{data: make([]float64, ports), more: make([]float64, ports)}
	for i := range records {
		r := &records[i]
		if r.Status != results.Completed || r.WastedBytesEmulated > 0 || r.Attempts > 1 {
			return nil, nil
		}
		if len(r.Streams) == 0 {
			continue
		}
		from, ok := plan.Lookup(r.Prefill)
		to, ok2 := plan.Lookup(r.Decode)
		if !ok || !ok2 {
			return nil, fmt.Errorf("%s: no such instances %s and %s", r.Key(), r.Prefill, r.Decode)
		}
		for j := range r.Streams {
			s := &r.Streams[j]
			if err := out.add(s, plan.NICPaths(from, to, s.NIC, s.NIC), plan.NICPaths(to, from, s.NIC, s.NIC)); err != nil {
				return nil, fmt.Errorf("%s: %w", r.Key(), err)
			}
		}
	}
	return out, nil
}

// add places a stream on one of the paths there, and its acknowledgements on one of back.
func (d *due) add(s *results.StreamRecord, there, back []fabric.Path) error {
	if s.Slot < 0 || s.Slot >= len(there) {
		return fmt.Errorf("path slot %d of %d", s.Slot, len(there))
	}
	data, again := float64(s.Bytes)*frame/segment, float64(s.Retransmits)*frame
	for _, l := range flowsim.AppendPath(nil, there[s.Slot]) {
		d.data[l] += data
		d.more[l] += again + connBytes
	}
	acks := ackShare*(data+again) + connBytes
	if s.BackSlot == nil {
		d.anywhere += acks
		return nil
	}
	if *s.BackSlot < 0 || *s.BackSlot >= len(back) {
		return fmt.Errorf("path slot %d of %d on the way back", *s.BackSlot, len(back))
	}
	for _, l := range flowsim.AppendPath(nil, back[*s.BackSlot]) {
		d.more[l] += acks
	}
	return nil
}
