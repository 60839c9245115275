package fidelity

import (
	"fmt"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/flowsim"
	"github.com/netkvlab/netkvlab/internal/fidelity/telemetry"
	"github.com/netkvlab/netkvlab/internal/results"
)

// Ports is the worst that was seen of any shaped port in any trial.
type Ports struct {
	// Excess is by what share of its rate a port served more than rate and burst allow.
	Excess   float64
	ExcessAt string
	// Served is the least, over ports that were backlogged in several windows, of the
	// best window's share of the rate; 0 when no port was.
	Served   float64
	ServedAt string
	// Stray is how far a port's KV bytes were from what the recorded paths send over it.
	Stray               float64
	StrayAt             string
	StrayGot, StrayWant int64
}

// backlogged is how many windows must begin and end with a queue for a port to be judged. In
// a few of them it may have been empty in between, without any fault.
const backlogged = 10

// Serve takes a trial's polls in: rows of the ports by time, as telemetry gives them, at
// a time scale; Since, where it is set, is more exact than the poll's time. burst is what
// a port may send at once on top of its rate.
func (p *Ports) Serve(ports []telemetry.PortRef, rows []telemetry.Row, timeScale float64, burst func(port int) int) {
	type state struct {
		at      time.Duration
		bytes   uint64
		queue   bool
		seen    bool
		windows int
		best    float64
	}
	states := make([]state, len(ports))
	for _, r := range rows {
		s := &states[r.Port]
		// A packet that waits for tokens is no queue: a port of slow flows always has one.
		queued := r.Backlog > 2*uint64(burst(r.Port))
		if s.seen && r.At > s.at {
			elapsed := r.Since
			if elapsed == 0 {
				elapsed = time.Duration(float64(r.At-s.at) * timeScale)
			}
			capacity := ports[r.Port].Rate.BytesPerSecond() * elapsed.Seconds()
			bytes := float64(r.Bytes - s.bytes)
			if excess := (bytes - float64(burst(r.Port))) / capacity; excess-1 > p.Excess {
				p.Excess, p.ExcessAt = excess-1, ports[r.Port].Name
			}
			if s.queue && queued {
				s.windows++
				s.best = max(s.best, bytes/capacity)
			}
		}
		s.at, s.bytes, s.queue, s.seen = r.At, r.Bytes, queued, true
	}
	for i := range states {
		if s := &states[i]; s.windows >= backlogged && (p.Served == 0 || s.best < p.Served) {
			p.Served, p.ServedAt = s.best, ports[i].Name
		}
	}
}

const (
	// ackShare bounds what acknowledgements are beside what they acknowledge: for each full
	// segment one frame of up to 94 bytes, with three blocks of SACK.
	ackShare = 0.065
	// connBytes bounds what a stream costs either way however short it is: a connection's
	// hand-shake and first exchange, and the protocol's own frames. Of 64 streams of two to
	// six kilobytes on new connections, 400 to 730 bytes a stream came back.
	connBytes = 1 << 10
	// slackBytes covers what is no stream's: probes, and connections that were opened but not used.
	slackBytes = 64 << 10
	// least is what a port's error is compared with when it should carry less.
	least = 1 << 20
	// frame and segment are a full segment's bytes on a link and of payload.
	frame, segment = fabric.FrameBytes, 1448
)

// Conserve compares the KV bytes that ports carried in a trial, by 2 x link + 1 for the
// way back, with those that the records' paths send over them; -1 is not known. A trial with attempts
// that failed has bytes which no record places; it is not judged.
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

// due is what ports should have carried, by port.
type due struct {
	data []float64 // frames of the streams' payload
	more []float64 // at most, on top: segments sent again, acknowledgements, connections
	// anywhere is as much again of streams whose acknowledgements' path is not known.
	anywhere float64
}

// expected places the bytes of all streams; nil when some have no place.
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

// add places a stream on its path of there, and its acknowledgements on theirs of back.
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
