package flowsim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// slack is how many seconds a call may be behind the clock: rounding an
// Instant to a time.Duration can lose as much.
const slack = 1e-9

// Next is the instant of the next event if no further call is made: a flow's last byte, or its
// first after a delay. It is false when there will be no event: there is no flow, or none that
// moves. A call at a later instant may have completed flows that Advance has not returned yet; then
// Next is the clock's instant. So Advance(Next) always makes progress.
func (n *Network) Next() (Instant, bool) {
	if !n.returned && len(n.done) > 0 {
		return n.clock, true
	}
	n.solve()
	if len(n.due.entries) == 0 {
		return never, false
	}
	return n.due.entries[0].at, true
}

// Advance moves the clock and returns the flows that ended since the last Advance, by instant and
// then by ID. The slice is valid until the next call of a method that takes an instant. An instant
// less than a nanosecond behind the clock counts as the clock's, because a caller that keeps time
// in whole nanoseconds loses that much. Advance fails with ErrPast on an earlier one.
func (n *Network) Advance(now Instant) ([]Completion, error) {
	now, err := notPast(n.clock, now)
	if err != nil {
		return nil, fmt.Errorf("advance: %w", err)
	}
	n.run(now)
	if len(n.done) > 1 {
		slices.SortFunc(n.done, func(a, b Completion) int {
			return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID))
		})
	}
	n.returned = true
	return n.done, nil
}

// notPast checks the instant of a call and lifts it to the clock.
func notPast(clock, now Instant) (Instant, error) {
	if math.IsNaN(now.hi) || math.IsInf(now.hi, 0) {
		return now, fmt.Errorf("%v s is no instant", now.hi)
	}
	if !now.Before(clock) {
		return now, nil
	}
	if late := clock.Sub(now); late > slack {
		return now, fmt.Errorf("%w: it is %v s, %.3g s before the clock", ErrPast, now.Seconds(), late)
	}
	return clock, nil
}

// moveTo handles the events that are due by now. Further calls at the same instant
// find the clock there already, so the rates are computed once for all of them.
func (n *Network) moveTo(now Instant) error {
	now, err := notPast(n.clock, now)
	if err == nil && n.clock.Before(now) {
		n.run(now)
	}
	return err
}

// run handles the events that are due by now and sets the clock.
func (n *Network) run(now Instant) {
	if n.returned {
		n.done, n.returned = n.done[:0], false
	}
	for {
		n.solve()
		if len(n.due.entries) == 0 || now.Before(n.due.entries[0].at) {
			break
		}
		n.clock = n.due.entries[0].at
		for len(n.due.entries) > 0 && n.due.entries[0].at == n.clock {
			slot := n.due.entries[0].ref
			if x := &n.flows[slot]; x.phase == active {
				n.done = append(n.done, Completion{ID: x.id, At: n.clock, Started: x.started, Bytes: x.bytes})
				n.end(slot)
			} else {
				n.due.drop(slot)
				n.activate(slot)
			}
		}
	}
	n.clock = now
}

// activate puts a flow on its links.
func (n *Network) activate(slot int32) {
	x := &n.flows[slot]
	x.phase, x.since = active, n.clock
	if x.bytes == 0 {
		// It ends at this instant, but not before Start has returned.
		n.bound[slot] = 0
		n.due.set(entry{at: n.clock, tie: x.id, ref: slot})
		x.links = x.links[:0]
		return
	}
	n.join(slot)
}

// end takes a flow off its links and frees its slot.
func (n *Network) end(slot int32) {
	n.due.drop(slot)
	n.leave(slot)
}

// solve brings all rates up to date with what happened at the clock's instant.
func (n *Network) solve() {
	if n.settled() {
		return
	}
	n.fill()
	for _, slot := range n.noted {
		if x := &n.flows[slot]; x.phase == active && n.bound[slot] != x.rate {
			n.setRate(slot, n.bound[slot])
		}
	}
	n.reset()
}

// setRate changes a flow's rate at the clock's instant and with it the instant
// of its end. A flow whose missing bytes are no more than a rounding error ends at once:
// it must not wait for ever on a link whose capacity becomes 0 as its last byte arrives.
func (n *Network) setRate(slot int32, rate float64) {
	x := &n.flows[slot]
	x.left, x.since, x.rate = x.leftAt(n.clock), n.clock, rate
	switch lasts := x.left / rate; {
	case x.left <= same*x.bytes || math.IsInf(rate, 1):
		n.due.set(entry{at: n.clock, tie: x.id, ref: slot})
	case math.IsInf(lasts, 1): // it does not move, or hardly
		n.due.drop(slot)
	default:
		n.due.set(entry{at: n.clock.Add(lasts), tie: x.id, ref: slot})
	}
}
