package kernel

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
)

// NetnsDir is the folder of the namespaces' names, shared with "ip netns".
const NetnsDir = "/run/netns"

// markPrefix begins the alias of the loopback interface in each namespace of ours.
const markPrefix = "netkvlab"

var (
	labName  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)
	nodeName = regexp.MustCompile(`^([pdi][0-9]+|b[0-9]+-[0-9]+|(tor|agg|core)[0-9]+-[0-9]+)$`)
)

// ValidLab reports whether a lab can have this name. Names also come from the command
// line and end up in file paths.
func ValidLab(lab string) bool { return labName.MatchString(lab) }

// checkLab refuses names that could escape the naming scheme.
func checkLab(lab string) error {
	if !ValidLab(lab) {
		return fmt.Errorf("lab name %q: want 1 to 40 of a-z, 0-9 and -, beginning and ending in a letter or digit", lab)
	}
	return nil
}

// Names are the names of a lab's namespaces in NetnsDir, by NodeID.
func Names(lab string, plan *fabric.Plan) []string {
	names := make([]string, len(plan.Nodes))
	for i := range plan.Nodes {
		names[i] = lab + "." + plan.Nodes[i].Name
	}
	return names
}

// Options steer Apply, Open, Inspect and Remove. The zero value is useful.
type Options struct {
	// Journal, if set, is called by Apply once, after all checks and before
	// anything is made, with the names of all namespaces that Apply will make. Its
	// error stops Apply before it makes anything.
	Journal func(names []string) error
	// Planned lists the planned names of a journal; Remove
	// then also deletes empty plain files of these names. Names that are not
	// LAB.NODE of the lab being removed are ignored.
	Planned []string
	// Leave allows processes in the namespaces whose name, mark and links Remove
	// removes. Without it they are an error if they do not end soon.
	Leave bool
	// Adopt has, by node, the paths of network namespaces that exist already, for
	// example a container's. Apply names and marks such a namespace and creates the
	// links in it, instead of making one. Its owner must keep it alive until Apply
	// has returned. When Apply fails, it removes the name and the links but cannot
	// clear the rest; then the owner must end the namespace.
	Adopt map[fabric.NodeID]string
	// Workers is the number of threads that create namespaces; 0 means two.
	Workers int
	// NoHashSeed treats the kernel as one before Linux 6.11, without a seed of
	// its own for each switch (see Features.HashSeed). Give Open and Inspect
	// the same value that Apply got.
	NoHashSeed bool
}

// Features says which optional features the kernel has.
type Features struct {
	// HashSeed: each switch has its own ECMP seed (fib_multipath_hash_seed,
	// Linux 6.11). Without it, switches above the rack leave the destination
	// address out of the hash, which makes the layers less independent.
	HashSeed bool `json:"hash_seed"`
	// ToRHashFields and AggHashFields are the fib_multipath_hash_fields in
	// force: 0x37 is addresses, protocol and ports.
	ToRHashFields int `json:"tor_hash_fields"`
	AggHashFields int `json:"agg_hash_fields"`
	// RTOMinSysctl: tcp_rto_min_us exists (Linux 6.11); where it does not, the
	// route metric alone sets the least retransmission time to 5 ms.
	RTOMinSysctl bool `json:"rto_min_sysctl"`
	// Latency: the ports have the delays of the plan (netem). False where the plan has
	// none or the probe "netem" says no; links then have no latency of their own.
	Latency bool `json:"latency"`
}

// Flow is one transport flow from a NIC of one node to a NIC of another. Addresses
// follow from the NICs.
type Flow struct {
	Src, Dst fabric.NodeID
	// SrcNIC and DstNIC index the nodes' Addrs.
	SrcNIC, DstNIC int
	// Proto is the IP protocol, IPPROTO_TCP or IPPROTO_UDP; 0 means TCP. Switches
	// hash it, so a TCP and a UDP flow with the same ports can take different paths.
	Proto uint8
	// SrcPort and DstPort are the transport ports, 1..65535.
	SrcPort, DstPort uint16
}

// QueueCounters are what one queue has done since it was made. Bytes and
// Packets count what left it: Ethernet frames with their 14-byte header, each
// segment of an offloaded packet separately. Drops counts the packets that it refused,
// Marks those that it marked (ECN): packets as they arrived, each up to a sender's
// segment bound.
type QueueCounters struct {
	Bytes, Packets uint64
	Drops          uint64
	Marks          uint64
	// BacklogBytes and BacklogPackets wait in the queue at this moment.
	BacklogBytes, BacklogPackets uint64
}

