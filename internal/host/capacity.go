package host

import (
	"cmp"
	"slices"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/scenarios"
)

const (
	// AckShare is the packets of a transfer with its acknowledgements, beside those without.
	AckShare = 1.34
	// SegmentBytes is the payload of a full segment.
	SegmentBytes = 1448
	// FrameBytes is a full frame as a rate counts it.
	FrameBytes = 1514
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

// Capacity is what a host forwards.
type Capacity struct {
	Cores int
	Steps []Step
	// Calibrated: the steps were measured on this host.
	Calibrated bool
}

// Uncalibrated is a host of which nothing but its cores is known. The steps are the
// lowest that were measured at 2, 4 and 8 segments (docs/fidelity.md), so on the safe side.
func Uncalibrated(cores int) Capacity {
	return Capacity{Cores: cores, Steps: []Step{
		{Rate: 10e6, Segments: 2, HopsPerCore: 290e3},
		{Rate: 25e6, Segments: 4, HopsPerCore: 375e3},
		{Rate: 100e6, Segments: 8, HopsPerCore: 650e3},
	}}
}

// unmeasured is what a grain finer than any that was measured carries, beside the least
// that was: a burst half as long costs a third to a half of the packets.
const unmeasured = 0.6

// PerCore is the packet-hops a second that one core forwards in a fabric with such narrowest
// links and bursts (see Grain): of the steps that are no coarser, the coarsest.
func (c Capacity) PerCore(narrowest scenarios.BitsPerSecond, segments int) float64 {
	best := Step{}
	for _, s := range c.Steps {
		if s.Segments <= segments && float64(s.Rate) <= 1.01*float64(narrowest) &&
			cmp.Or(cmp.Compare(s.Segments, best.Segments), cmp.Compare(s.Rate, best.Rate)) > 0 {
			best = s
		}
	}
	if best.HopsPerCore > 0 || len(c.Steps) == 0 {
		return best.HopsPerCore
	}
	least := slices.MinFunc(c.Steps, func(a, b Step) int { return cmp.Compare(a.HopsPerCore, b.HopsPerCore) })
	if least.Segments > segments {
		return unmeasured * least.HopsPerCore
	}
	return least.HopsPerCore
}

// Of is the packet-hops a second that all cores forward in a fabric when they do nothing
// else.
func (c Capacity) Of(p *fabric.Plan) float64 { return c.PerCore(Grain(p)) * float64(c.Cores) }

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

// FullLoad is the packet-hops a second of a fabric in which every transfer that fits is
// under way: core links full with six hops each, and the rest of the senders' NICs with four.
func FullLoad(p *fabric.Plan) float64 {
	var nics, cores float64 // emulated bits a second, one direction
	for i := range p.Links {
		l := &p.Links[i]
		switch {
		case l.Tier == 3:
			cores += float64(l.RateEmulated)
		case l.Tier == 1 && (len(p.Prefill) == 0 || p.Nodes[l.A.Node].Role == fabric.RolePrefill):
			nics += float64(l.RateEmulated)
		}
	}
	far := min(nics, cores)
	return AckShare / (8 * FrameBytes) * (6*far + 4*(nics-far))
}
