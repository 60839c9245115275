package lab

import (
	"fmt"
	"runtime"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/scenarios"
)

// rateScales are the values that auto chooses from.
var rateScales = []float64{50, 100, 200, 400, 500, 800, 1000, 2000, 4000, 8000, 16000, 32000}

const (
	// hopsPerCore is what one core forwards: packets times hops, a second. The lowest of the
	// rates measured with 4 segments a burst (docs/fidelity.md), so on the safe side.
	hopsPerCore = 375e3
	// useAtMost leaves the rest of the host to agents and scheduler.
	useAtMost = 0.8
	// ackShare is what acknowledgements add to the packets of a transfer.
	ackShare  = 1.34
	frameBits = 1514 * 8
)

// ResolveScale turns auto into the largest fidelity that this host can carry: the
// smallest S at which even a fabric full of transfers leaves it idle time.
func ResolveScale(s *scenarios.Scenario) error {
	if s.Scale.Rate > 0 {
		return nil
	}
	for _, rate := range rateScales {
		s.Scale.Rate = rate
		load, err := worstLoad(s)
		if err != nil {
			return err
		}
		if load <= useAtMost*capacity() {
			return nil
		}
	}
	return fmt.Errorf("scale.rate: auto: this host (%d cores) carries %s at no scale up to %g: give scale.rate or a smaller topology",
		runtime.NumCPU(), s.Name, rateScales[len(rateScales)-1])
}

// capacity is the packet-hops a second that the host forwards.
func capacity() float64 { return hopsPerCore * float64(runtime.NumCPU()) }

// worstLoad is the packet-hops a second when every transfer that fits is under way:
// core links full with six hops each, and the rest of the senders' NICs with four.
func worstLoad(s *scenarios.Scenario) (float64, error) {
	p, err := Plan(s)
	if err != nil {
		return 0, err
	}
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
	return ackShare / frameBits * (6*far + 4*(nics-far)), nil
}
