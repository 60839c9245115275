package kernel

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

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
	var b rtnl.Batch
	b.Begin(unix.RTM_GETROUTE, 0, "list", "routes")
	b.U8(unix.AF_INET, 0, 0, 0, 0, 0, 0, 0)
	b.U32(0)
	err = c.Dump(&b, func() { routes = nil }, func(m rtnl.Message) {
		if len(m.Payload) >= unix.SizeofRtMsg && m.Payload[5] != unix.RTPROT_KERNEL {
			routes = append(routes, parseRoute(m.Payload))
		}
	})
	return routes, err
}

func parseRoute(p []byte) kernelRoute {
	r := kernelRoute{table: uint32(p[4]), typ: p[7]}
	dst := netip.IPv4Unspecified()
	single := kernelHop{flags: uint8(rtnl.U32(p, 8))}
	rtnl.Attrs(rtnl.Skip(p, unix.SizeofRtMsg), func(typ uint16, v []byte) {
		switch typ {
		case unix.RTA_DST:
			dst, _ = netip.AddrFromSlice(v)
		case unix.RTA_PREFSRC:
			r.src, _ = netip.AddrFromSlice(v)
		case unix.RTA_TABLE:
			r.table = rtnl.U32(v, 0)
		case unix.RTA_OIF:
			single.oif = rtnl.U32(v, 0)
		case unix.RTA_GATEWAY:
			single.via, _ = netip.AddrFromSlice(v)
		case unix.RTA_MULTIPATH:
			r.hops = parseHops(v)
		case unix.RTA_METRICS:
			if rtnl.U32(rtnl.Find(v, unix.RTAX_LOCK), 0)&(1<<unix.RTAX_RTO_MIN) != 0 {
				r.rtoMin = rtnl.U32(rtnl.Find(v, unix.RTAX_RTO_MIN), 0)
			}
		}
	})
	if r.hops == nil {
		r.hops = []kernelHop{single}
	}
	r.dst = netip.PrefixFrom(dst, int(p[1]))
	return r
}

// parseHops reads a sequence of rtnexthop: length, flags, weight, interface, attributes.
func parseHops(v []byte) (hops []kernelHop) {
	for len(v) >= unix.SizeofRtNexthop {
		length := int(rtnl.U16(v, 0))
		if length < unix.SizeofRtNexthop || length > len(v) {
			return hops
		}
		h := kernelHop{oif: rtnl.U32(v, 4), flags: v[2]}
		h.via, _ = netip.AddrFromSlice(rtnl.Find(v[unix.SizeofRtNexthop:length], unix.RTA_GATEWAY))
		hops = append(hops, h)
		v = v[min((length+3)&^3, len(v)):]
	}
	return hops
}

func (f *Fabric) verifyRoutes(ns *namespace, n *fabric.Node) (diffs []Difference, err error) {
	routes, err := dumpRoutes(ns.conn)
	if err != nil {
		return nil, err
	}
	for i := range n.Routes {
		want := &n.Routes[i]
		object := "route " + want.Dst.String()
		if want.Table != 0 {
			object += fmt.Sprintf(" table %d", want.Table)
		}
		at := slices.IndexFunc(routes, func(r kernelRoute) bool {
			return r.typ == unix.RTN_UNICAST && r.dst == want.Dst && r.table == tableOf(want.Table)
		})
		if at < 0 {
			diffs = append(diffs, difference(n, object, "is missing"))
			continue
		}
		for _, d := range f.compareRoute(n, want, &routes[at]) {
			diffs = append(diffs, difference(n, object, "%s", d))
		}
		routes = slices.Delete(routes, at, at+1)
	}
	for _, r := range routes {
		diffs = append(diffs, difference(n, "route "+r.dst.String(), "is not planned"))
	}
	return diffs, nil
}

