package fabric

import (
	"fmt"
	"hash/fnv"
	"iter"
	"math"
	"net/netip"

	"github.com/netkvlab/netkvlab/scenarios"
)

// maxHostsPerRack is what one /24 per rack holds, without the network and
// broadcast addresses and a small reserve.
const maxHostsPerRack = 250

// firstNICTable is the routing table of NIC 0 on hosts with several NICs.
const firstNICTable = 100

// minEmulated is one byte per second, the least rate of a token bucket.
const minEmulated = 8

var anywhere = netip.PrefixFrom(netip.IPv4Unspecified(), 0)

// New plans the fabric of a scenario at a resolved scale. The scenario must be one that
// scenarios.Load gives or Validate accepts, with its defaults written out; scale.Rate and
// scale.Time must be positive. An error names the scenario's field and range.
func New(s *scenarios.Scenario, scale scenarios.Scale) (*Plan, error) {
	if s == nil {
		return nil, fmt.Errorf("plan: scenario is nil")
	}
	b := &builder{scenario: s, perRack: s.Topology.InstancesPerRack(s.Model.TensorParallel), Plan: &Plan{
		Lab: s.Name, Scale: scale,
		Classes: s.Background.Enabled() && s.Oracle.Separation == scenarios.SeparationDSCP,
		KVDSCP:  s.Transfer.DSCP, BackgroundDSCP: s.Background.DSCP,
		Prefill: []NodeID{}, Decode: []NodeID{}, Background: []NodeID{},
		aggs: s.Topology.AggsPerPod, cores: s.Topology.CoresPerAgg, byName: map[string]NodeID{},
	}}
	if err := b.build(); err != nil {
		return nil, fmt.Errorf("plan %s: %w", s.Name, err)
	}
	return b.Plan, nil
}

// builder is a plan in the making.
type builder struct {
	*Plan
	scenario *scenarios.Scenario
	perRack  int // instances
}

func (b *builder) build() error {
	if err := b.check(); err != nil {
		return err
	}
	b.addNodes()
	if err := b.addLinks(); err != nil {
		return err
	}
	b.addRoutes()
	if err := b.shapePorts(); err != nil {
		return err
	}
	b.delayPorts()
	return b.markPorts()
}

// check refuses what cannot be planned.
func (b *builder) check() error {
	t, tp := &b.scenario.Topology, b.scenario.Model.TensorParallel
	for _, c := range []struct {
		field  string
		v, max int
	}{
		{"topology.pods", t.Pods, 64}, {"topology.racksPerPod", t.RacksPerPod, 64},
		{"topology.serversPerRack", t.ServersPerRack, 64}, {"topology.gpusPerServer", t.GPUsPerServer, 16},
		{"topology.aggsPerPod", t.AggsPerPod, 32}, {"topology.coresPerAgg", t.CoresPerAgg, 32},
		{"topology.nicsPerInstance", t.NICsPerInstance, 16}, {"model.tensorParallel", tp, 16},
	} {
		if c.v < 1 || c.v > c.max {
			return fmt.Errorf("%s is %d, want 1..%d", c.field, c.v, c.max)
		}
	}
	if t.GPUsPerServer%tp != 0 {
		return fmt.Errorf("topology.gpusPerServer is %d, want a multiple of model.tensorParallel (%d)", t.GPUsPerServer, tp)
	}
	for i, v := range []float64{b.Scale.Rate, b.Scale.Time} {
		if !(v > 0) || math.IsInf(v, 0) {
			return fmt.Errorf("%s is %v, want a finite number above 0 (auto must be resolved before planning)",
				[]string{"scale.rate", "scale.time"}[i], v)
		}
	}
	need := b.perRack * t.NICsPerInstance
	if b.scenario.Background.Enabled() {
		need++
	}
	if need > maxHostsPerRack {
		return fmt.Errorf("a rack needs %d host addresses, want at most %d: lower serversPerRack, gpusPerServer or nicsPerInstance",
			need, maxHostsPerRack)
	}
	return nil
}

func (b *builder) addNode(n Node) {
	n.ID = NodeID(len(b.Nodes))
	if n.IsSwitch() {
		n.HashSeed = hashSeed(n.Name)
	}
	b.Nodes = append(b.Nodes, n)
	b.byName[n.Name] = n.ID
}

