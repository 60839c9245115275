package flowsim

import (
	"fmt"

	"github.com/netkvlab/netkvlab/fabric"
)

// Capacities lists the capacities of a plan's links for New, at the paper's rates in bytes of
// frames per second: two directed links for each of the plan's, in the order of HopLink.
func Capacities(p *fabric.Plan) []float64 {
	c := make([]float64, 2*len(p.Links))
	for i := range c {
		c[i] = p.Links[i/2].Rate.BytesPerSecond()
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

// AppendPath appends the links of one path to dst. Which of Plan.EqualCostPaths a flow takes is the
// caller's choice: its slot as hashed in the packet world, or a draw fixed with the request.
func AppendPath(dst []LinkIndex, path fabric.Path) []LinkIndex {
	for _, h := range path {
		dst = append(dst, HopLink(h))
	}
	return dst
}

// Split spreads a flow evenly over all of the paths, as a perfect load balancer would with a fluid:
// it returns the links that any path crosses and, for each, the share of the paths that cross it,
// which are Flow.Path and Flow.Weights. The links are in the order in which the paths first name
// them. It returns nothing for no paths.
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

// residual is what a share (0 to 1) of constant background traffic leaves of a link's capacity.
func residual(capacity, share float64) (float64, error) {
	if !(share >= 0 && share <= 1) {
		return 0, fmt.Errorf("background share %v: want 0 to 1", share)
	}
	return float64(capacity * (1 - share)), nil
}

// WithBackground is Capacities without the share (0 to 1) that constant background traffic
// takes of each link; it calls share for every directed link. Use it for background that sends
// at its own rate whatever the transfers do; background that shares fairly needs its own flows.
// It fails on a share out of range, naming the link.
func WithBackground(p *fabric.Plan, share func(fabric.Hop) float64) ([]float64, error) {
	capacities := Capacities(p)
	for i := range capacities {
		h := HopOf(LinkIndex(i))
		c, err := residual(capacities[i], share(h))
		if err != nil {
			return nil, fmt.Errorf("link %s: %w", p.LinkName(h), err)
		}
		capacities[i] = c
	}
	return capacities, nil
}

// tiers is the number of locality tiers, those of fabric.Plan.Tier.
const tiers = 4

// TierCapacities makes the network of the NetKV paper itself, in which there is
// no topology: a transfer of prefill instance p on tier t moves at
//
//	B_t (1 - c_t) / n
//
// where B_t is the tier's static bandwidth, c_t the share of it that others use, and n the number
// of transfers that p has on t at the time, this one included. This is equation 4 of the notes,
// taken as the truth and not as an estimate, and with the current n: whenever a transfer starts or
// ends, the rates of p's other transfers on that tier are computed again. Transfers of different
// prefill instances, or on different tiers, never meet. The cap of 16 belongs to the scheduler's
// counter and does not apply here.
//
// That is max-min sharing of one private link per pair of a prefill
// instance and a tier. TierCapacities returns their capacities in bytes per
// second of the paper's network for New; a transfer's path is the one link TierLink(p, t).
// Congestion is c by tier, each 0 to 1; it fails when one is out of range.
func TierCapacities(p *fabric.Plan, congestion [tiers]float64) ([]float64, error) {
	rates := p.TierBandwidth()
	capacities := make([]float64, 0, tiers*len(p.Prefill))
	for range p.Prefill {
		for t := range tiers {
			c, err := residual(rates[t].BytesPerSecond(), congestion[t])
			if err != nil {
				return nil, fmt.Errorf("congestion of tier %d: %w", t, err)
			}
			capacities = append(capacities, c)
		}
	}
	return capacities, nil
}

// TierLink is the link of prefill instance number prefill (its place in
// Plan.Prefill) and a tier (0 to 3) in a network with TierCapacities.
func TierLink(prefill, tier int) LinkIndex { return LinkIndex(prefill*tiers + tier) }
