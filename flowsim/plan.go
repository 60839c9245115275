package flowsim

import (
	"fmt"

	"github.com/netkvlab/netkvlab/fabric"
)

// Units selects one of a plan's two rates.
type Units uint8

const (
	// Paper are the rates of the scenario, with bytes and times as the paper has them.
	Paper Units = iota
	// Emulated are the rates that this host shapes to, with scaled bytes and times.
	Emulated
)

// Capacities lists the capacities of a plan's links for New, in bytes of frames per
// second: two directed links for each of the plan's, in the order of HopLink.
func Capacities(p *fabric.Plan, u Units) []float64 {
	c := make([]float64, 2*len(p.Links))
	for i := range p.Links {
		rate := p.Links[i].Rate
		if u == Emulated {
			rate = p.Links[i].RateEmulated
		}
		c[2*i] = rate.BytesPerSecond()
		c[2*i+1] = c[2*i]
	}
	return c
}

// HopLink is the directed link of a hop in a network with a plan's Capacities.
func HopLink(h fabric.Hop) LinkIndex {
	if h.Reverse {
		return LinkIndex(2*h.Link + 1)
	}
	return LinkIndex(2 * h.Link)
}

// HopOf is the inverse of HopLink.
func HopOf(l LinkIndex) fabric.Hop {
	return fabric.Hop{Link: fabric.LinkID(l / 2), Reverse: l%2 == 1}
}

// AppendPath appends the links of one path to dst. Which of
// Plan.EqualCostPaths a flow takes is the caller's choice: its slot as hashed
// in the packet world, or a draw fixed with the request.
func AppendPath(dst []LinkIndex, path fabric.Path) []LinkIndex {
	for _, h := range path {
		dst = append(dst, HopLink(h))
	}
	return dst
}

// Split spreads a flow evenly over all of the paths, as a perfect load balancer
// would with a fluid: it returns the links that any path crosses and, for each,
// the share of the paths that cross it, which are Flow.Path and Flow.Weights.
// The links are in the order in which the paths first name them. It returns
// nothing for no paths.
//
// The flow still has one rate, limited by the fullest of its links: the
// balancer does not move bytes from a busy path to an idle one.
func Split(paths []fabric.Path) (links []LinkIndex, weights []float64) {
	place := map[LinkIndex]int{}
	for _, path := range paths {
		for _, h := range path {
			l := HopLink(h)
			i, known := place[l]
			if !known {
				i = len(links)
				place[l] = i
				links, weights = append(links, l), append(weights, 0)
			}
			weights[i]++
		}
	}
	for i := range weights {
		weights[i] /= float64(len(paths))
	}
	return links, weights
}

// Residual lowers the capacity of a link by the share (0 to 1) that constant
// background traffic takes of it. Use it for background that sends at its own rate
// whatever the transfers do; background that shares fairly needs its own flows.
// It fails on a share out of range.
func Residual(capacity, share float64) (float64, error) {
	if !(share >= 0 && share <= 1) {
		return 0, fmt.Errorf("background share %v: want 0 to 1", share)
	}
	return float64(capacity * (1 - share)), nil
}

// WithBackground is Capacities without the share (0 to 1) that background traffic takes of
// each link; it calls share for every directed link. It fails as Residual does, naming the link.
func WithBackground(p *fabric.Plan, u Units, share func(fabric.Hop) float64) ([]float64, error) {
	capacities := Capacities(p, u)
	for i := range capacities {
		h := HopOf(LinkIndex(i))
		c, err := Residual(capacities[i], share(h))
		if err != nil {
			return nil, fmt.Errorf("link %s: %w", p.LinkName(h), err)
		}
		capacities[i] = c
	}
	return capacities, nil
}
