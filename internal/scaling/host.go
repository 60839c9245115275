package scaling

import (
	"cmp"
	"slices"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/scenarios"
)

// Step is what one core forwards of traffic that has one grain.
type Step struct {
	// Rate is that of the narrowest links, in bits a second, and Segments how many a
	// sender hands down at once there (fabric.Segments).
	Rate     scenarios.BitsPerSecond `json:"rate_bits_per_second"`
	Segments int                     `json:"segments"`
	// HopsPerCore is packets times hops, a second, acknowledgements counted.
	HopsPerCore float64 `json:"hops_per_core"`
}

// Host is what a host forwards.
type Host struct {
	Cores int
	Steps []Step
	// Calibrated: the steps were measured on this host.
	Calibrated bool
}

// Uncalibrated is a host of which nothing but its cores is known. The steps are the
// lowest that were measured at 2, 4 and 8 segments (docs/fidelity.md), so on the safe side.
func Uncalibrated(cores int) Host {
	return Host{Cores: cores, Steps: []Step{
		{Rate: 10e6, Segments: 2, HopsPerCore: 290e3},
		{Rate: 25e6, Segments: 4, HopsPerCore: 375e3},
		{Rate: 100e6, Segments: 8, HopsPerCore: 650e3},
	}}
}

// unmeasured is what a grain finer than any that was measured carries, beside the least
// that was: a burst half as long costs a third to a half of the packets.
const unmeasured = 0.6

// perCore is what one core forwards in a fabric: of the steps that are no coarser than
// it, the coarsest.
func (h Host) perCore(narrowest scenarios.BitsPerSecond, segments int) float64 {
	best := Step{}
	for _, s := range h.Steps {
		if s.Segments <= segments && float64(s.Rate) <= 1.01*float64(narrowest) &&
			cmp.Or(cmp.Compare(s.Segments, best.Segments), cmp.Compare(s.Rate, best.Rate)) > 0 {
			best = s
		}
	}
	if best.HopsPerCore > 0 || len(h.Steps) == 0 {
		return best.HopsPerCore
	}
	least := slices.MinFunc(h.Steps, func(a, b Step) int { return cmp.Compare(a.HopsPerCore, b.HopsPerCore) })
	if least.Segments > segments {
		return unmeasured * least.HopsPerCore
	}
	return least.HopsPerCore
}

// Capacity is the packet-hops a second that the host forwards in a fabric when it does
// nothing else.
func (h Host) Capacity(p *fabric.Plan) float64 {
	narrowest, segments := Grain(p)
	return h.perCore(narrowest, segments) * float64(h.Cores)
}

// Grain is the rate of a plan's narrowest link and the most segments that a sender
// hands down at once, NVLinks aside.
func Grain(p *fabric.Plan) (narrowest scenarios.BitsPerSecond, segments int) {
	for i := range p.Links {
		l := &p.Links[i]
		if l.Tier == 0 {
			continue
		}
		if narrowest == 0 || l.RateEmulated < narrowest {
			narrowest = l.RateEmulated
		}
		segments = max(segments, l.A.GSOMaxSegs, l.B.GSOMaxSegs)
	}
	return narrowest, segments
}
