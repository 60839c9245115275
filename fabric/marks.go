package fabric

import (
	"fmt"
	"time"

	"github.com/netkvlab/netkvlab/scenarios"
)

// The marking threshold K of DCTCP: in theory 0.17 of what the path holds (Alizadeh
// et al., SIGMETRICS 2011), in practice more, because senders send several packets
// at once. The first paper (SIGCOMM 2010) takes 20 packets at 1 Gbit/s and 65 at 10.
const (
	markLeast      = 20
	markAt10G      = 65
	markOfBDP      = 0.17
	markTenGigabit = 10e9
	markOfLimit    = 4
)

// MarkBytes is the marking threshold for a rate and a round trip, both emulated:
// the larger of the DCTCP paper's packets and 0.17 of the bandwidth-delay product.
func MarkBytes(rate scenarios.BitsPerSecond, roundTrip time.Duration) int {
	packets := max(markLeast, markAt10G*float64(rate)/markTenGigabit)
	return max(int(packets*FrameBytes), int(markOfBDP*float64(bytesIn(rate, roundTrip))))
}

// markPorts gives the switch ports their marking threshold where the transfers'
// congestion control needs marks. Unless the scenario sets it, it is at most a quarter
// of the queue: slow start continues for a round trip after the first mark, to twice
// the threshold and more, and the queue must not drop packets then.
func (p *Plan) markPorts(s *scenarios.Scenario) error {
	if s.Transfer.CongestionControl != scenarios.CongestionDCTCP {
		return nil
	}
	asked := int64(s.Topology.Buffers.ECNThresholdEmulated)
	if asked < 0 {
		return fmt.Errorf("topology.buffers.ecnThresholdEmulated is %d, want 0 (auto) or more", asked)
	}
	longest := time.Duration(float64(p.Latency[3]) * p.Scale.Time)
	for i := range p.Links {
		link := &p.Links[i]
		for _, port := range []*Port{&link.A, &link.B} {
			if !p.Nodes[port.Node].IsSwitch() {
				continue
			}
			sh := &port.Shape
			if asked >= int64(sh.LimitBytes) {
				return fmt.Errorf("topology.buffers.ecnThresholdEmulated is %d, want less than the switch buffer of %d bytes", asked, sh.LimitBytes)
			}
			if sh.MarkBytes = int(asked); asked == 0 {
				sh.MarkBytes = min(MarkBytes(sh.Rate, 2*longest), sh.LimitBytes/markOfLimit)
			}
		}
	}
	return nil
}

// Marks reports whether any queue marks.
func (p *Plan) Marks() bool {
	for i := range p.Links {
		if p.Links[i].A.Shape.MarkBytes > 0 || p.Links[i].B.Shape.MarkBytes > 0 {
			return true
		}
	}
	return false
}
