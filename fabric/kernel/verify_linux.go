package kernel

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// Verify reads everything back from the kernel and compares it with the plan:
// interfaces, addresses, neighbours, shaping, filters, routes, rules and
// settings of every node, and the number of equal-cost paths of every pair of
// hosts by following the routes read. Differences are a *DiffersError.
func (f *Fabric) Verify(ctx context.Context) error {
	var diffs []Difference
	routes := make([][]kernelRoute, len(f.ns))
	// One thread serves all nodes: a thread per node would cost about 0.2 ms each.
	err := onThread(func() error {
		for i := range f.ns {
			if err := ctx.Err(); err != nil {
				return err
			}
			d, err := f.verifyNode(&f.plan.Nodes[i])
			if err == nil {
				routes[i], err = dumpRoutes(f.ns[i].conn)
			}
			if err != nil {
				return fmt.Errorf("verify %s: %w", f.ns[i].name, err)
			}
			diffs = append(diffs, d...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	d, err := f.verifyPaths(ctx, routes)
	if err != nil {
		return err
	}
	diffs = append(diffs, d...)
	if len(diffs) == 0 {
		diffs = f.verifyLookups()
	}
	if len(diffs) > 0 {
		return &DiffersError{Differences: diffs}
	}
	return nil
}

// verifyLookups asks the kernel to route one flow of every host, as packets
// would be. This finds routes that are as planned but lead elsewhere.
func (f *Fabric) verifyLookups() (diffs []Difference) {
	var hosts []fabric.NodeID
	for i := range f.plan.Nodes {
		if !f.plan.Nodes[i].IsSwitch() {
			hosts = append(hosts, fabric.NodeID(i))
		}
	}
	for i, src := range hosts {
		dst := hosts[(i+len(hosts)/2)%len(hosts)]
		if src == dst {
			continue
		}
		if _, err := f.Path(Flow{Src: src, Dst: dst, SrcPort: uint16(20_000 + i), DstPort: 5001}); err != nil {
			diffs = append(diffs, difference(&f.plan.Nodes[src], "path to "+f.plan.Nodes[dst].Name, "%v", err))
		}
	}
	return diffs
}

// verifyNode compares one namespace with the plan, and leaves the calling thread, which
// must be onThread's, there.
func (f *Fabric) verifyNode(n *fabric.Node) (diffs []Difference, err error) {
	ns, err := f.at(n.ID)
	if err != nil {
		return nil, err
	}
	for _, check := range []func(*namespace, *fabric.Node) ([]Difference, error){
		f.verifyLinks, f.verifyAddrs, f.verifyNeighbours, f.verifyShaping, f.verifyRoutes, f.verifyRules,
	} {
		d, err := check(ns, n)
		if err != nil {
			return nil, err
		}
		diffs = append(diffs, d...)
	}
	if err := enter(ns.handle, ns.name); err != nil {
		return nil, err
	}
	d, err := checkSysctls(f.plan, n, f.features)
	return append(diffs, d...), err
}

// difference puts one finding about a node's object into words.
func difference(n *fabric.Node, object, format string, args ...any) Difference {
	return Difference{Node: n.Name, Object: object, Text: fmt.Sprintf(format, args...)}
}

func (f *Fabric) verifyLinks(ns *namespace, n *fabric.Node) (diffs []Difference, err error) {
	links, err := dumpLinks(ns.conn)
	if err != nil {
		return nil, err
	}
	for _, p := range f.plan.Ports[n.ID] {
		object := "port " + p.Name
		i := slices.IndexFunc(links, func(l linkInfo) bool { return l.name == p.Name })
		if i < 0 {
			diffs = append(diffs, difference(n, object, "interface is missing"))
			continue
		}
		l := links[i]
		if want := ifindexOf(f.plan, p); l.index != want {
			diffs = append(diffs, difference(n, object, "index %d, want %d", l.index, want))
		}
		if l.flags&unix.IFF_UP == 0 {
			diffs = append(diffs, difference(n, object, "interface is down, want up"))
		} else if l.flags&unix.IFF_RUNNING == 0 {
			diffs = append(diffs, difference(n, object, "no carrier: the other end is down or gone"))
		}
		if l.mtu != fabric.MTU {
			diffs = append(diffs, difference(n, object, "mtu %d, want %d", l.mtu, fabric.MTU))
		}
		if p.GSOMaxSegs > 0 && l.gsoMaxSegs != uint32(p.GSOMaxSegs) {
			diffs = append(diffs, difference(n, object, "gso_max_segs %d, want %d", l.gsoMaxSegs, p.GSOMaxSegs))
		}
		if want := hardwareAddr(f.plan, p); l.hardware != string(want) {
			diffs = append(diffs, difference(n, object, "hardware address %x, want %x", l.hardware, want))
		}
	}
	if extra := len(links) - 1 - len(f.plan.Ports[n.ID]); extra > 0 {
		diffs = append(diffs, difference(n, "interfaces", "%d more than planned", extra))
	}
	return diffs, nil
}

func (f *Fabric) verifyAddrs(ns *namespace, n *fabric.Node) (diffs []Difference, err error) {
	type onLink struct {
		index uint32
		addr  netip.Prefix
	}
	var have map[onLink]bool
	var b rtnl.Batch
	b.Begin(unix.RTM_GETADDR, 0, "list", "addresses")
	b.U8(unix.AF_INET, 0, 0, 0)
	b.U32(0)
	err = ns.conn.Dump(&b, func() { have = map[onLink]bool{} }, func(m rtnl.Message) {
		local := rtnl.Find(rtnl.Skip(m.Payload, unix.SizeofIfAddrmsg), unix.IFA_LOCAL)
		if a, ok := netip.AddrFromSlice(local); ok && len(m.Payload) > 1 {
			have[onLink{rtnl.U32(m.Payload, 4), netip.PrefixFrom(a, int(m.Payload[1]))}] = true
		}
	})
	if err != nil {
		return nil, err
	}
	want := map[onLink]string{{loIndex, netip.MustParsePrefix("127.0.0.1/8")}: ""}
	check := func(o onLink, object string) {
		want[o] = object
		if !have[o] {
			diffs = append(diffs, difference(n, object, "address %s is missing", o.addr))
		}
	}
	for _, p := range f.plan.Ports[n.ID] {
		check(onLink{ifindexOf(f.plan, p), p.Addr}, "port "+p.Name)
	}
	for _, a := range n.Addrs {
		check(onLink{loIndex, hostPrefix(a)}, "lo")
	}
	var extra []Difference
	for o := range have {
		if _, ok := want[o]; !ok {
			extra = append(extra, difference(n, "addresses", "%s on interface %d is not planned", o.addr, o.index))
		}
	}
	slices.SortFunc(extra, func(a, b Difference) int { return strings.Compare(a.Text, b.Text) })
	return append(diffs, extra...), nil
}

func (f *Fabric) verifyNeighbours(ns *namespace, n *fabric.Node) (diffs []Difference, err error) {
	have := map[netip.Addr][]byte{}
	var b rtnl.Batch
	b.Begin(unix.RTM_GETNEIGH, 0, "list", "neighbours")
	b.U8(unix.AF_INET, 0)
	b.U16(0)
	b.U32(0)
	b.U16(0)
	b.U8(0, 0)
	err = ns.conn.Dump(&b, func() { clear(have) }, func(m rtnl.Message) {
		attrs := rtnl.Skip(m.Payload, unix.SizeofNdMsg)
		if a, ok := netip.AddrFromSlice(rtnl.Find(attrs, unix.NDA_DST)); ok && rtnl.U16(m.Payload, 8)&unix.NUD_PERMANENT != 0 {
			have[a] = bytes.Clone(rtnl.Find(attrs, unix.NDA_LLADDR))
		}
	})
	if err != nil {
		return nil, err
	}
	for _, p := range f.plan.Ports[n.ID] {
		peer := f.plan.Peer(p)
		if got, want := have[peer.Addr.Addr()], hardwareAddr(f.plan, peer); !bytes.Equal(got, want) {
			diffs = append(diffs, difference(n, "port "+p.Name, "neighbour %s has hardware address %x, want %x", peer.Addr.Addr(), got, want))
		}
	}
	return diffs, nil
}
