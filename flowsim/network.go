package flowsim

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
)

// LinkIndex names a directed link: its place in New's capacities.
type LinkIndex int

// FullSegmentFraming is the framing factor of a TCP stream of full segments
// with time stamps on a 1500-byte MTU: a frame of 1514 bytes carries 1448.
const FullSegmentFraming = float64(fabric.FrameBytes) / fabric.SegmentBytes

var (
	// ErrUnknownFlow means that there is no such flow, or that it has ended.
	ErrUnknownFlow = errors.New("no such flow")
	// ErrPast means that the clock has passed a call's instant by more than a nanosecond.
	ErrPast = errors.New("that instant has passed")
)

// Options vary the model. The zero value is the plain fluid.
type Options struct {
	// Framing is how many bytes cross a link for one byte of payload, at least
	// 1, for instance FullSegmentFraming; 0 means 1.
	Framing float64
}

// Flow is what Start starts.
type Flow struct {
	// ID names the flow; it must not be in use by a flow that has not ended.
	ID uint64
	// Path are the links that the flow crosses, in any order. A link named twice is crossed twice.
	// A flow without links is as fast as MaxRate lets it. Start copies Path and Weights.
	Path []LinkIndex
	// Weights are the shares of the flow's rate that its links carry, one per
	// link in Path, positive; nil means 1 each. A flow spread evenly over two uplinks
	// has a half on each. The flow's whole rate is shared fairly.
	Weights []float64
	// Bytes of payload, at least 0. A flow of 0 bytes completes when its delay is over.
	Bytes float64
	// MaxRate bounds the rate in bytes of payload per second; 0 means no bound.
	MaxRate float64
	// Delay is the time before the first byte moves: latency and set-up. Until
	// then the flow uses no link.
	Delay time.Duration
}

// Completion reports the end of a flow.
type Completion struct {
	ID uint64
	// At is when the last byte arrived, Started when Start was called.
	At, Started Instant
	// Bytes is the flow's size as given to Start.
	Bytes float64
}

// Network is a set of links and the flows on them, at an instant of a virtual
// clock. Make one with New.
type Network struct {
	framing float64
	clock   Instant
	filling

	due      queue // the next event of every flow: its first byte, or its last
	done     []Completion
	returned bool // Advance has returned done: the next completion overwrites it
}

// New makes a network of links with these capacities in bytes of frames per second
// (payload if Options.Framing is not set). A capacity may be 0, which stops its
// flows, and +Inf. It fails on negative ones, NaN, and a framing below 1.
func New(capacities []float64, o Options) (*Network, error) {
	if o.Framing == 0 {
		o.Framing = 1
	}
	if !(o.Framing >= 1) || math.IsInf(o.Framing, 1) {
		return nil, fmt.Errorf("framing %v: want a number of at least 1, frame bytes for each payload byte", o.Framing)
	}
	n := &Network{framing: o.Framing}
	n.links, n.slots = make([]link, len(capacities)), map[uint64]int32{}
	for i, c := range capacities {
		if !(c >= 0) {
			return nil, fmt.Errorf("capacity of link %d is %v: want bytes per second, at least 0", i, c)
		}
		n.links[i].capacity = c / o.Framing
	}
	n.levels.room(len(capacities))
	return n, nil
}

// Start starts a flow. Events that are due before now happen first; Advance
// returns their completions. Start fails, and starts nothing, on an ID in use, a link that
// does not exist, numbers out of range, and with ErrPast.
func (n *Network) Start(now Instant, f Flow) error {
	if err := f.check(len(n.links)); err != nil {
		return fmt.Errorf("start flow %d: %w", f.ID, err)
	}
	if err := n.moveTo(now); err != nil {
		return fmt.Errorf("start flow %d: %w", f.ID, err)
	}
	if _, used := n.slots[f.ID]; used {
		return fmt.Errorf("start flow %d: a flow of this ID has not ended", f.ID)
	}
	slot := n.add(&f, n.clock)
	n.due.room(len(n.flows))
	if f.Delay > 0 {
		first := At(f.Delay)
		n.due.set(entry{at: n.clock.Add(first.hi).Add(first.lo), tie: f.ID, ref: slot})
	} else {
		n.activate(slot)
	}
	return nil
}

