package flowsim

import (
	"math"
	"slices"
)

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

// filling is the table with the state of the water-filling.
type filling struct {
	table
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

// join puts a flow on its links.
func (f *filling) join(slot int32) {
	x := &f.flows[slot]
	for i, l := range x.links {
		f.insert(&f.links[l], share{slot: slot, weight: x.weights[i]})
	}
	f.unbind(slot)
}

// insert adds a share in the order of IDs. New flows mostly have the highest.
func (f *filling) insert(k *link, s share) {
	k.shares = append(k.shares, s)
	i := len(k.shares) - 1
	for id := f.flows[s.slot].id; i > 0 && f.flows[k.shares[i-1].slot].id > id; i-- {
		k.shares[i] = k.shares[i-1]
	}
	k.shares[i] = s
}

// leave takes a flow off its links and frees its slot.
func (f *filling) leave(slot int32) {
	x := &f.flows[slot]
	if x.phase == active {
		for _, l := range x.links {
			k := &f.links[l]
			i := slices.IndexFunc(k.shares, func(s share) bool { return s.slot == slot })
			k.shares = slices.Delete(k.shares, i, i+1)
			f.release(l)
		}
	}
	delete(f.slots, x.id)
	x.phase = absent
	f.free = append(f.free, slot)
}

// touch makes the filling compute a link's level before it decides the next one.
func (f *filling) touch(l int32) {
	if k := &f.links[l]; !k.touched {
		k.touched = true
		f.touched = append(f.touched, l)
	}
}

// release lets the flows that this link held back rise.
func (f *filling) release(l int32) {
	k := &f.links[l]
	if k.released {
		return
	}
	k.released = true
	f.released = append(f.released, l)
	for _, s := range k.shares {
		if x := &f.flows[s.slot]; x.bottleneck == l && x.fate == kept {
			f.unbind(s.slot)
		}
	}
}

// unbind lets a flow rise up to its MaxRate.
func (f *filling) unbind(slot int32) {
	x := &f.flows[slot]
	x.fate = unbound
	f.bound[slot] = x.maxRate
	f.note(slot)
	for _, l := range x.links {
		f.touch(l)
	}
}

func (f *filling) note(slot int32) {
	if x := &f.flows[slot]; !x.noted {
		x.noted = true
		f.noted = append(f.noted, slot)
	}
}

// settled reports whether nothing has happened since the last solve.
func (f *filling) settled() bool {
	return len(f.touched) == 0 && len(f.noted) == 0 && len(f.released) == 0
}

// fill computes the new rates in bound, of the noted flows at most.
func (f *filling) fill() {
	for {
		for _, l := range f.touched {
			f.links[l].touched = false
			f.rank(l)
		}
		f.touched = f.touched[:0]
		if len(f.levels.entries) == 0 {
			break
		}
		lowest := f.levels.entries[0]
		if f.links[lowest.ref].stale {
			f.rank(lowest.ref)
			continue
		}
		f.levels.drop(lowest.ref)
		f.level = lowest.at.hi
		f.fix(lowest.ref)
	}
	f.level = 0
}

// rank puts a link into the queue by its level.
func (f *filling) rank(l int32) {
	k := &f.links[l]
	k.stale = false
	level := f.fills(k)
	if math.IsInf(level, 1) {
		f.levels.drop(l)
		return
	}
	// Rounding may put it slightly below the level that is decided already.
	f.levels.set(entry{at: Instant{hi: max(level, f.level)}, tie: uint64(l), ref: l})
}

// fills is the level at which a link is full, +Inf if it never is.
func (f *filling) fills(k *link) float64 {
	total := 0.0
	for i := range k.shares {
		s := &k.shares[i]
		total += float64(s.weight * f.bound[s.slot])
	}
	if total <= k.capacity*(1+same) {
		return math.Inf(1)
	}
	level, below := 0.0, -1
	for {
		rest, weight, count := k.capacity, 0.0, 0
		for i := range k.shares {
			s := &k.shares[i]
			if b := f.bound[s.slot]; b < level {
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
func (f *filling) fix(l int32) {
	k := &f.links[l]
	for i := range k.shares {
		slot := k.shares[i].slot
		if f.bound[slot] < f.level || f.flows[slot].fate == decided {
			continue
		}
		f.decide(slot, l)
	}
}

// decide gives a flow the level of the link that stops it.
func (f *filling) decide(slot, bottleneck int32) {
	x := &f.flows[slot]
	rate := f.level
	if math.Abs(rate-x.rate) <= same*rate {
		rate = x.rate
	}
	x.fate, x.bottleneck = decided, bottleneck
	f.bound[slot] = rate
	f.note(slot)
	for _, l := range x.links {
		f.links[l].stale = true // the flow takes less of it than was assumed
	}
	if rate < x.rate {
		for _, l := range x.links {
			f.release(l)
		}
	}
}

// reset forgets the filling once the new rates are in force.
func (f *filling) reset() {
	for _, slot := range f.noted {
		x := &f.flows[slot]
		if x.phase == active && x.fate == unbound {
			x.bottleneck = -1 // nothing stops it but MaxRate
		}
		x.noted, x.fate = false, kept
	}
	for _, l := range f.released {
		f.links[l].released = false
	}
	f.noted, f.released = f.noted[:0], f.released[:0]
}
