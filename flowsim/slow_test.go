package flowsim_test

import (
	"math"

	"github.com/netkvlab/netkvlab/flowsim"
)

// slowNetwork is max-min sharing in the slow, simple way: at each event,
// it computes everything again by raising all rates together.
type slowNetwork struct {
	now        float64
	capacities []float64
	flows      []*slowFlow // in the order of their starts
	ends       map[uint64]outcome
}

type slowFlow struct {
	flowsim.Flow
	left, rate float64
	opens      float64 // when its delay has passed
	over       bool
}

func (f *slowFlow) moving(now float64) bool { return !f.over && f.opens <= now }

func (f *slowFlow) weight(l int) float64 {
	w := 0.0
	for i, p := range f.Path {
		switch {
		case int(p) != l:
		case f.Weights == nil:
			w++
		default:
			w += f.Weights[i]
		}
	}
	return w
}

// fill sets all rates.
func (n *slowNetwork) fill() {
	stopped := map[*slowFlow]bool{}
	for {
		// Which flows rise, and how far, until a link is full or a flow is at its maximum?
		level, full := math.Inf(1), -1
		for l, c := range n.capacities {
			rest, weight := c, 0.0
			for _, f := range n.flows {
				if stopped[f] {
					rest -= f.weight(l) * f.rate
				} else if f.moving(n.now) {
					weight += f.weight(l)
				}
			}
			if weight > 0 && max(rest, 0)/weight < level {
				level, full = max(rest, 0)/weight, l
			}
		}
		var capped *slowFlow
		rising := 0
		for _, f := range n.flows {
			if !stopped[f] && f.moving(n.now) {
				rising++
				if f.MaxRate > 0 && f.MaxRate < level {
					level, capped = f.MaxRate, f
				}
			}
		}
		if rising == 0 {
			return
		}
		for _, f := range n.flows {
			if !stopped[f] && f.moving(n.now) && (capped == f || capped == nil && (full < 0 || f.weight(full) > 0)) {
				f.rate, stopped[f] = level, true
			}
		}
	}
}

// advance runs to an instant from event to event.
func (n *slowNetwork) advance(to float64) {
	for {
		n.fill()
		next := math.Inf(1)
		var ending *slowFlow
		for _, f := range n.flows {
			switch {
			case f.over:
			case f.opens > n.now:
				if f.opens < next {
					next, ending = f.opens, nil
				}
			case f.left <= tiny*f.Bytes || f.rate > 0:
				end := n.now // of what rounding left over
				if f.rate > 0 {
					end += f.left / f.rate
				}
				if end < next {
					next, ending = end, f
				}
			}
		}
		if next > to || math.IsInf(next, 1) {
			n.pass(to)
			return
		}
		n.pass(next)
		if ending != nil {
			ending.over = true
			n.ends[ending.ID] = outcome{at: next, moved: ending.Bytes}
		}
	}
}

// pass moves the time where nothing happens.
func (n *slowNetwork) pass(to float64) {
	if to > n.now && !math.IsInf(to, 1) {
		for _, f := range n.flows {
			if f.moving(n.now) {
				f.left = max(0, f.left-f.rate*(to-n.now))
			}
		}
		n.now = to
	}
}

// do takes one step of a script.
func (n *slowNetwork) do(s step) {
	n.advance(s.at)
	switch {
	case s.start != nil:
		n.flows = append(n.flows, &slowFlow{Flow: *s.start, left: s.start.Bytes, opens: s.at + s.start.Delay.Seconds()})
		n.ends[s.start.ID] = outcome{at: math.Inf(1)}
	case s.cancel != nil:
		for _, f := range n.flows {
			if f.ID == *s.cancel && !f.over {
				f.over = true
				n.ends[f.ID] = outcome{at: s.at, moved: f.Bytes - f.left}
			}
		}
	default:
		n.capacities[s.link] = s.capacity
	}
}

// slowPlay is play with the slow network.
func slowPlay(capacities []float64, steps []step, check func(n *slowNetwork, i int)) map[uint64]outcome {
	n := &slowNetwork{capacities: append([]float64(nil), capacities...), ends: map[uint64]outcome{}}
	for i, s := range steps {
		n.do(s)
		if check != nil {
			n.advance(s.at) // flows of 0 bytes end at once
			check(n, i)
		}
	}
	n.advance(math.Inf(1))
	return n.ends
}
