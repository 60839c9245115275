// Package fabric says what the emulated network is: a three-layer fat tree of
// hosts and switches, its links, addresses, routes, shaping and equal-cost
// paths. A Plan is a value: New reads a scenario and a scale and nothing else,
// makes no system call, and gives the same plan for the same input, byte for
// byte. Package kernel makes a plan real; flowsim computes on the same plan.
//
// # The tree
//
// Each pair of instances of a server is joined by an NVLink (tier 0). Each instance
// has one or several NICs, every one a link to its rack's switch (tier 1,
// torP-R). A rack's switch has one uplink to each aggregation switch of its
// pod (tier 2, aggP-A). Aggregation switch A of every pod has one link to each
// core switch of group A (tier 3, coreA-C). All packets between two pods that
// climb to aggregation switch A therefore come down through aggregation
// switch A of the other pod, and a path is named by the pair (A, C).
//
// # Units
//
// Rates are bits per second of Ethernet frames without preamble, check sequence
// and inter-frame gap, which is what a Linux qdisc counts. A full TCP segment
// of 1448 bytes is a frame of 1514. Fields named Emulated, and all of Shape,
// hold what this host carries: the paper's rate divided by the rate scale and
// by the time scale.
//
// # Where to start
//
// Plan and its parts are in plan.go; New in build.go lays out nodes, links and
// routes, shape.go decides bursts, buffers, delays and marks, paths.go enumerates
// equal-cost paths.
package fabric

import (
	"iter"
	"net/netip"
	"slices"
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
	// Ports lists each node's ports by index; they point into Links. First are a host's NICs and a
	// switch's ports that lead down, each in the order of what they lead to.
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
	// Prefill, Decode and Background are the nodes of a kind in the order of their names' numbers.
	Prefill    []NodeID `json:"prefill"`
	Decode     []NodeID `json:"decode"`
	Background []NodeID `json:"background"`

	aggs, cores int              // uplinks of a rack's switch, and of an aggregation switch
	rates       [4]BitsPerSecond // the paper's, of each tier's links
	byName      map[string]NodeID
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
	// Rate / scale.rate / scale.time.
	Rate         BitsPerSecond `json:"rate"`
	RateEmulated BitsPerSecond `json:"rate_emulated"`
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
	Rate BitsPerSecond `json:"rate"`
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
	Classes        bool          `json:"classes,omitempty"`
	KVRate         BitsPerSecond `json:"kv_rate,omitempty"`
	BackgroundRate BitsPerSecond `json:"background_rate,omitempty"`
	OtherRate      BitsPerSecond `json:"other_rate,omitempty"`
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

// String is the kind's name, as in JSON.
func (k Kind) String() string {
	return [...]string{"instance", "background", "tor", "agg", "core"}[k]
}

// MarshalText writes the kind's name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// String is the role's name, as in JSON.
func (r Role) String() string { return [...]string{"none", "prefill", "decode"}[r] }

// MarshalText writes the role's name.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Lookup finds a node by name.
func (p *Plan) Lookup(name string) (NodeID, bool) {
	id, ok := p.byName[name]
	return id, ok
}

// Peer returns the other end of a port's link.
func (p *Plan) Peer(port *Port) *Port { return p.Ingress(p.HopOf(port)) }

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
	a := &p.Links[port.Link].A
	return Hop{Link: port.Link, Reverse: a.Node != port.Node || a.Index != port.Index}
}

// ends yields all ports with their links, in the order of Links and A before B.
func (p *Plan) ends() iter.Seq2[*Link, *Port] {
	return func(yield func(*Link, *Port) bool) {
		for i := range p.Links {
			if l := &p.Links[i]; !yield(l, &l.A) || !yield(l, &l.B) {
				return
			}
		}
	}
}

// Fair reports whether switch ports serve flows in turn.
func (p *Plan) Fair() bool { return p.FlowQueues() > 0 }

// FlowQueues counts the queues for flows of all ports.
func (p *Plan) FlowQueues() (sum int) {
	for _, port := range p.ends() {
		sum += port.Shape.FlowQueues
		if port.Shape.Classes {
			sum += port.Shape.FlowQueues
		}
	}
	return sum
}

// Delayed reports whether any port has a delay.
func (p *Plan) Delayed() bool { return p.Latency != [4]time.Duration{} }

// Marks reports whether any queue marks.
func (p *Plan) Marks() bool {
	return slices.ContainsFunc(p.Links, func(l Link) bool { return l.A.Shape.MarkBytes > 0 || l.B.Shape.MarkBytes > 0 })
}
