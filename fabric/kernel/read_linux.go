package kernel

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/tc"
)

// Counters reads the egress counters of every port, in plan order: node by
// node, port by port. A dump takes about 30 us per node. All counters of one node
// are from one instant, those of different nodes are not. It is an error, which names
// the port, if a port's qdisc is gone.
func (f *Fabric) Counters() ([]PortCounters, error) {
	all := make([]PortCounters, 0, 2*len(f.plan.Links))
	for i := range f.ns {
		ports, err := f.CountersOf(fabric.NodeID(i))
		if err != nil {
			return nil, err
		}
		all = append(all, ports...)
	}
	return all, nil
}

const (
	// promptly is how long reading one node takes at most, unless this program is kept
	// from the CPU meanwhile: then the instant of the counters is unknown.
	promptly    = 2 * time.Millisecond
	promptTries = 5
)

// CountersOf is Counters of one node. It tries a few times until one read takes at most
// promptly.
func (f *Fabric) CountersOf(id fabric.NodeID) ([]PortCounters, error) {
	ns, err := f.at(id)
	if err != nil {
		return nil, err
	}
	ports := f.plan.Ports[id]
	all, seen := make([]PortCounters, len(ports)), make([]bool, len(ports))
	reset := func() {
		clear(all)
		clear(seen)
	}
	var at time.Time
	for range promptTries {
		start := time.Now()
		err := tc.Dump(ns.conn, tc.Qdisc, nl.TcMsg{}, reset, func(m tc.Message) {
			if i := portOf(uint32(m.Ifindex)); i >= 0 && i < len(ports) {
				all[i].take(m)
				shapes := tc.Handle(m.Handle) == rootHandle && tc.Handle(m.Parent) == shaperParent(f.features.delays(ports[i]))
				seen[i] = seen[i] || shapes
			}
		})
		if err != nil {
			return nil, fmt.Errorf("counters of %s: %w", ns.name, err)
		}
		if at = time.Now(); at.Sub(start) <= promptly {
			break
		}
	}
	for i, port := range ports {
		if !seen[i] {
			return nil, fmt.Errorf("counters of %s: port %s has lost its qdisc", ns.name, port.Name)
		}
		all[i].Node, all[i].Port, all[i].At = int(id), i, at
	}
	return all, nil
}

// take stores a qdisc's counters where they belong. The shaper has the port's, except
// for marks, which its queues make.
func (p *PortCounters) take(m tc.Message) {
	c, handle, parent := parseStats(m.Stats), tc.Handle(m.Handle), tc.Handle(m.Parent)
	kind := string(m.Kind)
	if kind == "red" {
		x := rtnl.Get[struct{ early, pdrop, other, marked uint32 }](rtnl.Find(m.Stats, nl.TCA_STATS_APP)) // tc_red_xstats
		c.Marks = uint64(x.marked)
		p.Marks += c.Marks
	}
	switch {
	case handle == rootHandle:
		c.Marks = p.Marks
		p.QueueCounters = c
	case kind != "red" && kind != "bfifo" && kind != "htb": // not the planned kind
	case parent == rootHandle|minorKV:
		p.KV = c
	case parent == rootHandle|minorBack:
		p.Background = c
	case parent == rootHandle|minorOther:
		p.Other = c
	}
}

// parseStats reads gnet_stats: the packet count has 64 bits only where it
// would wrap or the kernel always sends it.
func parseStats(p []byte) (c QueueCounters) {
	wide := false
	rtnl.Attrs(p, func(typ uint16, v []byte) {
		switch typ {
		case nl.TCA_STATS_BASIC:
			basic := rtnl.Get[netlink.GnetStatsBasic](v)
			c.Bytes = basic.Bytes
			if !wide {
				c.Packets = uint64(basic.Packets)
			}
		case nl.TCA_STATS_PKT64:
			c.Packets, wide = rtnl.Get[uint64](v), true
		case nl.TCA_STATS_QUEUE:
			q := rtnl.Get[netlink.GnetStatsQueue](v)
			c.BacklogPackets, c.BacklogBytes, c.Drops = uint64(q.Qlen), uint64(q.Backlog), uint64(q.Drops)
		}
	})
	return c
}

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
	const maxHops = 8 // more than any path has: a longer walk is a loop
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