// check refuses numbers out of range and links that a network of this many does not have.
func (f *Flow) check(links int) error {
	switch {
	case !(f.Bytes >= 0) || math.IsInf(f.Bytes, 1):
		return fmt.Errorf("%v bytes: want a finite number of at least 0", f.Bytes)
	case !(f.MaxRate >= 0):
		return fmt.Errorf("maximal rate %v: want bytes per second, or 0 for no bound", f.MaxRate)
	case f.Delay < 0:
		return fmt.Errorf("delay %v: want at least 0", f.Delay)
	case f.Weights != nil && len(f.Weights) != len(f.Path):
		return fmt.Errorf("%d weights for a path of %d links: want one each, or none", len(f.Weights), len(f.Path))
	}
	for _, l := range f.Path {
		if l < 0 || int(l) >= links {
			return fmt.Errorf("path names link %d: there are 0 to %d", l, links-1)
		}
	}
	for i, w := range f.Weights {
		if !(w > 0) || math.IsInf(w, 1) {
			return fmt.Errorf("weight %v on link %d: want a finite number above 0", w, f.Path[i])
		}
	}
	return nil
}

// Cancel ends a flow without a completion and returns the bytes of payload that
// it moved. Events that are due by now happen first, so Cancel fails with
// ErrUnknownFlow if the flow completes by now. It also fails with ErrPast.
func (n *Network) Cancel(now Instant, id uint64) (moved float64, err error) {
	if err := n.moveTo(now); err != nil {
		return 0, fmt.Errorf("cancel flow %d: %w", id, err)
	}
	slot, ok := n.slots[id]
	if !ok {
		return 0, fmt.Errorf("cancel flow %d: %w", id, ErrUnknownFlow)
	}
	moved = n.flows[slot].movedAt(n.clock)
	n.end(slot)
	return moved, nil
}

// SetCapacity changes a link's capacity in bytes of frames per second, as for
// New. Events that are due by now happen first. It fails on a link that does
// not exist, on a negative or NaN capacity, and with ErrPast.
func (n *Network) SetCapacity(now Instant, l LinkIndex, capacity float64) error {
	if !n.has(l) {
		return fmt.Errorf("set capacity of link %d: there are 0 to %d", l, len(n.links)-1)
	}
	if !(capacity >= 0) {
		return fmt.Errorf("set capacity of link %d to %v: want bytes per second, at least 0", l, capacity)
	}
	if err := n.moveTo(now); err != nil {
		return fmt.Errorf("set capacity of link %d: %w", l, err)
	}
	k := &n.links[l]
	was := k.capacity
	k.capacity = capacity / n.framing
	if k.capacity > was {
		n.release(int32(l))
	}
	if k.capacity != was {
		n.touch(int32(l))
	}
	return nil
}

// Links is the number of links.
func (n *Network) Links() int { return len(n.links) }

// Clock is the instant of the last call that took one.
func (n *Network) Clock() Instant { return n.clock }

// Rate is a flow's rate in bytes of payload per second at the clock's instant; 0
// during its delay. It is false for a flow that is unknown or has ended.
func (n *Network) Rate(id uint64) (float64, bool) {
	slot, ok := n.slots[id]
	if !ok {
		return 0, false
	}
	n.solve()
	return n.flows[slot].rate, true
}

// Moved is the payload that a flow has moved by an instant between the clock's
// and that of Next. It is false for a flow that is unknown or has ended.
func (n *Network) Moved(id uint64, at Instant) (float64, bool) {
	slot, ok := n.slots[id]
	if !ok {
		return 0, false
	}
	n.solve()
	return n.flows[slot].movedAt(at), true
}

// LinkLoad is what a link carries at the clock's instant in bytes of frames per
// second, the unit of its capacity; 0 for a link that does not exist.
func (n *Network) LinkLoad(l LinkIndex) float64 {
	if !n.has(l) {
		return 0
	}
	n.solve()
	load := 0.0
	for _, s := range n.links[l].shares {
		load += float64(s.weight * n.flows[s.slot].rate)
	}
	return load * n.framing
}

// Capacity is a link's capacity in bytes of frames per second; 0 for a link that does not exist.
func (n *Network) Capacity(l LinkIndex) float64 {
	if !n.has(l) {
		return 0
	}
	return n.links[l].capacity * n.framing
}
