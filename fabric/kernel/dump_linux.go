package kernel

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// linkInfo is an interface as the kernel reports it.
type linkInfo struct {
	index, flags uint32
	name         string
	mtu          uint32
	operState    uint8
	gsoMaxSegs   uint32
	hardware     string // raw bytes
}

func dumpLinks(c *rtnl.Conn) (links []linkInfo, err error) {
	err = c.Dump(unix.RTM_GETLINK, "links", rtnl.Raw(&unix.IfInfomsg{}), func() { links = nil }, func(payload []byte) {
		links = append(links, parseLink(payload))
	})
	return links, err
}

func parseLink(payload []byte) linkInfo {
	m, attrs := rtnl.Split[unix.IfInfomsg](payload)
	l := linkInfo{index: uint32(m.Index), flags: m.Flags}
	rtnl.Attrs(attrs, func(typ uint16, v []byte) {
		switch typ {
		case unix.IFLA_IFNAME:
			l.name = rtnl.String(v)
		case unix.IFLA_MTU:
			l.mtu = rtnl.Get[uint32](v)
		case unix.IFLA_OPERSTATE:
			l.operState = rtnl.Get[uint8](v)
		case unix.IFLA_GSO_MAX_SEGS:
			l.gsoMaxSegs = rtnl.Get[uint32](v)
		case unix.IFLA_ADDRESS:
			l.hardware = string(v)
		}
	})
	return l
}

// carries reports whether an interface can send.
func (l *linkInfo) carries() bool {
	const operUp = 6 // IF_OPER_UP of linux/if.h
	return l.flags&unix.IFF_RUNNING != 0 && l.operState == operUp
}

// kernelRoute is a route as the kernel reports it, without the local and
// connected ones that it adds by itself.
type kernelRoute struct {
	typ    uint8 // RTN_UNICAST, or one that drops
	dst    netip.Prefix
	src    netip.Addr
	table  uint32
	hops   []kernelHop
	rtoMin uint32 // milliseconds, 0 when not locked
}

type kernelHop struct {
	oif   uint32
	via   netip.Addr
	flags uint8
}

func (h kernelHop) dead() bool { return h.flags&(unix.RTNH_F_DEAD|unix.RTNH_F_LINKDOWN) != 0 }

func dumpRoutes(c *rtnl.Conn) (routes []kernelRoute, err error) {
	header := rtnl.Raw(&unix.RtMsg{Family: unix.AF_INET})
	err = c.Dump(unix.RTM_GETROUTE, "routes", header, func() { routes = nil }, func(payload []byte) {
		if m, attrs := rtnl.Split[unix.RtMsg](payload); m.Protocol != unix.RTPROT_KERNEL {
			routes = append(routes, parseRoute(m, attrs))
		}
	})
	return routes, err
}

func parseRoute(m unix.RtMsg, attrs []byte) kernelRoute {
	r := kernelRoute{table: uint32(m.Table), typ: m.Type}
	dst := netip.IPv4Unspecified()
	single := kernelHop{flags: uint8(m.Flags)}
	rtnl.Attrs(attrs, func(typ uint16, v []byte) {
		switch typ {
		case unix.RTA_DST:
			dst, _ = netip.AddrFromSlice(v)
		case unix.RTA_PREFSRC:
			r.src, _ = netip.AddrFromSlice(v)
		case unix.RTA_TABLE:
			r.table = rtnl.Get[uint32](v)
		case unix.RTA_OIF:
			single.oif = rtnl.Get[uint32](v)
		case unix.RTA_GATEWAY:
			single.via, _ = netip.AddrFromSlice(v)
		case unix.RTA_MULTIPATH:
			r.hops = parseHops(v)
		case unix.RTA_METRICS:
			if rtnl.Get[uint32](rtnl.Find(v, unix.RTAX_LOCK))&(1<<unix.RTAX_RTO_MIN) != 0 {
				r.rtoMin = rtnl.Get[uint32](rtnl.Find(v, unix.RTAX_RTO_MIN))
			}
		}
	})
	if r.hops == nil {
		r.hops = []kernelHop{single}
	}
	r.dst = netip.PrefixFrom(dst, int(m.Dst_len))
	return r
}

func parseHops(v []byte) (hops []kernelHop) {
	for len(v) >= unix.SizeofRtNexthop {
		m, attrs := rtnl.Split[unix.RtNexthop](v)
		if m.Len < unix.SizeofRtNexthop || int(m.Len) > len(v) {
			return hops
		}
		h := kernelHop{oif: uint32(m.Ifindex), flags: m.Flags}
		h.via, _ = netip.AddrFromSlice(rtnl.Find(attrs[:int(m.Len)-unix.SizeofRtNexthop], unix.RTA_GATEWAY))
		hops = append(hops, h)
		v = rtnl.Next(v, int(m.Len))
	}
	return hops
}

// walk follows routes of the main table to a host's first address.
type walk struct {
	plan   *fabric.Plan
	routes [][]kernelRoute // by node
	dst    *fabric.Node
	ways   []int // by node: the number of ways to dst, -1 unknown
}

// maxHops is more than any path has: a longer walk is a loop.
const maxHops = 8

// from counts the ways from a node; 0 where there is no route, or routes form a loop.
func (w *walk) from(node fabric.NodeID, depth int) int {
	if node == w.dst.ID {
		return 1
	}
	if w.ways[node] >= 0 {
		return w.ways[node]
	}
	var best kernelRoute // its prefix is less specific than any
	for _, r := range w.routes[node] {
		if r.table == unix.RT_TABLE_MAIN && r.dst.Contains(w.dst.Addrs[0]) && r.dst.Bits() > best.dst.Bits() {
			best = r
		}
	}
	n := 0
	for _, h := range best.hops {
		port := portOf(h.oif)
		if depth >= maxHops || port < 0 || port >= len(w.plan.Ports[node]) || h.dead() {
			continue
		}
		if peer := w.plan.Peer(w.plan.Ports[node][port]); peer.Addr.Addr() == h.via {
			n += w.from(peer.Node, depth+1)
		}
	}
	w.ways[node] = n
	return n
}
