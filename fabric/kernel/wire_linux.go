package kernel

import (
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// rulePriority is below main's 32766, so that our rules come first.
const rulePriority = 1000

// create flags of requests for things that must not exist yet.
const createNew = unix.NLM_F_CREATE | unix.NLM_F_EXCL

// ifindexOf is a port's interface index. We choose it ourselves, so we need not list
// the namespaces to learn it: even at the lower end of a link, odd
// at the upper. The ends must differ: the kernel delays a carrier event by
// up to a second where an interface and its peer have the same index.
func ifindexOf(plan *fabric.Plan, p *fabric.Port) uint32 {
	return uint32(2*p.Index+loIndex+1) + endOf(plan, p)
}

// endOf is 0 at the lower end of a port's link, 1 at the upper.
func endOf(plan *fabric.Plan, p *fabric.Port) uint32 {
	if plan.HopOf(p).Reverse {
		return 1
	}
	return 0
}

// portOf is the number of the port with an interface index, -1 for lo.
func portOf(ifindex uint32) int {
	if ifindex <= loIndex {
		return -1
	}
	return int(ifindex-loIndex-1) / 2
}

// hardwarePrefix begins the MAC of every port of ours: locally administered.
const hardwarePrefix = "\x02\x4b"

// hardwareAddr is a port's MAC. It follows from the port's link and end, so neighbours can
// be permanent. Then no ARP request delays a first packet, and
// counters contain only the lab's traffic.
func hardwareAddr(plan *fabric.Plan, p *fabric.Port) []byte {
	return []byte{hardwarePrefix[0], hardwarePrefix[1], byte(p.Link >> 16), byte(p.Link >> 8), byte(p.Link), byte(endOf(plan, p))}
}

// ifinfo appends an ifinfomsg; flags are set, other flags remain as they are.
func ifinfo(b *rtnl.Batch, index, flags uint32) {
	rtnl.Put(b, unix.IfInfomsg{Index: int32(index), Flags: flags, Change: flags})
}

// wiring collects the requests that make nodes of a fabric.
type wiring struct {
	rtnl.Batch
	f *Fabric
}

// links requests the links whose end A is at a node. The ends B are created in
// the namespaces of the nodes there.
func (w *wiring) links(n *fabric.Node) {
	for _, port := range w.f.plan.Ports[n.ID] {
		l := &w.f.plan.Links[port.Link]
		if l.A.Node != n.ID {
			continue
		}
		w.Begin(unix.RTM_NEWLINK, createNew, "create veth", w.f.plan.LinkName(fabric.Hop{Link: l.ID}))
		w.vethEnd(&l.A)
		w.Nest(unix.IFLA_LINKINFO)
		w.AttrString(unix.IFLA_INFO_KIND, "veth")
		w.Nest(unix.IFLA_INFO_DATA)
		w.Nest(nl.VETH_INFO_PEER)
		w.vethEnd(&l.B)
		w.AttrU32(unix.IFLA_NET_NS_FD, uint32(w.f.ns[l.B.Node].handle))
	}
}

func (w *wiring) vethEnd(p *fabric.Port) {
	ifinfo(&w.Batch, ifindexOf(w.f.plan, p), 0)
	w.AttrString(unix.IFLA_IFNAME, p.Name)
	w.Attr(unix.IFLA_ADDRESS, hardwareAddr(w.f.plan, p))
	w.AttrU32(unix.IFLA_MTU, fabric.MTU)
	w.AttrU32(unix.IFLA_NUM_TX_QUEUES, 1)
	w.AttrU32(unix.IFLA_NUM_RX_QUEUES, 1)
	if p.GSOMaxSegs > 0 {
		w.AttrU32(unix.IFLA_GSO_MAX_SEGS, uint32(p.GSOMaxSegs))
	}
}

// ports requests the shaping and the addresses of a node's ports, and raises them.
func (w *wiring) ports(n *fabric.Node) {
	for _, port := range w.f.plan.Ports[n.ID] {
		index := ifindexOf(w.f.plan, port)
		queueing(w.f.plan, &port.Shape, w.f.features.delays(port)).Add(&w.Batch, index, port.Name)
		w.addr(index, port.Addr)
		w.Begin(unix.RTM_NEWLINK, 0, "raise", port.Name)
		ifinfo(&w.Batch, index, unix.IFF_UP)
	}
	for _, a := range n.Addrs {
		w.addr(loIndex, netip.PrefixFrom(a, 32))
	}
}

func (w *wiring) addr(index uint32, addr netip.Prefix) {
	w.Begin(unix.RTM_NEWADDR, createNew, "add address", addr.String())
	rtnl.Put(&w.Batch, unix.IfAddrmsg{Family: unix.AF_INET, Prefixlen: uint8(addr.Bits()), Index: index})
	w.AttrAddr(unix.IFA_LOCAL, addr.Addr())
	w.AttrAddr(unix.IFA_ADDRESS, addr.Addr())
}

// routes requests a node's neighbours, routes and rules.
func (w *wiring) routes(n *fabric.Node) {
	for _, port := range w.f.plan.Ports[n.ID] {
		peer := w.f.plan.Peer(port)
		w.Begin(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, "add neighbour", peer.Addr.Addr().String())
		index := int32(ifindexOf(w.f.plan, port))
		rtnl.Put(&w.Batch, unix.NdMsg{Family: unix.AF_INET, Ifindex: index, State: unix.NUD_PERMANENT, Type: unix.RTN_UNICAST})
		w.AttrAddr(unix.NDA_DST, peer.Addr.Addr())
		w.Attr(unix.NDA_LLADDR, hardwareAddr(w.f.plan, peer))
	}
	for i := range n.Routes {
		w.route(n, &n.Routes[i])
	}
	for _, r := range n.Rules {
		w.Begin(unix.RTM_NEWRULE, createNew, "add rule from", r.From.String())
		rtnl.Put(&w.Batch, unix.RtMsg{Family: unix.AF_INET, Src_len: 32, Table: uint8(r.Table), Type: unix.FR_ACT_TO_TBL})
		w.AttrAddr(unix.FRA_SRC, r.From)
		w.AttrU32(unix.FRA_TABLE, uint32(r.Table))
		w.AttrU32(unix.FRA_PRIORITY, rulePriority)
	}
}

// tableOf is the kernel's number of a plan's table.
func tableOf(table int) uint32 {
	if table == 0 {
		return unix.RT_TABLE_MAIN
	}
	return uint32(table)
}

func (w *wiring) route(n *fabric.Node, r *fabric.Route) {
	table, header := tableOf(r.Table), unix.RtMsg{Family: unix.AF_INET, Protocol: unix.RTPROT_STATIC, Type: unix.RTN_UNICAST}
	header.Table, header.Dst_len = uint8(table), uint8(r.Dst.Bits())
	w.Begin(unix.RTM_NEWROUTE, createNew, "add route to", r.Dst.String())
	rtnl.Put(&w.Batch, header)
	w.AttrU32(unix.RTA_TABLE, table)
	if header.Dst_len > 0 {
		w.AttrAddr(unix.RTA_DST, r.Dst.Addr())
	}
	if r.Src.IsValid() {
		w.AttrAddr(unix.RTA_PREFSRC, r.Src)
	}
	if !n.IsSwitch() {
		// The sysctl does this on newer kernels; a metric counts only when locked.
		w.Nest(unix.RTA_METRICS)
		w.AttrU32(unix.RTAX_LOCK, 1<<unix.RTAX_RTO_MIN)
		w.AttrU32(unix.RTAX_RTO_MIN, rtoMinMillis)
		w.End()
	}
	ports := w.f.plan.Ports[n.ID]
	if len(r.NextHops) == 1 {
		w.AttrAddr(unix.RTA_GATEWAY, r.NextHops[0].Via)
		w.AttrU32(unix.RTA_OIF, ifindexOf(w.f.plan, ports[r.NextHops[0].Port]))
		return
	}
	w.Nest(unix.RTA_MULTIPATH)
	for _, nh := range r.NextHops {
		w.NextHop(ifindexOf(w.f.plan, ports[nh.Port]))
		w.AttrAddr(unix.RTA_GATEWAY, nh.Via)
		w.End()
	}
}
