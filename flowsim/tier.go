package flowsim

import (
	"fmt"

	"github.com/netkvlab/netkvlab/fabric"
)

// tiers is the number of locality tiers, those of fabric.Plan.Tier.
const tiers = 4

// TierCapacities makes the network of the NetKV paper itself, in which there is
// no topology: a transfer of prefill instance p on tier t moves at
//
//	B_t (1 - c_t) / n
//
// where B_t is the tier's static bandwidth, c_t the share of it that others
// use, and n the number of transfers that p has on t at the time, this one
// included. This is equation 4 of the notes, taken as the truth and not as an
// estimate, and with the current n: whenever a transfer starts or ends, the rates of
// p's other transfers on that tier are computed again. Transfers of different prefill
// instances, or on different tiers, never meet. The cap of 16 belongs to the
// scheduler's counter and does not apply here.
//
// That is max-min sharing of one private link per pair of a prefill
// instance and a tier. TierCapacities returns their capacities in bytes per
// second for New; a transfer's path is the one link TierLink(p, t).
// Congestion is c by tier, each 0 to 1; it fails when one is out of range.
func TierCapacities(p *fabric.Plan, u Units, congestion [tiers]float64) ([]float64, error) {
	rates := p.TierBandwidth()
	stretch := 1.0
	if u == Emulated {
		stretch = p.Scale.Rate * p.Scale.Time
	}
	capacities := make([]float64, 0, tiers*len(p.Prefill))
	for range p.Prefill {
		for t := range tiers {
			c, err := Residual(rates[t].BytesPerSecond()/stretch, congestion[t])
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
