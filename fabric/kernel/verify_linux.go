package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/tc"
)

// Verify reads everything back from the kernel and compares it with the plan:
// interfaces, addresses, neighbours, shaping, filters, routes, rules and
// settings of every node, and the number of equal-cost paths of every pair of
// hosts by following the routes read. Differences are a *DiffersError.
func (f *Fabric) Verify(ctx context.Context) error {
	if _, err := f.at(0); err != nil {
		return err
	}
	v := newVerifier(f)
	if err := v.nodes(ctx, "verify"); err != nil {
		return err
	}
	if err := v.paths(ctx); err != nil {
		return err
	}
	if len(v.diffs) == 0 {
		v.lookups()
	}
	if len(v.diffs) > 0 {
		return &DiffersError{Differences: v.diffs}
	}
	return nil
}

// verifier compares namespaces with the plan.
type verifier struct {
	f       *Fabric
	routes  [][]kernelRoute // by node, as read
	diffs   []Difference
	missing []string // planned interfaces: "NODE port NAME"
}

func newVerifier(f *Fabric) *verifier {
	return &verifier{f: f, routes: make([][]kernelRoute, len(f.ns))}
}

// nodes compares all namespaces that are open. One thread serves them: a thread per node
// would cost about 0.2 ms each.
func (v *verifier) nodes(ctx context.Context, doing string) error {
	checks := []func(*namespace, *fabric.Node) error{v.links, v.addrs, v.neighbours, v.shaping, v.routesOf, v.rules, v.sysctls}
	return onThread(func() error {
		for i := range v.f.ns {
			ns := &v.f.ns[i]
			if !ns.handle.IsOpen() {
				continue
			}
			for _, check := range checks {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := check(ns, &v.f.plan.Nodes[i]); err != nil {
					return fmt.Errorf("%s %s: %w", doing, ns.name, err)
				}
			}
		}
		return nil
	})
}

// differs records one finding about a node's object.
func (v *verifier) differs(n *fabric.Node, object, format string, args ...any) {
	v.diffs = append(v.diffs, Difference{Node: n.Name, Object: object, Text: fmt.Sprintf(format, args...)})
}

// compare records a difference between two values, which the format puts into words.
func (v *verifier) compare(n *fabric.Node, object, format string, got, want any) {
	if got != want {
		v.differs(n, object, format, got, want)
	}
}

func (v *verifier) links(ns *namespace, n *fabric.Node) error {
	links, err := dumpLinks(ns.conn)
	if err != nil {
		return err
	}
	ports := v.f.plan.Ports[n.ID]
	for _, p := range ports {
		object := "port " + p.Name
		i := slices.IndexFunc(links, func(l linkInfo) bool { return l.name == p.Name })
		if i < 0 {
			v.missing = append(v.missing, n.Name+" "+object)
			v.differs(n, object, "interface is missing")
			continue
		}
		l := links[i]
		v.compare(n, object, "index %d, want %d", l.index, ifindexOf(v.f.plan, p))
		if l.flags&unix.IFF_UP == 0 {
			v.differs(n, object, "interface is down, want up")
		} else if l.flags&unix.IFF_RUNNING == 0 {
			v.differs(n, object, "no carrier: the other end is down or gone")
		}
		v.compare(n, object, "mtu %d, want %d", l.mtu, uint32(fabric.MTU))
		if p.GSOMaxSegs > 0 {
			v.compare(n, object, "gso_max_segs %d, want %d", l.gsoMaxSegs, uint32(p.GSOMaxSegs))
		}
		v.compare(n, object, "hardware address %x, want %x", l.hardware, string(hardwareAddr(v.f.plan, p)))
	}
	if extra := len(links) - 1 - len(ports); extra > 0 {
		v.differs(n, "interfaces", "%d more than planned", extra)
	}
	return nil
}

