package kernel

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/bits"
	"net/netip"
	"slices"
	"sync"

	"github.com/dchest/siphash"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// fiveTuple is what a switch hashes.
type fiveTuple struct {
	src, dst     netip.Addr
	proto        uint8
	sport, dport uint16
}

// Path asks the kernel which path the packets of a flow take. The answer holds for
// the whole flow: switches hash addresses, protocol and ports, nothing else. Only
// switches with several next hops are asked, so it costs at most two requests of
// about 7 us.
func (f *Fabric) Path(fl Flow) (fabric.Path, error) {
	q, err := newPathQuery(f, fl)
	if err != nil {
		return nil, err
	}
	slots, err := q.run([]fiveTuple{q.first}, q.lookUp)
	if err != nil {
		return nil, err
	}
	return q.paths[slots[0]], nil
}

// PathPorts finds source ports by path: ports[k] holds want ports, ascending, from
// which a flow takes path k of plan.NICPaths. Ports are tried upwards from
// first.SrcPort. It is an error if 65535 is reached before every path has its ports.
// Paths are computed where the kernel is known to choose as computed, and looked up in
// the kernel elsewhere.
func (f *Fabric) PathPorts(first Flow, want int) (ports [][]uint16, err error) {
	q, err := newPathQuery(f, first)
	if err != nil {
		return nil, err
	}
	ports = make([][]uint16, len(q.paths))
	missing := want * len(q.paths)
	for next := int(max(first.SrcPort, 1)); missing > 0; {
		flows := make([]fiveTuple, 0, 2*missing)
		for ; len(flows) < 2*missing && next <= 65535; next++ {
			flows = append(flows, q.first)
			flows[len(flows)-1].sport = uint16(next)
		}
		if len(flows) == 0 {
			return nil, fmt.Errorf("source ports %d..65535 from %s to %s port %d: %d paths lack %d of %d ports each: begin lower or ask for fewer",
				first.SrcPort, f.plan.Nodes[first.Src].Name, f.plan.Nodes[first.Dst].Name, first.DstPort, len(q.paths), missing, want)
		}
		slots, err := q.run(flows, q.compute)
		if err != nil {
			return nil, err
		}
		for i, slot := range slots {
			if len(ports[slot]) < want {
				ports[slot] = append(ports[slot], flows[i].sport)
				missing--
			}
		}
	}
	return ports, nil
}

// Slots finds which of plan.NICPaths a flow takes to each of the given destination ports,
// in their order. It computes and looks up as PathPorts does, so many flows cost little.
func (f *Fabric) Slots(fl Flow, dstPorts []uint16) ([]int, error) {
	q, err := newPathQuery(f, fl)
	if err != nil {
		return nil, err
	}
	flows := slices.Repeat([]fiveTuple{q.first}, len(dstPorts))
	for i, port := range dstPorts {
		flows[i].dport = port
	}
	return q.run(flows, q.compute)
}

// pathQuery finds which of the equal-cost paths between two NICs flows take.
type pathQuery struct {
	f     *Fabric
	paths []fabric.Path
	first fiveTuple // all flows have its addresses and protocol
	flows []fiveTuple
	slots []int // by flow: the position of its path
	// next says by which port the node of port in sends each of the flows that arrive there.
	next func(in *fabric.Port, which []int) ([]int, error)
}

func newPathQuery(f *Fabric, fl Flow) (*pathQuery, error) {
	for _, id := range []fabric.NodeID{fl.Src, fl.Dst} {
		if _, err := f.at(id); err != nil {
			return nil, err
		}
	}
	paths := f.plan.NICPaths(fl.Src, fl.Dst, fl.SrcNIC, fl.DstNIC)
	src, dst := &f.plan.Nodes[fl.Src], &f.plan.Nodes[fl.Dst]
	if len(paths) == 0 {
		return nil, fmt.Errorf("no path from %s NIC %d to %s NIC %d", src.Name, fl.SrcNIC, dst.Name, fl.DstNIC)
	}
	if fl.Proto == 0 {
		fl.Proto = unix.IPPROTO_TCP
	}
	first := fiveTuple{src: src.Addrs[fl.SrcNIC], dst: dst.Addrs[fl.DstNIC], proto: fl.Proto, sport: fl.SrcPort, dport: fl.DstPort}
	return &pathQuery{f: f, paths: paths, first: first}, nil
}

