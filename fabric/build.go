package fabric

import (
	"fmt"
	"hash/fnv"
	"math"
	"net/netip"

	"github.com/netkvlab/netkvlab/scenarios"
)

// maxHostsPerRack is what one /24 per rack holds, without the network and
// broadcast addresses and a small reserve.
const maxHostsPerRack = 250

// maxNodes bounds a plan: far above what one host can carry, far below what
// would exhaust its memory while planning.
const maxNodes = 1 << 16

// dims are the counts that locate nodes and links by arithmetic.
type dims struct {
	pods, racks, servers, perServer, aggs, cores, nics int
	background                                         bool
	nvlinks                                            bool
}

func (d dims) instances() int { return d.pods * d.racks * d.servers * d.perServer }
func (d dims) perRack() int   { return d.servers * d.perServer }

// New plans the fabric of a scenario at a resolved scale. The scenario must
// have its defaults written out (scenarios.Load does that); scale.Rate and
// scale.Time must be positive. An error names the scenario's field and range.
func New(s *scenarios.Scenario, scale scenarios.Scale) (*Plan, error) {
	if s == nil {
		return nil, fmt.Errorf("plan: scenario is nil")
	}
	d, err := dimensions(s, scale)
	if err != nil {
		return nil, fmt.Errorf("plan %s: %w", s.Name, err)
	}
	roles, err := placement(s, d)
	if err != nil {
		return nil, fmt.Errorf("plan %s: %w", s.Name, err)
	}
	p := &Plan{
		Lab: s.Name, Scale: scale, NICsPerInstance: d.nics, dims: d, nvlinkRate: s.Topology.NVLinkRate,
		Classes: s.Background.Enabled() && s.Oracle.Separation == "dscp",
		KVDSCP:  s.Transfer.DSCP, BackgroundDSCP: s.Background.DSCP,
	}
	p.addNodes(roles)
	if err := p.addLinks(s); err != nil {
		return nil, fmt.Errorf("plan %s: %w", s.Name, err)
	}
	p.index()
	if err := p.shapePorts(s); err != nil {
		return nil, fmt.Errorf("plan %s: %w", s.Name, err)
	}
	if err := p.delayPorts(&s.Topology.Latency); err != nil {
		return nil, fmt.Errorf("plan %s: %w", s.Name, err)
	}
	if err := p.markPorts(s); err != nil {
		return nil, fmt.Errorf("plan %s: %w", s.Name, err)
	}
	p.addRoutes()
	return p, nil
}

func dimensions(s *scenarios.Scenario, scale scenarios.Scale) (dims, error) {
	t := &s.Topology
	for _, c := range []struct {
		field string
		v     int
		max   int
	}{
		{"topology.pods", t.Pods, 64}, {"topology.racksPerPod", t.RacksPerPod, 64},
		{"topology.serversPerRack", t.ServersPerRack, 64}, {"topology.gpusPerServer", t.GPUsPerServer, 16},
		{"topology.aggsPerPod", t.AggsPerPod, 32}, {"topology.coresPerAgg", t.CoresPerAgg, 32},
		{"topology.nicsPerInstance", t.NICsPerInstance, 16}, {"model.tensorParallel", s.Model.TensorParallel, 16},
	} {
		if c.v < 1 || c.v > c.max {
			return dims{}, fmt.Errorf("%s is %d, want 1..%d", c.field, c.v, c.max)
		}
	}
	if t.GPUsPerServer%s.Model.TensorParallel != 0 {
		return dims{}, fmt.Errorf("topology.gpusPerServer is %d, want a multiple of model.tensorParallel (%d)",
			t.GPUsPerServer, s.Model.TensorParallel)
	}
	for _, c := range []struct {
		field string
		v     float64
	}{{"scale.rate", scale.Rate}, {"scale.time", scale.Time}} {
		if !(c.v > 0) || math.IsInf(c.v, 0) {
			return dims{}, fmt.Errorf("%s is %v, want a finite number above 0 (auto must be resolved before planning)", c.field, c.v)
		}
	}
	d := dims{
		pods: t.Pods, racks: t.RacksPerPod, servers: t.ServersPerRack,
		perServer: t.GPUsPerServer / s.Model.TensorParallel,
		aggs:      t.AggsPerPod, cores: t.CoresPerAgg, nics: t.NICsPerInstance,
		background: s.Background.Enabled(),
	}
	d.nvlinks = d.perServer > 1
	need := d.perRack() * d.nics
	if d.background {
		need++
	}
	if need > maxHostsPerRack {
		return dims{}, fmt.Errorf("a rack needs %d host addresses, want at most %d: lower serversPerRack, gpusPerServer or nicsPerInstance",
			need, maxHostsPerRack)
	}
	if n := d.instances() + 2*d.pods*d.racks + d.pods*d.aggs + d.aggs*d.cores; n > maxNodes {
		return dims{}, fmt.Errorf("the topology has up to %d nodes, want at most %d", n, maxNodes)
	}
	return d, nil
}

func (p *Plan) addNode(n Node) {
	n.ID = NodeID(len(p.Nodes))
	if n.IsSwitch() {
		n.HashSeed = hashSeed(n.Name)
	}
	p.Nodes = append(p.Nodes, n)
}

// hashSeed gives each switch its own ECMP seed: with equal seeds the second
// layer repeats the choice of the first, and half of the core is unused. The seed
// depends on the name alone, so ports chosen for a path remain valid.
func hashSeed(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name)) // never fails, by hash.Hash
	if v := h.Sum32(); v != 0 {
		return v
	}
	return 1 // 0 would mean the boot's random seed, the same for all
}