func (v *verifier) addrs(ns *namespace, n *fabric.Node) error {
	type onLink struct {
		index uint32
		addr  netip.Prefix
	}
	have := map[onLink]bool{}
	header := rtnl.Raw(&unix.IfAddrmsg{Family: unix.AF_INET})
	err := ns.conn.Dump(unix.RTM_GETADDR, "addresses", header, func() { clear(have) }, func(payload []byte) {
		m, attrs := rtnl.Split[unix.IfAddrmsg](payload)
		if a, ok := netip.AddrFromSlice(rtnl.Find(attrs, unix.IFA_LOCAL)); ok {
			have[onLink{m.Index, netip.PrefixFrom(a, int(m.Prefixlen))}] = true
		}
	})
	if err != nil {
		return err
	}
	check := func(object string, o onLink) {
		if !have[o] {
			v.differs(n, object, "address %s is missing", o.addr)
		}
		delete(have, o)
	}
	for _, p := range v.f.plan.Ports[n.ID] {
		check("port "+p.Name, onLink{ifindexOf(v.f.plan, p), p.Addr})
	}
	for _, a := range n.Addrs {
		check("lo", onLink{loIndex, netip.PrefixFrom(a, 32)})
	}
	delete(have, onLink{loIndex, netip.MustParsePrefix("127.0.0.1/8")})
	var extra []string
	for o := range have {
		extra = append(extra, fmt.Sprintf("%s on interface %d is not planned", o.addr, o.index))
	}
	slices.Sort(extra)
	for _, text := range extra {
		v.differs(n, "addresses", "%s", text)
	}
	return nil
}

func (v *verifier) neighbours(ns *namespace, n *fabric.Node) error {
	have := map[netip.Addr]string{}
	header := rtnl.Raw(&unix.NdMsg{Family: unix.AF_INET})
	err := ns.conn.Dump(unix.RTM_GETNEIGH, "neighbours", header, func() { clear(have) }, func(payload []byte) {
		m, attrs := rtnl.Split[unix.NdMsg](payload)
		if a, ok := netip.AddrFromSlice(rtnl.Find(attrs, unix.NDA_DST)); ok && m.State&unix.NUD_PERMANENT != 0 {
			have[a] = string(rtnl.Find(attrs, unix.NDA_LLADDR))
		}
	})
	if err != nil {
		return err
	}
	for _, p := range v.f.plan.Ports[n.ID] {
		peer := v.f.plan.Peer(p)
		addr, want := peer.Addr.Addr(), string(hardwareAddr(v.f.plan, peer))
		v.compare(n, "port "+p.Name, "neighbour "+addr.String()+" has hardware address %x, want %x", have[addr], want)
	}
	return nil
}

// shaping compares every port's queueing with the plan's.
func (v *verifier) shaping(ns *namespace, n *fabric.Node) error {
	trees, err := tc.Read(ns.conn)
	if err != nil {
		return err
	}
	for _, p := range v.f.plan.Ports[n.ID] {
		want := queueing(v.f.plan, &p.Shape, v.f.features.delays(p))
		for _, d := range trees[ifindexOf(v.f.plan, p)].Diff(want) {
			v.differs(n, "port "+p.Name, "%s", d)
		}
	}
	return nil
}

func (v *verifier) routesOf(ns *namespace, n *fabric.Node) error {
	routes, err := dumpRoutes(ns.conn)
	if err != nil {
		return err
	}
	v.routes[n.ID] = slices.Clone(routes)
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
			v.differs(n, object, "is missing")
			continue
		}
		v.route(n, object, &routes[at], want)
		routes = slices.Delete(routes, at, at+1)
	}
	for _, r := range routes {
		v.differs(n, "route "+r.dst.String(), "is not planned")
	}
	return nil
}

