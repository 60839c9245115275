package flowsim

import "math"

// Water-filling raises all rates together from 0; when a link is full, at that
// link's level, the flows on it stop there and the others rise further. An event needs
// no new filling from 0. A filling in the order of levels gives the same result as
// before except where a link's level may have changed:
//
//   - on the links of a flow that started: they fill earlier;
//   - on the links of a flow that ended, whose rate fell, or whose capacity grew: the
//     flows that such a link held back are released. They may rise until some
//     link stops them, so their links may fill earlier or later;
//   - on links whose capacity shrank.
//
// Only these links are touched: their levels are computed, from the lowest up,
// with the assumption that a flow that was not released does not exceed its old
// rate. A flow that stops below its old rate releases the flows that its other links held back.
// They are all at higher levels, since the link was full and they were the fastest on it;
// so when such a flow is found, nothing that it changes has been decided yet, and one pass is enough.

// same is the relative difference up to which two rates are equal: rounding
// leaves about 1e-15, and to propagate that through the network would be useless work.
// Rates are always computed from capacities, so the differences do not add up.
const same = 1e-13

// filling is the state of the water-filling.
type filling struct {
	touched  []int32 // links whose level is to be computed
	levels   queue   // links by the level at which they fill; a lower bound of it for stale ones
	level    float64 // the level that is decided; 0 between solves
	noted    []int32 // slots of flows that were released or decided
	released []int32 // links whose flows were released
}

// fate is what the water-filling knows about a flow.
type fate uint8

const (
	kept    fate = iota // it stays at its rate unless a touched link stops it below
	unbound             // its old rate does not count, only MaxRate
	decided             // it has its new rate
)

// touch makes the filling compute a link's level before it decides the next one.
func (n *Network) touch(l int32) {
	if k := &n.links[l]; !k.touched {
		k.touched = true
		n.touched = append(n.touched, l)
	}
}

// release lets the flows that this link held back rise.
func (n *Network) release(l int32) {
	k := &n.links[l]
	if k.released {
		return
	}
	k.released = true
	n.released = append(n.released, l)
	for _, s := range k.shares {
		if x := &n.flows[s.slot]; x.bottleneck == l && x.fate == kept {
			n.unbind(s.slot)
		}
	}
}

// unbind lets a flow rise up to its MaxRate.
func (n *Network) unbind(slot int32) {
	x := &n.flows[slot]
	x.fate = unbound
	n.bound[slot] = x.maxRate
	n.note(slot)
	for _, l := range x.links {
		n.touch(l)
	}
}

func (n *Network) note(slot int32) {
	if x := &n.flows[slot]; !x.noted {
		x.noted = true
		n.noted = append(n.noted, slot)
	}
}

// solve brings all rates up to date with what happened at the clock's instant.
func (n *Network) solve() {
	if len(n.touched) == 0 && len(n.noted) == 0 && len(n.released) == 0 {
		return
	}
	for {
		for _, l := range n.touched {
			n.links[l].touched = false
			n.rank(l)
		}
		n.touched = n.touched[:0]
		if len(n.levels.entries) == 0 {
			break
		}
		lowest := n.levels.entries[0]
		if n.links[lowest.ref].stale {
			n.rank(lowest.ref)
			continue
		}
		n.levels.drop(lowest.ref)
		n.level = lowest.at.hi
		n.fix(lowest.ref)
	}
	n.level = 0
	n.settle()
}

// rank puts a link into the queue by its level.
func (n *Network) rank(l int32) {
	k := &n.links[l]
	k.stale = false
	level := n.fills(k)
	if math.IsInf(level, 1) {
		n.levels.drop(l)
		return
	}
	// Rounding may put it slightly below the level that is decided already.
	n.levels.set(entry{at: Instant{hi: max(level, n.level)}, tie: uint64(l), ref: l})
}

// fills is the level at which a link is full, +Inf if it never is.
func (n *Network) fills(k *link) float64 {
	total := 0.0
	for i := range k.shares {
		s := &k.shares[i]
		total += float64(s.weight * n.bound[s.slot])
	}
	if total <= k.capacity*(1+same) {
		return math.Inf(1)
	}
	level, below := 0.0, -1
	for {
		rest, weight, count := k.capacity, 0.0, 0
		for i := range k.shares {
			s := &k.shares[i]
			if b := n.bound[s.slot]; b < level {
				rest -= float64(s.weight * b)
				count++
			} else {
				weight += s.weight
			}
		}
		if weight == 0 {
			return math.Inf(1) // full by no more than rounding
		}
		if count <= below {
			return level
		}
		level, below = max(0, rest)/weight, count
	}
}

// fix stops the flows that reach a full link's level.
func (n *Network) fix(l int32) {
	k := &n.links[l]
	for i := range k.shares {
		slot := k.shares[i].slot
		if n.bound[slot] < n.level || n.flows[slot].fate == decided {
			continue
		}
		n.decide(slot, l)
	}
}

// decide gives a flow the level of the link that stops it.
func (n *Network) decide(slot, bottleneck int32) {
	x := &n.flows[slot]
	rate := n.level
	if math.Abs(rate-x.rate) <= same*rate {
		rate = x.rate
	}
	x.fate, x.bottleneck = decided, bottleneck
	n.bound[slot] = rate
	n.note(slot)
	for _, l := range x.links {
		n.links[l].stale = true // the flow takes less of it than was assumed
	}
	if rate < x.rate {
		for _, l := range x.links {
			n.release(l)
		}
	}
}

// settle puts the new rates in force and forgets the filling.
func (n *Network) settle() {
	for _, slot := range n.noted {
		x := &n.flows[slot]
		x.noted = false
		if x.phase == active {
			if x.fate == unbound {
				x.bottleneck = -1 // nothing stops it but MaxRate
			}
			if n.bound[slot] != x.rate {
				n.setRate(slot, n.bound[slot])
			}
		}
		x.fate = kept
	}
	for _, l := range n.released {
		n.links[l].released = false
	}
	n.noted, n.released = n.noted[:0], n.released[:0]
}

// setRate changes a flow's rate at the clock's instant and with it the instant
// of its end. A flow whose missing bytes are no more than a rounding error ends at once:
// it must not wait for ever on a link whose capacity becomes 0 as its last byte arrives.
func (n *Network) setRate(slot int32, rate float64) {
	x := &n.flows[slot]
	n.count(x, x.leftAt(n.clock))
	x.since, x.rate = n.clock, rate
	switch {
	case x.left <= same*x.bytes || math.IsInf(rate, 1):
		n.due.set(entry{at: n.clock, tie: x.id, ref: slot})
	case rate == 0:
		n.due.drop(slot)
	default:
		if lasts := x.left / rate; math.IsInf(lasts, 1) {
			n.due.drop(slot)
		} else {
			n.due.set(entry{at: n.clock.Add(lasts), tie: x.id, ref: slot})
		}
	}
}