func (f *Fabric) compareRoute(n *fabric.Node, want *fabric.Route, got *kernelRoute) (diffs []string) {
	text := func(hops []kernelHop) string {
		var parts []string
		for _, h := range hops {
			parts = append(parts, fmt.Sprintf("via %s dev %d", h.via, h.oif))
		}
		return strings.Join(parts, ", ")
	}
	var planned []kernelHop
	for _, nh := range want.NextHops {
		planned = append(planned, kernelHop{oif: ifindexOf(f.plan, f.plan.Ports[n.ID][nh.Port]), via: nh.Via})
	}
	same := slices.EqualFunc(planned, got.hops, func(a, b kernelHop) bool { return a.oif == b.oif && a.via == b.via })
	if !same {
		diffs = append(diffs, fmt.Sprintf("next hops %s, want %s", text(got.hops), text(planned)))
	}
	for _, h := range got.hops {
		if h.dead() {
			diffs = append(diffs, fmt.Sprintf("next hop %s is dead", h.via))
		}
	}
	if want.Src.IsValid() && got.src != want.Src {
		diffs = append(diffs, fmt.Sprintf("source %s, want %s", got.src, want.Src))
	}
	if !n.IsSwitch() && got.rtoMin != rtoMinMillis {
		diffs = append(diffs, fmt.Sprintf("rto_min %d ms, want %d", got.rtoMin, rtoMinMillis))
	}
	return diffs
}

func (f *Fabric) verifyRules(ns *namespace, n *fabric.Node) (diffs []Difference, err error) {
	if len(n.Rules) == 0 {
		return nil, nil
	}
	var have map[fabric.Rule]bool
	var b rtnl.Batch
	b.Begin(unix.RTM_GETRULE, 0, "list", "rules")
	b.U8(unix.AF_INET, 0, 0, 0, 0, 0, 0, 0)
	b.U32(0)
	err = ns.conn.Dump(&b, func() { have = map[fabric.Rule]bool{} }, func(m rtnl.Message) {
		attrs := rtnl.Skip(m.Payload, unix.SizeofRtMsg)
		if from, ok := netip.AddrFromSlice(rtnl.Find(attrs, unix.FRA_SRC)); ok {
			have[fabric.Rule{From: from, Table: int(rtnl.U32(rtnl.Find(attrs, unix.FRA_TABLE), 0))}] = true
		}
	})
	if err != nil {
		return nil, err
	}
	for _, r := range n.Rules {
		if !have[r] {
			diffs = append(diffs, difference(n, fmt.Sprintf("rule from %s table %d", r.From, r.Table), "is missing"))
		}
	}
	return diffs, nil
}

// verifyPaths counts the equal-cost paths of every pair of hosts by following
// the routes read from the kernel. Counts depend on the destination only, so
// each destination is one sweep.
func (f *Fabric) verifyPaths(ctx context.Context, routes [][]kernelRoute) (diffs []Difference, err error) {
	for d := range f.plan.Nodes {
		dst := &f.plan.Nodes[d]
		if dst.IsSwitch() {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ways := make([]int, len(f.plan.Nodes))
		for i := range ways {
			ways[i] = -1
		}
		for s := range f.plan.Nodes {
			src := &f.plan.Nodes[s]
			if src.IsSwitch() || s == d {
				continue
			}
			got, want := f.waysTo(routes, ways, src.ID, dst, 0), f.plan.PathCount(f.plan.Tier(src.ID, dst.ID))
			if got != want {
				diffs = append(diffs, difference(src, "to "+dst.Name, "%d equal-cost paths, want %d", got, want))
			}
		}
	}
	return diffs, nil
}

// maxHops is more than any path has: a longer walk is a loop.
const maxHops = 8

// waysTo counts the ways from a node to a host's first address; 0 where there is
// no route, or routes form a loop. ways remembers counts, -1 unknown.
func (f *Fabric) waysTo(routes [][]kernelRoute, ways []int, from fabric.NodeID, dst *fabric.Node, depth int) int {
	if from == dst.ID {
		return 1
	}
	if ways[from] >= 0 {
		return ways[from]
	}
	best := -1
	for i, r := range routes[from] {
		if r.table == unix.RT_TABLE_MAIN && r.dst.Contains(dst.Addrs[0]) && (best < 0 || r.dst.Bits() > routes[from][best].dst.Bits()) {
			best = i
		}
	}
	n := 0
	if best >= 0 && depth < maxHops {
		for _, h := range routes[from][best].hops {
			port := portOf(h.oif)
			if port < 0 || port >= len(f.plan.Ports[from]) || h.dead() {
				continue
			}
			peer := f.plan.Peer(f.plan.Ports[from][port])
			if peer.Addr.Addr() == h.via {
				n += f.waysTo(routes, ways, peer.Node, dst, depth+1)
			}
		}
	}
	ways[from] = n
	return n
}