// run finds the slot of each flow. It descends the tree of choices: all flows start with
// all paths, and each switch that has several next hops splits them.
func (q *pathQuery) run(flows []fiveTuple, next func(*fabric.Port, []int) ([]int, error)) ([]int, error) {
	all := func(n int) []int {
		positions := make([]int, n)
		for i := range positions {
			positions[i] = i
		}
		return positions
	}
	q.flows, q.slots, q.next = flows, make([]int, len(flows)), next
	return q.slots, q.choose(all(len(q.paths)), all(len(flows)), 1)
}

// choose determines which candidate path each of the flows takes, from hop on.
func (q *pathQuery) choose(candidates, which []int, hop int) error {
	if len(candidates) == 1 || len(which) == 0 {
		for _, i := range which {
			q.slots[i] = candidates[0]
		}
		return nil
	}
	byPort := map[int][]int{} // egress port at this hop: candidates that leave there
	for _, c := range candidates {
		port := q.f.plan.Egress(q.paths[c][hop]).Index
		byPort[port] = append(byPort[port], c)
	}
	if len(byPort) == 1 {
		return q.choose(candidates, which, hop+1)
	}
	in := q.f.plan.Ingress(q.paths[candidates[0]][hop-1])
	chosen, err := q.next(in, which)
	if err != nil {
		return err
	}
	split := map[int][]int{}
	for k, i := range which {
		if byPort[chosen[k]] == nil {
			return fmt.Errorf("%s routes %s to %s out of port %d, which no equal-cost path has: the lab's routes were changed",
				q.f.ns[in.Node].name, q.first.src, q.first.dst, chosen[k])
		}
		split[chosen[k]] = append(split[chosen[k]], i)
	}
	for _, port := range slices.Sorted(maps.Keys(byPort)) {
		if err := q.choose(byPort[port], split[port], hop+1); err != nil {
			return err
		}
	}
	return nil
}

// lookUp asks the kernel where the node of port in would send flows that arrive there.
func (q *pathQuery) lookUp(in *fabric.Port, which []int) ([]int, error) {
	var b rtnl.Batch
	iif := ifindexOf(q.f.plan, in)
	for _, i := range which {
		fl := &q.flows[i]
		b.Begin(unix.RTM_GETROUTE, 0, "route", fl.dst.String())
		rtnl.Put(&b, unix.RtMsg{Family: unix.AF_INET, Dst_len: 32, Src_len: 32})
		b.AttrAddr(unix.RTA_DST, fl.dst)
		b.AttrAddr(unix.RTA_SRC, fl.src)
		b.AttrU32(unix.RTA_IIF, iif)
		b.Attr(unix.RTA_IP_PROTO, []byte{fl.proto})
		b.AttrBE16(unix.RTA_SPORT, fl.sport)
		b.AttrBE16(unix.RTA_DPORT, fl.dport)
	}
	ports := make([]int, len(which))
	ns := &q.f.ns[in.Node]
	err := ns.conn.Query(&b, func(k int, payload []byte) {
		_, attrs := rtnl.Split[unix.RtMsg](payload)
		ports[k] = portOf(rtnl.Get[uint32](rtnl.Find(attrs, unix.RTA_OIF)))
	})
	return ports, ns.wrap(err)
}

// compute is lookUp without the kernel, where the answer is known to equal the kernel's: the
// first flows over each route are computed and looked up.
func (q *pathQuery) compute(in *fabric.Port, which []int) ([]int, error) {
	n := &q.f.plan.Nodes[in.Node]
	key := hashedRoute{in.Node, routeTo(n, q.first.dst)}
	known := q.f.hashing.count(key, 0)
	if key.route < 0 || !q.f.features.HashSeed || known == refuted {
		return q.lookUp(in, which)
	}
	hops := n.Routes[key.route].NextHops
	ports := make([]int, len(which))
	for k, i := range which {
		ports[k] = hops[hopOf(multipathHash(n.HashSeed, &q.flows[i]), len(hops))].Port
	}
	if known >= confirmations {
		return ports, nil
	}
	sample := min(confirmations-known, len(which))
	asked, err := q.lookUp(in, which[:sample])
	if err != nil {
		return nil, err
	}
	if !slices.Equal(asked, ports[:sample]) {
		q.f.hashing.count(key, refuted)
		return q.lookUp(in, which)
	}
	q.f.hashing.count(key, sample)
	return ports, nil
}