// hashSeed gives each switch its own ECMP seed: with equal seeds the second
// layer repeats the choice of the first, and half of the core is unused. The seed
// depends on the name alone, so ports chosen for a path remain valid.
func hashSeed(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))    // never fails, by hash.Hash
	return max(1, h.Sum32()) // 0 would mean the boot's random seed, the same for all
}

func (b *builder) addNodes() {
	t, names := &b.scenario.Topology, b.scenario.InstanceNames()
	perServer := b.perRack / t.ServersPerRack
	for i, role := range b.scenario.Roles() {
		n := Node{
			Name: names[i], Kind: KindInstance, Index: i, Group: -1, Pod: i / b.perRack / t.RacksPerPod,
			Rack: i / b.perRack % t.RacksPerPod, Server: i / perServer % t.ServersPerRack,
		}
		for nic := range t.NICsPerInstance {
			n.Addrs = append(n.Addrs, address(n.Pod, n.Rack, 1+i%b.perRack*t.NICsPerInstance+nic))
		}
		switch role {
		case scenarios.RolePrefill:
			n.Role, b.Prefill = RolePrefill, append(b.Prefill, NodeID(i))
		case scenarios.RoleDecode:
			n.Role, b.Decode = RoleDecode, append(b.Decode, NodeID(i))
		}
		b.addNode(n)
	}
	if b.scenario.Background.Enabled() {
		for pod, rack := range grid(t.Pods, t.RacksPerPod) {
			b.Background = append(b.Background, NodeID(len(b.Nodes)))
			b.addNode(Node{
				Name: fmt.Sprintf("b%d-%d", pod, rack), Kind: KindBackground, Pod: pod, Rack: rack, Server: -1, Group: -1,
				Addrs: []netip.Addr{address(pod, rack, 1+b.perRack*t.NICsPerInstance)},
			})
		}
	}
	for pod, rack := range grid(t.Pods, t.RacksPerPod) {
		b.addNode(Node{Name: fmt.Sprintf("tor%d-%d", pod, rack), Kind: KindToR, Pod: pod, Rack: rack, Server: -1, Group: -1, Index: rack})
	}
	for pod, agg := range grid(t.Pods, b.aggs) {
		b.addNode(Node{Name: fmt.Sprintf("agg%d-%d", pod, agg), Kind: KindAgg, Pod: pod, Rack: -1, Server: -1, Group: -1, Index: agg})
	}
	for group, core := range grid(b.aggs, b.cores) {
		b.addNode(Node{Name: fmt.Sprintf("core%d-%d", group, core), Kind: KindCore, Pod: -1, Rack: -1, Server: -1, Group: group, Index: core})
	}
}

// grid yields all pairs below two counts, by the first number.
func grid(n, m int) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for i := range n * m {
			if !yield(i/m, i%m) {
				return
			}
		}
	}
}

// address is 10.pod.rack.n.
func address(pod, rack, n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(pod), byte(rack), byte(n)})
}

// addLinks wires the tree bottom up, then the NVLinks.
func (b *builder) addLinks() error {
	t := &b.scenario.Topology
	b.rates = [4]BitsPerSecond{t.NVLinkRate, t.NICRate, t.LinkRates.RackUplink, t.LinkRates.CoreLink}
	perServer, racks := b.perRack/t.ServersPerRack, t.Pods*t.RacksPerPod
	var emulated [4]BitsPerSecond
	for tier, rate := range b.rates {
		e := math.Round(float64(rate) / b.Scale.Rate / b.Scale.Time)
		if e < minEmulated && (tier > 0 || perServer > 1) {
			field := [...]string{"nvlinkRate", "nicRate", "linkRates.rackUplink", "linkRates.coreLink"}[tier]
			return fmt.Errorf("topology.%s is %d bit/s, which scale.rate %v and scale.time %v turn into %v bit/s, want at least %d",
				field, rate, b.Scale.Rate, b.Scale.Time, e, minEmulated)
		}
		emulated[tier] = BitsPerSecond(e)
	}
	join := func(tier, lower, upper int) {
		id := LinkID(len(b.Links))
		b.Links = append(b.Links, Link{
			ID: id, Tier: tier, Rate: b.rates[tier], RateEmulated: emulated[tier],
			A: Port{Node: NodeID(lower), Addr: linkAddr(2 * id)}, B: Port{Node: NodeID(upper), Addr: linkAddr(2*id + 1)},
		})
	}
	// The first nodes of a kind, in the order of addNodes.
	background := racks * b.perRack
	tors := background + len(b.Background)
	aggs := tors + racks
	cores := aggs + t.Pods*b.aggs
	for rack := range racks {
		for i := range b.perRack * t.NICsPerInstance {
			join(1, rack*b.perRack+i/t.NICsPerInstance, tors+rack)
		}
		if len(b.Background) > 0 {
			join(1, background+rack, tors+rack)
		}
	}
	for rack, agg := range grid(racks, b.aggs) {
		join(2, tors+rack, aggs+rack/t.RacksPerPod*b.aggs+agg)
	}
	for agg, core := range grid(t.Pods*b.aggs, b.cores) {
		join(3, aggs+agg, cores+agg%b.aggs*b.cores+core)
	}
	for server := 0; server < background; server += perServer {
		for i, j := range grid(perServer, perServer) {
			if i < j {
				join(0, server+i, server+j)
			}
		}
	}
	b.addPorts()
	return nil
}

