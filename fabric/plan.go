package fabric

import (
	"net/netip"

	"github.com/netkvlab/netkvlab/scenarios"
)

// NodeID indexes Plan.Nodes.
type NodeID int

// LinkID indexes Plan.Links.
type LinkID int

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

// Node is one namespace of the fabric.
type Node struct {
	ID   NodeID
	Name string // unique in the plan: p0, d0, i0, b0-1, tor0-1, agg0-1, core0-1
	Kind Kind
	Role Role
	// Pod, Rack and Server locate the node: Pod is -1 for cores, Rack -1 above
	// the rack, Server -1 outside servers. Rack and Server count within their parent.
	Pod, Rack, Server int
	// Index is the instance's number in pod, rack, server order (0-based) for
	// instances; the number within pod or core group for switches.
	Index int
	// Addrs are the /32 addresses that transfers use, one a NIC; empty on switches.
	Addrs []netip.Addr
	// HashSeed is the switch's ECMP seed, never 0; 0 on hosts.
	HashSeed uint32
	// Routes is the node's complete routing table beside the connected /31s.
	Routes []Route
}

// IsSwitch reports whether the node forwards.
func (n *Node) IsSwitch() bool { return n.Kind >= KindToR }

// Route sends Dst over one or several equal-cost next hops.
type Route struct {
	Dst      netip.Prefix // 0.0.0.0/0 is the default route
	NextHops []NextHop    // two or more: ECMP; order is the plan's
	Src      netip.Addr   // preferred source on hosts, else invalid
	Table    int          // 0 is main; rail variants use one table a NIC, chosen by source address
}

// NextHop names the port and the neighbour's /31 address.
type NextHop struct {
	Port int // index into the node's ports (Plan.Ports)
	Via  netip.Addr
}

// Link joins two nodes; both directions have the same rate.
type Link struct {
	ID   LinkID
	A, B Port // A is the lower end in the tree (or the first instance of an NVLink)
	// Tier: 0 NVLink, 1 host to ToR, 2 ToR to aggregation, 3 aggregation to core.
	Tier int
	// Rate is the paper's, RateEmulated what this host shapes to:
	// Rate / scale.rate / scale.time. A rate counts Ethernet frames
	// without preamble, check sequence and gap (what a qdisc counts).
	Rate, RateEmulated scenarios.BitsPerSecond
}

// Port is one end of a link: the interface and the shaping of its egress.
type Port struct {
	Node  NodeID
	Link  LinkID
	Index int          // position among the node's ports
	Name  string       // interface name inside the namespace, at most 15 bytes: up0, d3, nv1
	Addr  netip.Prefix // /31
	Shape Shape
	// GSOMaxSegs bounds the segments a sender hands down at once; 0 leaves the kernel's.
	GSOMaxSegs int
}

// Shape is the egress shaping of a port, in emulated units, as the kernel must hold it.
type Shape struct {
	Rate       scenarios.BitsPerSecond
	BurstBytes int
	LimitBytes int
	// Classes splits the port by DSCP class (KV, background, other) for exact
	// telemetry: HTB with one bfifo a class instead of a plain TBF.
	Classes bool
}

// Hop is one direction of a link: AtoB or back.
type Hop struct {
	Link    LinkID
	Reverse bool // false: from A to B
}

// Path is the hops from source to destination.
type Path []Hop