// PortCounters are the egress counters of one port.
type PortCounters struct {
	// Node and Port index Plan.Nodes and the node's ports.
	Node, Port int
	// At is when they were read: a poll of a large fabric takes some time.
	At time.Time
	// QueueCounters are the port's total.
	QueueCounters
	// KV, Background and Other are the classes of a port with Shape.Classes, zero
	// elsewhere. Their bytes and packets sum to the total's.
	KV, Background, Other QueueCounters
}

// Namespace is one namespace of a lab.
type Namespace struct {
	Name  string // in NetnsDir: LAB.NODE
	Node  string
	Path  string // for setns and "ip netns"
	Inode uint64 // that of /proc/PID/ns/net of a process inside
}

// Removed reports what Remove did.
type Removed struct {
	Namespaces []string // names of namespaces that carried the lab's mark
	Files      []string // names of empty plain files, left by an interrupted Apply
	// Held maps namespaces to the process ids of the processes that still run in them.
	// Such a namespace has no name, mark or links any more, and ends with these processes.
	Held map[string][]int
	// Notes are sentences about what Remove had to guess or left alone.
	Notes []string
}

// Damage lists what a standing lab lacks compared with its plan.
type Damage struct {
	Namespaces []string // names of planned namespaces that do not exist
	Foreign    []string // planned names that exist but do not carry the lab's mark
	Links      []string // "NODE port NAME" of planned interfaces that do not exist
	// Other is every other difference, in Verify's words.
	Other []string
}

// None reports whether nothing is missing.
func (d Damage) None() bool {
	return len(d.Namespaces)+len(d.Foreign)+len(d.Links)+len(d.Other) == 0
}

// String lists the damage in one line.
func (d Damage) String() string {
	var parts []string
	for i, names := range [][]string{d.Namespaces, d.Foreign, d.Links, d.Other} {
		what := [...]string{"missing namespaces", "not ours", "missing links", "changed"}[i]
		if len(names) > 0 {
			parts = append(parts, what+": "+andMore(names, 5, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// InUseError means that a name which a lab needs exists already.
type InUseError struct {
	Lab    string
	Object string // the path that exists
	Owner  string // the lab whose mark it carries, empty when it is not ours
}

func (e *InUseError) Error() string {
	if e.Owner == "" {
		return fmt.Sprintf("lab %s: %s exists and was not made by netkvlab: remove it or choose another lab name", e.Lab, e.Object)
	}
	return fmt.Sprintf("lab %s: %s exists and belongs to lab %s: run \"netkvlab down %s\" first", e.Lab, e.Object, e.Owner, e.Owner)
}

// DamagedError means that parts of a lab to be opened are missing.
type DamagedError struct {
	Lab    string
	Damage Damage
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("lab %s is damaged: %s: run \"netkvlab down %s\" and bring it up again", e.Lab, e.Damage, e.Lab)
}

// ErrUnsupported matches every *UnsupportedError.
var ErrUnsupported = errors.New("not supported by this host")

// UnsupportedError says what this host lacks and what the kernel answered when asked.
type UnsupportedError struct {
	Feature, Need string // "htb", "CONFIG_NET_SCH_HTB"
	Cause         error
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%s: needs %s: %v", e.Feature, e.Need, e.Cause)
}

// Unwrap makes errors.Is match ErrUnsupported and the kernel's errno.
func (e *UnsupportedError) Unwrap() []error { return []error{ErrUnsupported, e.Cause} }

// Difference is one thing that is not as planned.
type Difference struct {
	Node   string // its name
	Object string // what of it: "port up0", "route 10.0.0.0/24", "sysctl net.ipv4.ip_forward"
	Text   string // what is there, and what was planned
}

// String is the whole finding in one line.
func (d Difference) String() string { return d.Node + " " + d.Object + ": " + d.Text }

// DiffersError means that the kernel holds something else than was planned. Another error
// means that this could not be found out.
type DiffersError struct {
	Differences []Difference // at least one
}

func (e *DiffersError) Error() string { return e.First(len(e.Differences)) }

// First puts the first n differences into one line, with the number of the others.
func (e *DiffersError) First(n int) string {
	parts := make([]string, len(e.Differences))
	for i, d := range e.Differences {
		parts[i] = d.String()
	}
	return andMore(parts, n, "; ")
}

// andMore joins the first n texts and counts the others.
func andMore(texts []string, n int, separator string) string {
	n = min(n, len(texts))
	joined := strings.Join(texts[:n], separator)
	if more := len(texts) - n; more > 0 {
		joined += fmt.Sprintf(" and %d more", more)
	}
	return joined
}
