// Package host is a model of the machine that labs run on: its description (Describe), what it
// forwards (Capacity, and its measured Calibration), its load while a trial runs (Watch, Load),
// and what single processes use (UsageOf).
//
// It reads the proc file system and one file of its own, and knows fabrics only as plans. It
// makes no lab, starts no process and judges no run. Code that tries kernel features is in
// sub-packages, so that this package stays small: calibrate measures a Calibration in a scratch
// fabric, doctor reports which features the host lacks.
//
// Functions that read the host take the folder where proc is mounted: Proc, or a test's. Times
// are real time, rates are emulated rates. A Watch is safe for concurrent use, and there may be
// several. All other types are plain data.
//
// Start reading here, then at watch.go.
package host

import (
	"cmp"
	"slices"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/scenarios"
)

// Proc is where the proc file system is mounted.
const Proc = "/proc"

// AckShare is the packets of a transfer with its acknowledgements, divided by those without.
const AckShare = 1.34

// Step is what one core forwards at one grain of traffic.
type Step struct {
	// Rate is that of the narrowest links, in bits per second, and Segments the size of a sender's
	// bursts there (fabric.Segments).
	Rate     scenarios.BitsPerSecond `json:"rate_bits_per_second"`
	Segments int                     `json:"segments"`
	// HopsPerCore is packets times hops per second, with acknowledgements.
	HopsPerCore float64 `json:"hops_per_core"`
}

// Capacity is what a host forwards.
type Capacity struct {
	Cores int
	Steps []Step
	// Calibrated: the steps were measured on this host.
	Calibrated bool
}

// Uncalibrated returns a cautious capacity for a host with the given cores. Its steps are the
// lowest that were measured at 2, 4 and 8 segments (docs/fidelity.md).
func Uncalibrated(cores int) Capacity {
	return Capacity{Cores: cores, Steps: []Step{
		{Rate: 10e6, Segments: 2, HopsPerCore: 160e3},
		{Rate: 25e6, Segments: 4, HopsPerCore: 230e3},
		{Rate: 100e6, Segments: 8, HopsPerCore: 550e3},
	}}
}

// unmeasured is the factor on the lowest step for bursts shorter than all measured ones: with
// bursts half as long, a core forwards a third to a half fewer packets.
const unmeasured = 0.6

// PerCore returns the packet-hops per second that one core forwards in a fabric with the given
// narrowest links and bursts (see Grain). It uses the coarsest step up to that grain.
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

// Of returns the packet-hops per second that all cores forward in a fabric when they do nothing
// else.
func (c Capacity) Of(p *fabric.Plan) float64 { return c.PerCore(Grain(p)) * float64(c.Cores) }

// Grain returns the rate of a plan's narrowest link, NVLinks excluded, and the largest burst.
func Grain(p *fabric.Plan) (narrowest scenarios.BitsPerSecond, segments int) {
	for i := range p.Links {
		if l := &p.Links[i]; l.Tier > 0 {
			narrowest = min(cmp.Or(narrowest, l.RateEmulated), l.RateEmulated)
			segments = max(segments, l.A.GSOMaxSegs, l.B.GSOMaxSegs)
		}
	}
	return narrowest, segments
}

// FullLoad returns the packet-hops per second of a full fabric: the core links with six hops per
// packet, and the rest of the senders' NICs with four.
func FullLoad(p *fabric.Plan) float64 {
	var nics, cores float64 // emulated bits per second, one direction
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
	return AckShare / (8 * fabric.FrameBytes) * (6*far + 4*(nics-far))
}