// routeTo is the position of the switch's planned route to an address, -1 for none.
func routeTo(n *fabric.Node, dst netip.Addr) int {
	best := -1
	for i := range n.Routes {
		r := &n.Routes[i]
		if r.Table == 0 && r.Dst.Contains(dst) && (best < 0 || r.Dst.Bits() > n.Routes[best].Dst.Bits()) {
			best = i
		}
	}
	return best
}

const (
	// confirmations is how many flows the kernel must route as computed before the
	// computation is trusted for a route: a wrong one passes with a chance of at most 2^-24.
	confirmations = 24
	refuted       = -1
)

// hashing knows for which routes multipathHash does what the kernel does. It is safe for
// concurrent use.
type hashing struct {
	mu     sync.Mutex
	agreed map[hashedRoute]int // flows confirmed so far; refuted when the kernel disagreed
}

type hashedRoute struct {
	node  fabric.NodeID
	route int // in Plan.Nodes[node].Routes
}

// count adds flows on which the kernel agreed and returns how many there are. After
// refuted, because it disagreed on one, the answer is always refuted, whatever other
// goroutines add meanwhile.
func (s *hashing) count(r hashedRoute, flows int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case flows == refuted:
		s.agreed[r] = refuted
	case flows > 0 && s.agreed[r] != refuted:
		s.agreed[r] += flows
	}
	return s.agreed[r]
}

// The kernel's choice among equal-cost next hops, computed here: a lookup takes
// about 6 us per flow, computing about 50 ns, and a lab of a thousand GPUs needs the
// paths of two million flows. The layout below is the kernel's own (struct flow_keys
// of net/flow_dissector.h, from its hashed part on; multipath hash policy 3 in
// net/ipv4/route.c) and may change, so hashing trusts it only where the kernel has
// confirmed it.
const (
	hashedBytes  = 48
	hashProtoAt  = 2
	hashPortsAt  = 28
	hashAddrsAt  = 36
	hashRangeLog = 31 // the kernel compares 31 bits of the hash
)

// multipathHash is what a switch computes of a flow under policy 3 and fields5Tuple.
func multipathHash(seed uint32, fl *fiveTuple) uint32 {
	var keys [hashedBytes]byte
	keys[hashProtoAt] = fl.proto
	// Both directions of a flow have one hash: the smaller end, as the host reads the
	// bytes of the wire, comes first, for addresses and for ports separately.
	src, dst := fl.src.As4(), fl.dst.As4()
	if binary.NativeEndian.Uint32(dst[:]) < binary.NativeEndian.Uint32(src[:]) {
		src, dst = dst, src
	}
	copy(keys[hashAddrsAt:], src[:])
	copy(keys[hashAddrsAt+4:], dst[:])
	var from, to [2]byte
	binary.BigEndian.PutUint16(from[:], fl.sport)
	binary.BigEndian.PutUint16(to[:], fl.dport)
	if binary.NativeEndian.Uint16(to[:]) < binary.NativeEndian.Uint16(from[:]) {
		from, to = to, from
	}
	copy(keys[hashPortsAt:], from[:])
	copy(keys[hashPortsAt+2:], to[:])

	key := uint64(seed)<<32 | uint64(seed)
	outer := uint32(siphash.Hash(key, key, keys[:]))
	if outer == 0 {
		outer = 1
	}
	return jenkins(outer, 0) // the second word is for packets in a tunnel, and there is none
}

// hopOf is the position of the next hop that a hash chooses among n of equal weight.
func hopOf(hash uint32, n int) int {
	h := uint64(hash >> 1)
	for i := range n - 1 {
		if h < (uint64(i+1)<<hashRangeLog+uint64(n)/2)/uint64(n) {
			return i
		}
	}
	return n - 1
}

// jenkins is jhash_2words of linux/jhash.h with an initial value of 0.
func jenkins(a, b uint32) uint32 {
	const initial = 0xdeadbeef + 2<<2
	a, b = a+initial, b+initial
	c := uint32(initial)
	c = (c ^ b) - bits.RotateLeft32(b, 14)
	a = (a ^ c) - bits.RotateLeft32(c, 11)
	b = (b ^ a) - bits.RotateLeft32(a, 25)
	c = (c ^ b) - bits.RotateLeft32(b, 16)
	a = (a ^ c) - bits.RotateLeft32(c, 4)
	b = (b ^ a) - bits.RotateLeft32(a, 14)
	return (c ^ b) - bits.RotateLeft32(b, 24)
}
