package flowsim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Next is the instant of the next event if no further call is made: a flow's last
// byte, or its first after a delay. It is false when there will be no event: there
// is no flow, or none that moves. A call at a later instant may have completed
// flows that Advance has not returned yet; then Next is the clock's instant. So
// Advance(Next) always makes progress.
func (n *Network) Next() (Instant, bool) {
	if !n.told && len(n.done) > 0 {
		return n.clock, true
	}
	n.solve()
	if len(n.due.entries) == 0 {
		return never, false
	}
	return n.due.entries[0].at, true
}

// Advance moves the clock and returns the flows that ended since the last
// Advance, by instant and then by ID. The slice is valid until the next call of
// a method that takes an instant. An instant less than a nanosecond behind
// the clock counts as the clock's, because a caller that keeps time in whole
// nanoseconds loses that much. Advance fails with ErrPast on an earlier one.
func (n *Network) Advance(now Instant) ([]Completion, error) {
	n.forget()
	now, err := n.notPast(now)
	if err != nil {
		return nil, fmt.Errorf("advance: %w", err)
	}
	n.run(now)
	if len(n.done) > 1 {
		slices.SortFunc(n.done, func(a, b Completion) int {
			return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID))
		})
	}
	n.told = true
	return n.done, nil
}

// forget makes room for new completions once the old ones were returned.
func (n *Network) forget() {
	if n.told {
		n.done, n.told = n.done[:0], false
	}
}

// notPast checks the instant of a call and lifts it to the clock.
func (n *Network) notPast(now Instant) (Instant, error) {
	if math.IsNaN(now.hi) || math.IsInf(now.hi, 0) {
		return now, fmt.Errorf("%v s is no instant", now.hi)
	}
	if !now.Before(n.clock) {
		return now, nil
	}
	if late := n.clock.Sub(now); late > slack {
		return now, fmt.Errorf("%w: it is %v s, %.3g s before the clock", ErrPast, now.Seconds(), late)
	}
	return n.clock, nil
}

// moveTo handles the events that are due by now. Further calls at the same instant
// find the clock there already, so the rates are computed once for all of them.
func (n *Network) moveTo(now Instant) error {
	now, err := n.notPast(now)
	if err != nil {
		return err
	}
	if n.clock.Before(now) {
		n.forget()
		n.run(now)
	}
	return nil
}

// run handles the events that are due by now and sets the clock.
func (n *Network) run(now Instant) {
	for {
		n.solve()
		if len(n.due.entries) == 0 {
			break
		}
		t := n.due.entries[0].at
		if now.Before(t) {
			break
		}
		n.clock = t
		for len(n.due.entries) > 0 && n.due.entries[0].at == t {
			n.happen(n.due.entries[0].ref)
		}
	}
	n.clock = now
}

// happen handles the event of a flow that is due at the clock's instant.
func (n *Network) happen(slot int32) {
	if n.flows[slot].phase == waiting {
		n.due.drop(slot)
		n.activate(slot)
		return
	}
	n.complete(slot)
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
	for i, l := range x.links {
		n.join(&n.links[l], share{slot: slot, weight: x.weights[i]})
	}
	n.unbind(slot)
}

// join adds a share in the order of IDs. New flows mostly have the highest.
func (n *Network) join(k *link, s share) {
	k.shares = append(k.shares, s)
	i := len(k.shares) - 1
	for id := n.flows[s.slot].id; i > 0 && n.flows[k.shares[i-1].slot].id > id; i-- {
		k.shares[i] = k.shares[i-1]
	}
	k.shares[i] = s
}

// complete ends a flow that has moved all its bytes.
func (n *Network) complete(slot int32) {
	x := &n.flows[slot]
	n.count(x, 0)
	n.done = append(n.done, Completion{ID: x.id, At: n.clock, Started: x.started, Bytes: x.bytes})
	n.end(slot)
}

// end takes a flow off its links and frees its slot.
func (n *Network) end(slot int32) {
	x := &n.flows[slot]
	if x.phase == active {
		for _, l := range x.links {
			k := &n.links[l]
			i := slices.IndexFunc(k.shares, func(s share) bool { return s.slot == slot })
			k.shares = slices.Delete(k.shares, i, i+1)
			n.release(l)
		}
	}
	n.due.drop(slot)
	delete(n.slots, x.id)
	x.phase = absent
	n.free = append(n.free, slot)
}

// count adds to the counters what a flow has moved until left bytes remain.
func (n *Network) count(x *flow, left float64) {
	if moved := x.left - left; moved > 0 {
		for i, l := range x.links {
			n.links[l].carried += float64(x.weights[i] * moved)
		}
	}
	x.left = left
}

// movedAt is the payload moved by t if the rate stays.
func (x *flow) movedAt(t Instant) float64 { return x.bytes - x.leftAt(t) }

func (x *flow) leftAt(t Instant) float64 {
	if x.phase != active || x.left == 0 {
		return x.left
	}
	d := t.Sub(x.since)
	if d <= 0 || x.rate == 0 {
		return x.left
	}
	return max(0, x.left-float64(x.rate*d))
}
