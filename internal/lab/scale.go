package lab

import (
	"runtime"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/trials"
)

const (
	// hopsPerCore is what one core forwards: packets times hops, a second. The lowest of the
	// rates measured with 4 segments a burst (docs/fidelity.md), so on the safe side.
	hopsPerCore = 375e3
	// ackShare is what acknowledgements add to the packets of a transfer.
	ackShare  = 1.34
	frameBits = 1514 * 8
)

// capacity is the packet-hops a second that the host forwards at the least: what no host
// of its size fails to carry. What it really carries is for internal/scaling.
func capacity() float64 { return hopsPerCore * float64(runtime.NumCPU()) }

// worstLoad is the packet-hops a second when every transfer that fits is under way:
// core links full with six hops each, and the rest of the senders' NICs with four.
func worstLoad(c *trials.Cluster) float64 {
	p := c.Plan
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
	return ackShare / frameBits * (6*far + 4*(nics-far))
}
