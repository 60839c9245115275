package fabric

import (
	"fmt"
	"slices"
	"strings"
)

// Tier is the locality of two hosts: 0 the same server, 1 the same rack, 2 the
// same pod, 3 across pods; -1 when either is a switch. A host is at tier 0
// with itself.
func (p *Plan) Tier(a, b NodeID) int {
	x, y := &p.Nodes[a], &p.Nodes[b]
	switch {
	case x.IsSwitch() || y.IsSwitch():
		return -1
	case a == b:
		return 0
	case x.Pod != y.Pod:
		return 3
	case x.Rack != y.Rack:
		return 2
	case x.Server != y.Server || x.Kind == KindBackground || y.Kind == KindBackground:
		return 1
	}
	return 0
}

// PathCount is the number of equal-cost paths of a tier: 1, 1, one per
// aggregation switch, one per core switch.
func (p *Plan) PathCount(tier int) int {
	switch tier {
	case 2:
		return p.aggs
	case 3:
		return p.aggs * p.cores
	}
	return 1
}

// EqualCostPaths lists all equal-cost paths between the first NICs of two
// hosts. The order defines path slots: slot k climbs to aggregation
// switch k at tier 2, and at tier 3 to aggregation switch k / CoresPerAgg and
// core k mod CoresPerAgg of its group. It is nil when either is a switch or
// both are the same.
func (p *Plan) EqualCostPaths(src, dst NodeID) []Path { return p.NICPaths(src, dst, 0, 0) }

// NICPaths is EqualCostPaths between given NICs. The destination's NIC is
// chosen by the packets' destination address, the source's by their source
// address. At tier 0 NICs do not matter. It is nil for NICs that do not exist.
func (p *Plan) NICPaths(src, dst NodeID, srcNIC, dstNIC int) []Path {
	tier := p.Tier(src, dst)
	if tier < 0 || src == dst || !p.Nodes[src].hasNIC(srcNIC) || !p.Nodes[dst].hasNIC(dstNIC) {
		return nil
	}
	if tier == 0 {
		ports := p.Ports[src]
		nvlink := ports[slices.IndexFunc(ports, func(port *Port) bool { return p.Peer(port).Node == dst })]
		return []Path{{p.HopOf(nvlink)}}
	}
	paths := make([]Path, p.PathCount(tier))
	for slot := range paths {
		paths[slot] = p.climb(tier, p.Ports[src][srcNIC], p.Ports[dst][dstNIC], slot)
	}
	return paths
}

func (n *Node) hasNIC(nic int) bool { return nic >= 0 && nic < len(n.Addrs) }

// climb follows a slot's uplinks from both ends to the switch where they meet.
func (p *Plan) climb(tier int, src, dst *Port, slot int) Path {
	uplinks := []int{slot}
	if tier == 3 {
		uplinks = []int{slot / p.cores, slot % p.cores}
	}
	path := make(Path, 2*tier)
	for i := range tier {
		path[i], path[2*tier-1-i] = Hop{Link: src.Link}, Hop{Link: dst.Link, Reverse: true}
		if i < tier-1 {
			src, dst = p.uplink(src, uplinks[i]), p.uplink(dst, uplinks[i])
		}
	}
	return path
}

// uplink is the k-th port that leads on up from the switch that a port leads up to.
func (p *Plan) uplink(port *Port, k int) *Port {
	at := &p.Nodes[p.Peer(port).Node]
	count := p.aggs
	if at.Kind == KindAgg {
		count = p.cores
	}
	ports := p.Ports[at.ID]
	return ports[len(ports)-count+k]
}

// PathNodes names the nodes of a path from source to destination; nil for an empty path.
func (p *Plan) PathNodes(path Path) []string {
	if len(path) == 0 {
		return nil
	}
	names := []string{p.Nodes[p.Egress(path[0]).Node].Name}
	for _, h := range path {
		names = append(names, p.Nodes[p.Ingress(h).Node].Name)
	}
	return names
}

// SlotVia finds the slot of the path between the first NICs of two hosts that
// crosses exactly the switches named, in order. It fails, listing the
// possible ones, when no equal-cost path does.
func (p *Plan) SlotVia(src, dst NodeID, via []string) (int, error) {
	var known []string
	for slot, path := range p.EqualCostPaths(src, dst) {
		names := p.PathNodes(path)
		between := names[1 : len(names)-1]
		if slices.Equal(between, via) {
			return slot, nil
		}
		known = append(known, "["+strings.Join(between, " ")+"]")
	}
	const show = 8
	if len(known) > show {
		known = append(known[:show], fmt.Sprintf("and %d more", len(known)-show))
	}
	return 0, fmt.Errorf("no path from %s to %s via [%s]; there is %s",
		p.Nodes[src].Name, p.Nodes[dst].Name, strings.Join(via, " "), strings.Join(known, ", "))
}

// TierBandwidth is the static bandwidth of the notes' oracle in paper units:
// the rate of the narrowest link of one equal-cost path of each tier. For the
// paper's cluster it is 3600, 100, 50 and 25 Gbps. Tier 0 has the NVLinks' rate
// also where servers hold one instance.
func (p *Plan) TierBandwidth() [4]BitsPerSecond {
	r := p.rates
	return [4]BitsPerSecond{r[0], r[1], min(r[1], r[2]), min(r[1], r[2], r[3])}
}

// LinkName names one direction of a link by its nodes: "tor0-0>agg0-1". NICs
// after the first add their number: "p0.1>tor0-0".
func (p *Plan) LinkName(h Hop) string {
	name := func(port *Port) string {
		name := p.Nodes[port.Node].Name
		if l := &p.Links[port.Link]; l.Tier == 1 && port == &l.A && port.Index > 0 {
			return fmt.Sprintf("%s.%d", name, port.Index)
		}
		return name
	}
	return name(p.Egress(h)) + ">" + name(p.Ingress(h))
}
