package lab

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/kvagent/control"
	"github.com/netkvlab/netkvlab/scenarios"
)

// backgroundPortBase starts the source ports of background flows.
const backgroundPortBase = 30000

// backgroundFlows spreads other tenants' traffic over the fabric: each rack's
// background host sends to its counterpart in the next pod, over every core path,
// so much that each core link carries the asked share; then within its pod
// to the next rack until the rack uplinks carry theirs.
func (l *Lab) backgroundFlows() (map[fabric.NodeID][]*control.BackgroundFlow, error) {
	out := map[fabric.NodeID][]*control.BackgroundFlow{}
	b := l.Scenario.Background
	if !b.Enabled() {
		return out, nil
	}
	t := l.Scenario.Topology
	perCoreFlow, perRackFlow, err := backgroundRates(l.Scenario, l.Plan)
	if err != nil {
		return nil, err
	}
	for _, id := range l.Plan.Background {
		n := &l.Plan.Nodes[id]
		if t.Pods > 1 && perCoreFlow > 0 {
			to := l.backgroundHost((n.Pod+1)%t.Pods, n.Rack)
			if err := l.addFlows(out, id, to, perCoreFlow); err != nil {
				return nil, err
			}
		}
		if t.RacksPerPod > 1 && perRackFlow > 0 {
			to := l.backgroundHost(n.Pod, (n.Rack+1)%t.RacksPerPod)
			if err := l.addFlows(out, id, to, perRackFlow); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// backgroundRates are the emulated rates of a flow over a core path and of a flow
// within a pod, in bits per second.
func backgroundRates(s *scenarios.Scenario, p *fabric.Plan) (perCoreFlow, perRackFlow float64, err error) {
	b, t := s.Background, s.Topology
	uplink := float64(rate(p, 2))
	if t.Pods < 2 {
		return 0, b.Utilization.Tier2 * uplink, nil
	}
	perCoreFlow = b.Utilization.Tier3 * float64(rate(p, 3)) / float64(t.RacksPerPod)
	uplinkFromCore := perCoreFlow * float64(t.CoresPerAgg)
	perRackFlow = b.Utilization.Tier2*uplink - uplinkFromCore
	if perRackFlow < 0 {
		return 0, 0, invalidf("background.utilization: tier3: %g of the core links already loads the rack uplinks with %.3g, more than tier2: %g: raise tier2 or lower tier3",
			b.Utilization.Tier3, uplinkFromCore/uplink, b.Utilization.Tier2)
	}
	return perCoreFlow, perRackFlow, nil
}

// addFlows sends at a rate over each equal-cost path of a pair.
func (l *Lab) addFlows(out map[fabric.NodeID][]*control.BackgroundFlow, from, to fabric.NodeID, bps float64) error {
	b := l.Scenario.Background
	proto := uint8(unix.IPPROTO_TCP)
	if b.Kind == scenarios.BackgroundUDP {
		proto = unix.IPPROTO_UDP
	}
	table, err := l.Fabric.PathPorts(kernel.Flow{Src: from, Dst: to, Proto: proto, SrcPort: backgroundPortBase, DstPort: dataPort}, 1)
	if err != nil {
		return fmt.Errorf("background ports from %s to %s: %w", l.Plan.Nodes[from].Name, l.Plan.Nodes[to].Name, err)
	}
	for _, ports := range table {
		if len(ports) == 0 {
			continue
		}
		out[from] = append(out[from], &control.BackgroundFlow{
			PeerAddress: l.Plan.Nodes[to].Addrs[0].String(), PeerPort: dataPort, SourcePort: uint32(ports[0]),
			BitsPerSecond: bps, Kind: b.Kind, Dscp: int32(b.DSCP), Segments: int32(l.Plan.Ports[from][0].GSOMaxSegs),
		})
	}
	return nil
}

func (l *Lab) backgroundHost(pod, rack int) fabric.NodeID {
	for _, id := range l.Plan.Background {
		if n := &l.Plan.Nodes[id]; n.Pod == pod && n.Rack == rack {
			return id
		}
	}
	return -1
}

// rate is the emulated rate of the links of a tier.
func rate(p *fabric.Plan, tier int) int64 {
	for i := range p.Links {
		if p.Links[i].Tier == tier {
			return int64(p.Links[i].RateEmulated)
		}
	}
	return 0
}