// linkAddr is an address out of 10.128.0.0/9, in a /31 with the one of the link's other end.
func linkAddr(n LinkID) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 128 | byte(n>>16), byte(n >> 8), byte(n)}), 31)
}

// addPorts numbers and names the ports of each node in the order of the links.
func (b *builder) addPorts() {
	type kind struct {
		node   NodeID
		prefix string
	}
	named := map[kind]int{}
	b.Ports = make([][]*Port, len(b.Nodes))
	for l, port := range b.ends() {
		of := kind{port.Node, "d"}
		switch {
		case l.Tier == 0:
			of.prefix = "nv"
		case port == &l.A:
			of.prefix = "up"
		}
		port.Link, port.Index, port.Name = l.ID, len(b.Ports[port.Node]), fmt.Sprintf("%s%d", of.prefix, named[of])
		named[of]++
		b.Ports[port.Node] = append(b.Ports[port.Node], port)
	}
}

// addRoutes fills the routing table of every node. Going up, each layer has an
// equal-cost default route; going down, switches know the prefixes below them.
func (b *builder) addRoutes() {
	for i := range b.Nodes {
		if n := &b.Nodes[i]; n.IsSwitch() {
			b.switchRoutes(n)
		} else {
			b.hostRoutes(n)
		}
	}
}

// hostRoutes: a default route into the rack, and server neighbours over
// NVLink. With several NICs each NIC has its own table, chosen by the source
// address. It repeats the NVLink routes, because a rule's table is searched before main.
func (b *builder) hostRoutes(n *Node) {
	tables := []int{0}
	if len(n.Addrs) > 1 {
		for nic, addr := range n.Addrs {
			tables = append(tables, firstNICTable+nic)
			n.Rules = append(n.Rules, Rule{From: addr, Table: firstNICTable + nic})
		}
	}
	ports := b.Ports[n.ID]
	for _, table := range tables {
		nic := max(0, table-firstNICTable)
		add := func(dst netip.Prefix, port *Port) {
			n.Routes = append(n.Routes, Route{Dst: dst, Src: n.Addrs[nic], Table: table, NextHops: []NextHop{b.nextHop(port)}})
		}
		add(anywhere, ports[nic])
		for _, nvlink := range ports[len(n.Addrs):] {
			for _, addr := range b.Nodes[b.Peer(nvlink).Node].Addrs {
				add(netip.PrefixFrom(addr, 32), nvlink)
			}
		}
	}
}

// switchRoutes: one /32 per host address at the rack, one /24 per rack in the pod, one /16
// per pod at the core, and the default route over all uplinks.
func (b *builder) switchRoutes(n *Node) {
	up := Route{Dst: anywhere}
	for _, port := range b.Ports[n.ID] {
		hop, peer := b.nextHop(port), b.Peer(port)
		below := &b.Nodes[peer.Node]
		r := Route{NextHops: []NextHop{hop}}
		switch {
		case below.Kind > n.Kind:
			up.NextHops = append(up.NextHops, hop)
			continue
		case n.Kind == KindToR:
			r.Dst = netip.PrefixFrom(below.Addrs[peer.Index], 32)
		case n.Kind == KindAgg:
			r.Dst = netip.PrefixFrom(address(below.Pod, below.Rack, 0), 24)
		default:
			r.Dst = netip.PrefixFrom(address(below.Pod, 0, 0), 16)
		}
		n.Routes = append(n.Routes, r)
	}
	if len(up.NextHops) > 0 {
		n.Routes = append(n.Routes, up)
	}
}

func (b *builder) nextHop(port *Port) NextHop {
	return NextHop{Port: port.Index, Via: b.Peer(port).Addr.Addr()}
}
