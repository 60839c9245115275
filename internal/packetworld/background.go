package packetworld

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/kvagent/control"
	"github.com/netkvlab/netkvlab/scenarios"
)

// backgroundPortBase starts the source ports of background flows.
const backgroundPortBase = 30000

// backgroundFlows spreads other tenants' traffic over the fabric: Each rack's background
// host sends to its counterpart in the next pod over every core path, at the rate at which
// each core link carries its configured share. It then also sends to the next rack of its
// pod, until the rack uplinks carry their share.
func (all *Agents) backgroundFlows() (map[fabric.NodeID][]*control.BackgroundFlow, error) {
	out := map[fabric.NodeID][]*control.BackgroundFlow{}
	b := all.cluster.Scenario.Background
	if !b.Enabled() {
		return out, nil
	}
	t := all.cluster.Scenario.Topology
	rates, err := trials.Background(all.cluster.Scenario, all.cluster.Plan)
	if err != nil {
		return nil, err
	}
	for _, id := range all.cluster.Plan.Background {
		n := &all.cluster.Plan.Nodes[id]
		if t.Pods > 1 && rates.Core > 0 {
			to := all.backgroundHost((n.Pod+1)%t.Pods, n.Rack)
			if err := all.addFlows(out, id, to, rates.Core); err != nil {
				return nil, err
			}
		}
		if t.RacksPerPod > 1 && rates.Rack > 0 {
			to := all.backgroundHost(n.Pod, (n.Rack+1)%t.RacksPerPod)
			if err := all.addFlows(out, id, to, rates.Rack); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// addFlows adds one flow of a given rate per equal-cost path of a pair.
func (all *Agents) addFlows(out map[fabric.NodeID][]*control.BackgroundFlow, from, to fabric.NodeID, bps float64) error {
	b := all.cluster.Scenario.Background
	proto := uint8(unix.IPPROTO_TCP)
	if b.Kind == scenarios.BackgroundUDP {
		proto = unix.IPPROTO_UDP
	}
	table, err := all.lab.Fabric.PathPorts(kernel.Flow{Src: from, Dst: to, Proto: proto, SrcPort: backgroundPortBase, DstPort: dataPort}, 1)
	if err != nil {
		return fmt.Errorf("background ports from %s to %s: %w", all.cluster.Plan.Nodes[from].Name, all.cluster.Plan.Nodes[to].Name, err)
	}
	for _, ports := range table {
		if len(ports) == 0 {
			continue
		}
		out[from] = append(out[from], &control.BackgroundFlow{
			PeerAddress: all.cluster.Plan.Nodes[to].Addrs[0].String(), PeerPort: dataPort, SourcePort: uint32(ports[0]),
			BitsPerSecond: bps, Kind: b.Kind, Dscp: int32(b.DSCP), Segments: int32(all.cluster.Plan.Ports[from][0].GSOMaxSegs),
		})
	}
	return nil
}

func (all *Agents) backgroundHost(pod, rack int) fabric.NodeID {
	for _, id := range all.cluster.Plan.Background {
		if n := &all.cluster.Plan.Nodes[id]; n.Pod == pod && n.Rack == rack {
			return id
		}
	}
	return -1
}
