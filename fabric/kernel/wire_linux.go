package kernel

import (
	"net/netip"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// Attributes of linux/veth.h and linux/fib_rules.h that x/sys lacks.
const (
	vethInfoPeer = 1
	frActToTable = 1
	// rulePriority is below main's 32766, so that our rules come first.
	rulePriority = 1000
)

// create flags of requests for things that must not exist yet.
const createNew = unix.NLM_F_CREATE | unix.NLM_F_EXCL

// ifindexOf is a port's interface index. We choose it ourselves, so we need not list
// the namespaces to learn it: even at the lower end of a link, odd
// at the upper. The ends must differ: the kernel delays a carrier event by
// up to a second where an interface and its peer have the same index.
func ifindexOf(plan *fabric.Plan, p *fabric.Port) uint32 {
	index := uint32(2*p.Index + loIndex + 1)
	if plan.HopOf(p).Reverse {
		index++
	}
	return index
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
	end := byte(0)
	if plan.HopOf(p).Reverse {
		end = 1
	}
	l := uint32(p.Link)
	return []byte{hardwarePrefix[0], hardwarePrefix[1], byte(l >> 16), byte(l >> 8), byte(l), end}
}

// ifinfo appends an ifinfomsg; flags are set, other flags remain as they are.
func ifinfo(b *rtnl.Batch, index, flags uint32) {
	b.U8(unix.AF_UNSPEC, 0)
	b.U16(0)
	b.U32(index, flags, flags)
}

// linkAttrs appends what both ends of a new veth have in common.
func linkAttrs(b *rtnl.Batch, plan *fabric.Plan, p *fabric.Port) {
	b.AttrString(unix.IFLA_IFNAME, p.Name)
	b.Attr(unix.IFLA_ADDRESS, hardwareAddr(plan, p))
	b.AttrU32(unix.IFLA_MTU, fabric.MTU)
	b.AttrU32(unix.IFLA_NUM_TX_QUEUES, 1)
	b.AttrU32(unix.IFLA_NUM_RX_QUEUES, 1)
	if p.GSOMaxSegs > 0 {
		b.AttrU32(unix.IFLA_GSO_MAX_SEGS, uint32(p.GSOMaxSegs))
	}
}

// addVeth requests, in the namespace of end A, a link whose end B is created in
// the namespace peer.
func addVeth(b *rtnl.Batch, plan *fabric.Plan, l *fabric.Link, peer netns.NsHandle) {
	b.Begin(unix.RTM_NEWLINK, createNew, "create veth", plan.LinkName(fabric.Hop{Link: l.ID}))
	ifinfo(b, ifindexOf(plan, &l.A), 0)
	linkAttrs(b, plan, &l.A)
	b.Nest(unix.IFLA_LINKINFO)
	b.AttrString(unix.IFLA_INFO_KIND, "veth")
	b.Nest(unix.IFLA_INFO_DATA)
	b.Nest(vethInfoPeer)
	ifinfo(b, ifindexOf(plan, &l.B), 0)
	linkAttrs(b, plan, &l.B)
	b.AttrU32(unix.IFLA_NET_NS_FD, uint32(peer))
	b.End()
	b.End()
	b.End()
}

func setUp(b *rtnl.Batch, plan *fabric.Plan, p *fabric.Port) {
	b.Begin(unix.RTM_NEWLINK, 0, "raise", p.Name)
	ifinfo(b, ifindexOf(plan, p), unix.IFF_UP)
}

func addAddr(b *rtnl.Batch, index uint32, addr netip.Prefix) {
	b.Begin(unix.RTM_NEWADDR, createNew, "add address", addr.String())
	b.U8(unix.AF_INET, uint8(addr.Bits()), 0, unix.RT_SCOPE_UNIVERSE)
	b.U32(index)
	a := addr.Addr().As4()
	b.Attr(unix.IFA_LOCAL, a[:])
	b.Attr(unix.IFA_ADDRESS, a[:])
}

func addNeighbour(b *rtnl.Batch, plan *fabric.Plan, p *fabric.Port) {
	peer := plan.Peer(p)
	b.Begin(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, "add neighbour", peer.Addr.Addr().String())
	b.U8(unix.AF_INET, 0)
	b.U16(0)
	b.U32(ifindexOf(plan, p))
	b.U16(unix.NUD_PERMANENT)
	b.U8(0, unix.RTN_UNICAST)
	a := peer.Addr.Addr().As4()
	b.Attr(unix.NDA_DST, a[:])
	b.Attr(unix.NDA_LLADDR, hardwareAddr(plan, peer))
}

// tableOf is the kernel's number of a plan's table.
func tableOf(table int) uint32 {
	if table == 0 {
		return unix.RT_TABLE_MAIN
	}
	return uint32(table)
}

func addRoute(b *rtnl.Batch, plan *fabric.Plan, n *fabric.Node, r *fabric.Route) {
	b.Begin(unix.RTM_NEWROUTE, createNew, "add route to", r.Dst.String())
	b.U8(unix.AF_INET, uint8(r.Dst.Bits()), 0, 0,
		uint8(tableOf(r.Table)), unix.RTPROT_STATIC, unix.RT_SCOPE_UNIVERSE, unix.RTN_UNICAST)
	b.U32(0)
	b.AttrU32(unix.RTA_TABLE, tableOf(r.Table))
	if r.Dst.Bits() > 0 {
		a := r.Dst.Addr().As4()
		b.Attr(unix.RTA_DST, a[:])
	}
	if r.Src.IsValid() {
		a := r.Src.As4()
		b.Attr(unix.RTA_PREFSRC, a[:])
	}
	if !n.IsSwitch() {
		// The sysctl does this on newer kernels; a metric counts only when locked.
		b.Nest(unix.RTA_METRICS)
		b.AttrU32(unix.RTAX_LOCK, 1<<unix.RTAX_RTO_MIN)
		b.AttrU32(unix.RTAX_RTO_MIN, rtoMinMillis)
		b.End()
	}
	ports := plan.Ports[n.ID]
	if len(r.NextHops) == 1 {
		nh := r.NextHops[0]
		a := nh.Via.As4()
		b.Attr(unix.RTA_GATEWAY, a[:])
		b.AttrU32(unix.RTA_OIF, ifindexOf(plan, ports[nh.Port]))
		return
	}
	b.Nest(unix.RTA_MULTIPATH)
	for _, nh := range r.NextHops {
		b.NextHop(ifindexOf(plan, ports[nh.Port]))
		a := nh.Via.As4()
		b.Attr(unix.RTA_GATEWAY, a[:])
		b.End()
	}
	b.End()
}

func addRule(b *rtnl.Batch, r fabric.Rule) {
	b.Begin(unix.RTM_NEWRULE, createNew, "add rule from", r.From.String())
	b.U8(unix.AF_INET, 0, 32, 0, uint8(r.Table), 0, 0, frActToTable)
	b.U32(0)
	a := r.From.As4()
	b.Attr(unix.FRA_SRC, a[:])
	b.AttrU32(unix.FRA_TABLE, uint32(r.Table))
	b.AttrU32(unix.FRA_PRIORITY, rulePriority)
}
