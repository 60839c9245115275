package fabric

import (
	"net/netip"
	"time"

	"github.com/netkvlab/netkvlab/scenarios"
)

// NodeID indexes Plan.Nodes.
type NodeID int

// LinkID indexes Plan.Links.
type LinkID int

// BitsPerSecond is the rate type of scenarios, so code that works on a Plan
// needs no other package.
type BitsPerSecond = scenarios.BitsPerSecond

// Kind is what a node is in the tree.
type Kind uint8

// The kinds of node, from the leaves up.
const (
	KindInstance   Kind = iota // a model instance: prefill, decode or idle
	KindBackground             // a host that does not serve: source and sink of background traffic
	KindToR                    // a rack's switch
	KindAgg                    // a pod's aggregation switch
	KindCore                   // a core switch
)

// Role is what an instance does.
type Role uint8

// The roles of an instance.
const (
	RoleNone Role = iota // switches, idle instances and background hosts
	RolePrefill
	RoleDecode
)

// MTU is the MTU of every link: that of Ethernet at every scale, because packets
// do not shrink with the rate.
const MTU = 1500

// FrameBytes is the Ethernet frame of a full packet as a qdisc counts it: the
// MTU and the 14-byte header.
const FrameBytes = MTU + 14

// SegmentBytes is the payload of a full packet: the MTU without the headers of IP and of TCP with time stamps.
const SegmentBytes = MTU - 52

// Plan is a whole fabric. It is read-only once made and safe for concurrent use.
type Plan struct {
	// Lab is the scenario's name, which is the lab's default name.
	Lab   string          `json:"lab"`
	Scale scenarios.Scale `json:"scale"` // as given to New; never auto
	// Nodes: instances in pod, rack, server order, then background hosts,
	// rack switches, aggregation switches and cores. Nodes[i].ID is i.
	Nodes []Node `json:"nodes"`
	// Links: tier 1, 2 and 3, then the NVLinks. Links[i].ID is i.
	Links []Link `json:"links"`
	// Ports lists each node's ports by index; they point into Links.
	Ports [][]*Port `json:"-"`
	// Classes: switch ports count KV traffic and background separately, by DSCP.
	Classes bool `json:"classes"`
	// KVDSCP and BackgroundDSCP (0..63) are what the classes match.
	KVDSCP         int `json:"kv_dscp"`
	BackgroundDSCP int `json:"background_dscp"`
	// Latency is the one-way latency, in paper time, that a path of each tier gets from
	// its ports' delays: the scenario's, or 0 where that is too short to emulate
	// (MinLatency) and at tier 0. Only kernels that can delay packets apply it.
	Latency [4]time.Duration `json:"latency_ns"`
	// NICsPerInstance is at least 1; background hosts have one.
	NICsPerInstance int `json:"nics_per_instance"`
	// Prefill, Decode and Background are the nodes of a kind in the order of their names' numbers.
	Prefill    []NodeID `json:"prefill"`
	Decode     []NodeID `json:"decode"`
	Background []NodeID `json:"background"`

	dims       dims
	flowQueues int           // of each switch port's Shape
	nvlinkRate BitsPerSecond // the paper's
	byName     map[string]NodeID
}

// Node is one namespace of the fabric.
type Node struct {
	ID   NodeID `json:"id"`
	Name string `json:"name"` // unique in the plan: p0, d0, i0, b0-1, tor0-1, agg0-1, core0-1
	Kind Kind   `json:"kind"`
	Role Role   `json:"role"`
	// Pod, Rack and Server locate the node: Pod is -1 for cores, Rack -1 above
	// the rack, Server -1 outside servers. Rack and Server count within their parent.
	Pod    int `json:"pod"`
	Rack   int `json:"rack"`
	Server int `json:"server"`
	// Index is the instance's number in pod, rack, server order (0-based) for
	// instances; the number within pod or core group for switches; 0 for background hosts.
	Index int `json:"index"`
	// Group is a core's group, the number of the aggregation switches it joins; -1 elsewhere.
	Group int `json:"group"`
	// Addrs are the /32 addresses that transfers use, one per NIC; empty on switches.
	Addrs []netip.Addr `json:"addrs,omitempty"`
	// HashSeed is the switch's ECMP seed, never 0; 0 on hosts.
	HashSeed uint32 `json:"hash_seed,omitempty"`
	// Routes is the node's complete routing table beside the connected /31s.
	Routes []Route `json:"routes,omitempty"`
	// Rules choose a routing table by source address; only hosts with several NICs have any.
	Rules []Rule `json:"rules,omitempty"`
}

// IsSwitch reports whether the node forwards.
func (n *Node) IsSwitch() bool { return n.Kind >= KindToR }

// Route sends Dst over one or several equal-cost next hops.
type Route struct {
	Dst      netip.Prefix `json:"dst"` // 0.0.0.0/0 is the default route
	NextHops []NextHop    `json:"next_hops"`
	Src      netip.Addr   `json:"src,omitzero"` // preferred source on hosts, else invalid
	Table    int          `json:"table"`        // 0 is main; with several NICs one table per NIC, chosen by Rules
}

// NextHop names the port and the neighbour's /31 address.
type NextHop struct {
	Port int        `json:"port"` // index into the node's ports (Plan.Ports)
	Via  netip.Addr `json:"via"`
}

// Rule sends packets from an own address through a routing table.
type Rule struct {
	From  netip.Addr `json:"from"`
	Table int        `json:"table"`
}

