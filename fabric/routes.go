package fabric

import "net/netip"

// firstNICTable is the routing table of NIC 0 on hosts with several NICs.
const firstNICTable = 100

var anywhere = netip.PrefixFrom(netip.IPv4Unspecified(), 0)

// addRoutes fills the routing table of every node. Going up, each layer has an
// equal-cost default route; going down, switches know the prefixes below them:
// one /32 per host address at the rack, one /24 per rack in the pod, one /16 per pod
// at the core.
func (p *Plan) addRoutes() {
	for i := range p.Nodes {
		n := &p.Nodes[i]
		switch n.Kind {
		case KindInstance, KindBackground:
			p.hostRoutes(n)
		case KindToR:
			p.torRoutes(n)
		case KindAgg:
			p.aggRoutes(n)
		case KindCore:
			for pod := range p.dims.pods {
				n.Routes = append(n.Routes, Route{
					Dst:      netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(pod)}), 16),
					NextHops: []NextHop{p.nextHop(n.ID, p.coreLink(pod, n.Group, n.Index))},
				})
			}
		}
	}
}

// nextHop sends from a node into a link.
func (p *Plan) nextHop(from NodeID, link LinkID) NextHop {
	l := &p.Links[link]
	if l.A.Node == from {
		return NextHop{Port: l.A.Index, Via: l.B.Addr.Addr()}
	}
	return NextHop{Port: l.B.Index, Via: l.A.Addr.Addr()}
}

// hostRoutes: a default route into the rack, and server neighbours over
// NVLink. With several NICs each NIC has its own table, chosen by the source
// address. It repeats the NVLink routes, because a rule's table is searched before main.
func (p *Plan) hostRoutes(n *Node) {
	tables := []int{0}
	if len(n.Addrs) > 1 {
		for nic, addr := range n.Addrs {
			tables = append(tables, firstNICTable+nic)
			n.Rules = append(n.Rules, Rule{From: addr, Table: firstNICTable + nic})
		}
	}
	for _, table := range tables {
		nic := max(0, table-firstNICTable)
		n.Routes = append(n.Routes, Route{
			Dst: anywhere, Src: n.Addrs[nic], Table: table,
			NextHops: []NextHop{p.nextHop(n.ID, p.nicLink(n.ID, nic))},
		})
		for _, peer := range p.serverNeighbours(n) {
			for _, addr := range p.Nodes[peer].Addrs {
				n.Routes = append(n.Routes, Route{
					Dst: netip.PrefixFrom(addr, 32), Src: n.Addrs[nic], Table: table,
					NextHops: []NextHop{p.nextHop(n.ID, p.nvLink(n.ID, peer))},
				})
			}
		}
	}
}

// serverNeighbours are the other instances of an instance's server.
func (p *Plan) serverNeighbours(n *Node) []NodeID {
	if n.Kind != KindInstance {
		return nil
	}
	var out []NodeID
	first := n.Index / p.dims.perServer * p.dims.perServer
	for i := first; i < first+p.dims.perServer; i++ {
		if i != n.Index {
			out = append(out, NodeID(i))
		}
	}
	return out
}

func (p *Plan) torRoutes(n *Node) {
	for _, port := range p.Ports[n.ID] {
		l := &p.Links[port.Link]
		if l.Tier != 1 {
			continue
		}
		host := &p.Nodes[l.A.Node]
		nic := int(l.ID - p.nicLink(host.ID, 0))
		n.Routes = append(n.Routes, Route{
			Dst:      netip.PrefixFrom(host.Addrs[nic], 32),
			NextHops: []NextHop{p.nextHop(n.ID, l.ID)},
		})
	}
	up := Route{Dst: anywhere}
	for a := range p.dims.aggs {
		up.NextHops = append(up.NextHops, p.nextHop(n.ID, p.rackLink(n.Pod, n.Rack, a)))
	}
	n.Routes = append(n.Routes, up)
}

func (p *Plan) aggRoutes(n *Node) {
	for rack := range p.dims.racks {
		n.Routes = append(n.Routes, Route{
			Dst:      netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n.Pod), byte(rack)}), 24),
			NextHops: []NextHop{p.nextHop(n.ID, p.rackLink(n.Pod, rack, n.Index))},
		})
	}
	up := Route{Dst: anywhere}
	for c := range p.dims.cores {
		up.NextHops = append(up.NextHops, p.nextHop(n.ID, p.coreLink(n.Pod, n.Index, c)))
	}
	n.Routes = append(n.Routes, up)
}