func (v *verifier) route(n *fabric.Node, object string, got *kernelRoute, want *fabric.Route) {
	text := func(hops []kernelHop) string {
		var parts []string
		for _, h := range hops {
			parts = append(parts, fmt.Sprintf("via %s dev %d", h.via, h.oif))
		}
		return strings.Join(parts, ", ")
	}
	var planned []kernelHop
	for _, nh := range want.NextHops {
		planned = append(planned, kernelHop{oif: ifindexOf(v.f.plan, v.f.plan.Ports[n.ID][nh.Port]), via: nh.Via})
	}
	if !slices.EqualFunc(planned, got.hops, func(a, b kernelHop) bool { return a.oif == b.oif && a.via == b.via }) {
		v.differs(n, object, "next hops %s, want %s", text(got.hops), text(planned))
	}
	for _, h := range got.hops {
		if h.dead() {
			v.differs(n, object, "next hop %s is dead", h.via)
		}
	}
	if want.Src.IsValid() {
		v.compare(n, object, "source %s, want %s", got.src, want.Src)
	}
	if !n.IsSwitch() {
		v.compare(n, object, "rto_min %d ms, want %d", got.rtoMin, uint32(rtoMinMillis))
	}
}

func (v *verifier) rules(ns *namespace, n *fabric.Node) error {
	if len(n.Rules) == 0 {
		return nil
	}
	have := map[fabric.Rule]bool{}
	header := rtnl.Raw(&unix.RtMsg{Family: unix.AF_INET})
	err := ns.conn.Dump(unix.RTM_GETRULE, "rules", header, func() { clear(have) }, func(payload []byte) {
		_, attrs := rtnl.Split[unix.RtMsg](payload)
		if from, ok := netip.AddrFromSlice(rtnl.Find(attrs, unix.FRA_SRC)); ok {
			have[fabric.Rule{From: from, Table: int(rtnl.Get[uint32](rtnl.Find(attrs, unix.FRA_TABLE)))}] = true
		}
	})
	for _, r := range n.Rules {
		if err == nil && !have[r] {
			v.differs(n, fmt.Sprintf("rule from %s table %d", r.From, r.Table), "is missing")
		}
	}
	return err
}

// sysctls leaves the calling thread, which must be onThread's, in the namespace.
func (v *verifier) sysctls(ns *namespace, n *fabric.Node) error {
	if err := ns.enter(); err != nil {
		return err
	}
	for _, s := range sysctls(v.f.plan, n, v.f.features) {
		b, err := os.ReadFile("/proc/sys/net/" + s.key)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("read net/%s: %w", s.key, err)
		}
		if got := strings.TrimSpace(string(b)); got != s.value && (got != "" || !s.optional) {
			v.differs(n, "sysctl net."+strings.ReplaceAll(s.key, "/", "."), "is %q, want %s", got, s.value)
		}
	}
	return nil
}

// paths counts the equal-cost paths of every pair of hosts by following
// the routes read from the kernel. Counts depend on the destination only, so
// each destination is one sweep.
func (v *verifier) paths(ctx context.Context) error {
	for _, d := range hosts(v.f.plan) {
		if err := ctx.Err(); err != nil {
			return err
		}
		dst := &v.f.plan.Nodes[d]
		w := walk{plan: v.f.plan, routes: v.routes, dst: dst, ways: slices.Repeat([]int{-1}, len(v.routes))}
		for _, s := range hosts(v.f.plan) {
			if s == d {
				continue
			}
			if got, want := w.from(s, 0), v.f.plan.PathCount(v.f.plan.Tier(s, d)); got != want {
				v.differs(&v.f.plan.Nodes[s], "to "+dst.Name, "%d equal-cost paths, want %d", got, want)
			}
		}
	}
	return nil
}

// lookups asks the kernel to route one flow of every host, as packets
// would be. This finds routes that are as planned but lead elsewhere.
func (v *verifier) lookups() {
	all := hosts(v.f.plan)
	for i, src := range all {
		dst := all[(i+len(all)/2)%len(all)]
		if src == dst {
			continue
		}
		if _, err := v.f.Path(Flow{Src: src, Dst: dst, SrcPort: uint16(20_000 + i), DstPort: 5001}); err != nil {
			v.differs(&v.f.plan.Nodes[src], "path to "+v.f.plan.Nodes[dst].Name, "%v", err)
		}
	}
}

// hosts are the nodes that do not forward.
func hosts(plan *fabric.Plan) (ids []fabric.NodeID) {
	for i := range plan.Nodes {
		if !plan.Nodes[i].IsSwitch() {
			ids = append(ids, plan.Nodes[i].ID)
		}
	}
	return ids
}