func (p *Plan) addNodes(roles []Role) {
	d := p.dims
	count := map[Role]int{}
	for i, role := range roles {
		server := i / d.perServer
		rack := server / d.servers
		n := Node{
			Name: fmt.Sprintf("%s%d", rolePrefix(role), count[role]), Kind: KindInstance, Role: role,
			Pod: rack / d.racks, Rack: rack % d.racks, Server: server % d.servers, Index: i, Group: -1,
		}
		count[role]++
		for nic := range d.nics {
			n.Addrs = append(n.Addrs, hostAddr(n.Pod, n.Rack, i%d.perRack()*d.nics+nic))
		}
		switch role {
		case RolePrefill:
			p.Prefill = append(p.Prefill, NodeID(len(p.Nodes)))
		case RoleDecode:
			p.Decode = append(p.Decode, NodeID(len(p.Nodes)))
		case RoleNone:
		}
		p.addNode(n)
	}
	for r := range d.pods * d.racks {
		if !d.background {
			break
		}
		pod, rack := r/d.racks, r%d.racks
		p.Background = append(p.Background, NodeID(len(p.Nodes)))
		p.addNode(Node{
			Name: fmt.Sprintf("b%d-%d", pod, rack), Kind: KindBackground, Pod: pod, Rack: rack, Server: -1, Group: -1,
			Addrs: []netip.Addr{hostAddr(pod, rack, d.perRack()*d.nics)},
		})
	}
	for r := range d.pods * d.racks {
		pod, rack := r/d.racks, r%d.racks
		p.addNode(Node{Name: fmt.Sprintf("tor%d-%d", pod, rack), Kind: KindToR, Pod: pod, Rack: rack, Server: -1, Group: -1, Index: rack})
	}
	for a := range d.pods * d.aggs {
		pod, agg := a/d.aggs, a%d.aggs
		p.addNode(Node{Name: fmt.Sprintf("agg%d-%d", pod, agg), Kind: KindAgg, Pod: pod, Rack: -1, Server: -1, Group: -1, Index: agg})
	}
	for c := range d.aggs * d.cores {
		group, core := c/d.cores, c%d.cores
		p.addNode(Node{Name: fmt.Sprintf("core%d-%d", group, core), Kind: KindCore, Pod: -1, Rack: -1, Server: -1, Group: group, Index: core})
	}
}

func rolePrefix(r Role) string {
	switch r {
	case RolePrefill:
		return "p"
	case RoleDecode:
		return "d"
	default:
		return "i"
	}
}

// hostAddr is 10.pod.rack.(n+1).
func hostAddr(pod, rack, n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(pod), byte(rack), byte(n + 1)})
}

// linkAddrs are the two addresses of link i, a /31 out of 10.128.0.0/9.
func linkAddrs(i int) (a, b netip.Prefix) {
	at := func(n uint32) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 128 | byte(n>>16), byte(n >> 8), byte(n)}), 31)
	}
	return at(uint32(2 * i)), at(uint32(2*i + 1))
}

// Node numbers by position, in the order of addNodes.
func (p *Plan) firstToR() int { return len(p.Nodes) - p.dims.switches() }

func (d dims) switches() int { return d.pods*d.racks + d.pods*d.aggs + d.aggs*d.cores }

func (p *Plan) tor(pod, rack int) NodeID { return NodeID(p.firstToR() + pod*p.dims.racks + rack) }
func (p *Plan) agg(pod, a int) NodeID {
	return NodeID(p.firstToR() + p.dims.pods*p.dims.racks + pod*p.dims.aggs + a)
}
func (p *Plan) core(a, c int) NodeID {
	return NodeID(p.firstToR() + p.dims.pods*(p.dims.racks+p.dims.aggs) + a*p.dims.cores + c)
}

// Link numbers by position, in the order of addLinks.
func (p *Plan) nicLink(host NodeID, nic int) LinkID {
	n := &p.Nodes[host]
	perRack := p.dims.perRack() * p.dims.nics
	if p.dims.background {
		perRack++
	}
	first := (n.Pod*p.dims.racks + n.Rack) * perRack
	if n.Kind == KindBackground {
		return LinkID(first + perRack - 1)
	}
	return LinkID(first + n.Index%p.dims.perRack()*p.dims.nics + nic)
}

func (d dims) hostLinks() int {
	n := d.instances() * d.nics
	if d.background {
		n += d.pods * d.racks
	}
	return n
}

func (p *Plan) rackLink(pod, rack, a int) LinkID {
	return LinkID(p.dims.hostLinks() + (pod*p.dims.racks+rack)*p.dims.aggs + a)
}

func (p *Plan) coreLink(pod, a, c int) LinkID {
	return LinkID(p.dims.hostLinks() + p.dims.pods*p.dims.racks*p.dims.aggs + (pod*p.dims.aggs+a)*p.dims.cores + c)
}

func (p *Plan) nvLink(a, b NodeID) LinkID {
	m := p.dims.perServer
	i, j := int(a)%m, int(b)%m
	if i > j {
		i, j = j, i
	}
	pair := i*m - i*(i+1)/2 + j - i - 1 // position of (i, j) among all pairs i < j
	first := p.dims.hostLinks() + p.dims.pods*p.dims.aggs*(p.dims.racks+p.dims.cores)
	return LinkID(first + int(a)/m*(m*(m-1)/2) + pair)
}