// Link joins two nodes; both directions have the same rate.
type Link struct {
	ID LinkID `json:"id"`
	// A is the lower end in the tree, or the first instance of an NVLink.
	A Port `json:"a"`
	B Port `json:"b"`
	// Tier: 0 NVLink, 1 host to ToR, 2 ToR to aggregation, 3 aggregation to core.
	Tier int `json:"tier"`
	// Rate is the paper's, RateEmulated the rate that this host shapes to:
	// Rate / scale.rate / scale.time. A rate counts Ethernet frames
	// without preamble, check sequence and gap (what a qdisc counts).
	Rate         scenarios.BitsPerSecond `json:"rate"`
	RateEmulated scenarios.BitsPerSecond `json:"rate_emulated"`
}

// Port is one end of a link: the interface and the shaping of its egress.
type Port struct {
	Node  NodeID       `json:"node"`
	Link  LinkID       `json:"link"`
	Index int          `json:"index"` // position among the node's ports
	Name  string       `json:"name"`  // interface name inside the namespace, at most 15 bytes: up0, d3, nv1
	Addr  netip.Prefix `json:"addr"`  // /31
	Shape Shape        `json:"shape"`
	// GSOMaxSegs bounds the segments of one skb of a sender; 0 leaves the kernel's value.
	GSOMaxSegs int `json:"gso_max_segs,omitempty"`
}

// Shape is the egress shaping of a port, in emulated units, as the kernel must hold it.
type Shape struct {
	Rate scenarios.BitsPerSecond `json:"rate"`
	// BurstBytes may leave back to back after an idle time.
	BurstBytes int `json:"burst_bytes"`
	// LimitBytes bounds the queue; with Classes, each class's queue; with FlowQueues,
	// each flow's.
	LimitBytes int `json:"limit_bytes"`
	// FlowQueues is the number of the port's queues for flows. A hash of a flow's addresses
	// and ports chooses its queue. The queues are served in turn, QuantumBytes at a time
	// (deficit round robin). 0: one queue, in order of arrival. With Classes, KV traffic
	// and background have this number each.
	FlowQueues   int `json:"flow_queues,omitempty"`
	QuantumBytes int `json:"quantum_bytes,omitempty"`
	// Delay, in this host's time, passes before a packet reaches the queue: the latency
	// of the wire that brought it. Only ports that lead down to the hosts have any (see
	// Plan.Latency).
	Delay time.Duration `json:"delay_ns,omitempty"`
	// MarkBytes is the backlog from which the queue marks packets that can be marked
	// (ECN) instead of waiting until it has to drop; with Classes, each class's queue.
	// 0: it never marks.
	MarkBytes int `json:"mark_bytes,omitempty"`
	// Classes splits the port by DSCP class (KV, background, other) for exact
	// telemetry: HTB with one bfifo per class instead of a plain TBF. The three
	// rates are guaranteed to each class when all want to send; they sum to
	// Rate, and any class may use what the others leave.
	Classes        bool                    `json:"classes,omitempty"`
	KVRate         scenarios.BitsPerSecond `json:"kv_rate,omitempty"`
	BackgroundRate scenarios.BitsPerSecond `json:"background_rate,omitempty"`
	OtherRate      scenarios.BitsPerSecond `json:"other_rate,omitempty"`
	// First is the kind of traffic that the port serves first (scenarios.PriorityTransfers or
	// PriorityBackground); "" is neither. The other kind is then guaranteed almost nothing.
	First string `json:"first,omitempty"`
}

// Hop is one direction of a link: AtoB or back.
type Hop struct {
	Link    LinkID `json:"link"`
	Reverse bool   `json:"reverse,omitempty"` // false: from A to B
}

// Path is the hops from source to destination.
type Path []Hop

// Lookup finds a node by name.
func (p *Plan) Lookup(name string) (NodeID, bool) {
	id, ok := p.byName[name]
	return id, ok
}

// Fair reports whether switch ports serve flows in turn.
func (p *Plan) Fair() bool { return p.FlowQueues() > 0 }

// FlowQueues counts the queues for flows of all ports.
func (p *Plan) FlowQueues() (sum int) {
	for i := range p.Links {
		for _, s := range []*Shape{&p.Links[i].A.Shape, &p.Links[i].B.Shape} {
			if s.Classes {
				sum += 2 * s.FlowQueues
			} else {
				sum += s.FlowQueues
			}
		}
	}
	return sum
}

// Peer returns the other end of a port's link.
func (p *Plan) Peer(port *Port) *Port {
	l := &p.Links[port.Link]
	if l.A.Node == port.Node && l.A.Index == port.Index {
		return &l.B
	}
	return &l.A
}

// Egress returns the port that sends in a hop's direction.
func (p *Plan) Egress(h Hop) *Port {
	if h.Reverse {
		return &p.Links[h.Link].B
	}
	return &p.Links[h.Link].A
}

// Ingress returns the port that receives in a hop's direction.
func (p *Plan) Ingress(h Hop) *Port {
	return p.Egress(Hop{Link: h.Link, Reverse: !h.Reverse})
}

// HopOf returns the hop that a port sends into.
func (p *Plan) HopOf(port *Port) Hop {
	l := &p.Links[port.Link]
	return Hop{Link: port.Link, Reverse: l.A.Node != port.Node || l.A.Index != port.Index}
}

// index fills the fields that are derived from Nodes and Links.
func (p *Plan) index() {
	p.byName = make(map[string]NodeID, len(p.Nodes))
	p.Ports = make([][]*Port, len(p.Nodes))
	for i := range p.Nodes {
		p.byName[p.Nodes[i].Name] = p.Nodes[i].ID
	}
	for i := range p.Links {
		l := &p.Links[i]
		p.Ports[l.A.Node] = append(p.Ports[l.A.Node], &l.A)
		p.Ports[l.B.Node] = append(p.Ports[l.B.Node], &l.B)
	}
}
