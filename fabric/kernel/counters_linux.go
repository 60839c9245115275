package kernel

import (
	"fmt"
	"time"

	"github.com/vishvananda/netlink/nl"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/tc"
)

// Counters reads the egress counters of every port, in plan order: node by
// node, port by port. A dump takes about 30 us per node. All counters of one node
// are from one instant, those of different nodes are not. It is an error, which names
// the port, if a port's qdisc is gone.
func (f *Fabric) Counters() ([]PortCounters, error) {
	all := make([]fabric.NodeID, len(f.ns))
	for i := range all {
		all[i] = fabric.NodeID(i)
	}
	return f.CountersOf(all...)
}

// CountersOf is Counters of the given nodes, in that order.
func (f *Fabric) CountersOf(nodes ...fabric.NodeID) ([]PortCounters, error) {
	var out []PortCounters
	for _, id := range nodes {
		ns, err := f.at(id)
		if err != nil {
			return nil, err
		}
		ports := f.plan.Ports[id]
		start := len(out)
		qdiscs, now, err := readQdiscs(ns)
		if err != nil {
			return nil, err
		}
		seen := make([]bool, len(ports))
		for i := range ports {
			out = append(out, PortCounters{Node: int(id), Port: i, At: now})
		}
		for _, q := range qdiscs {
			i := portOf(q.index)
			if i < 0 || i >= len(ports) {
				continue
			}
			if q.handle == rootHandle && q.parent == shaperParent(f.delayed(ports[i])) {
				seen[i] = true
			}
			out[start+i].take(q)
		}
		for i, port := range ports {
			if !seen[i] {
				return nil, fmt.Errorf("counters of %s: port %s has lost its qdisc", ns.name, port.Name)
			}
		}
	}
	return out, nil
}

const (
	// promptly is how long reading one node takes at most, unless this program is kept
	// from the CPU meanwhile: then the instant of the counters is unknown.
	promptly    = 2 * time.Millisecond
	promptTries = 5
)

// readQdiscs reads a namespace's qdiscs and returns the time. It tries a few times until
// one read takes at most promptly.
func readQdiscs(ns *namespace) (qdiscs []qdisc, at time.Time, err error) {
	for range promptTries {
		start := time.Now()
		if qdiscs, err = dumpQdiscs(ns.conn); err != nil {
			return nil, at, fmt.Errorf("counters of %s: %w", ns.name, err)
		}
		if at = time.Now(); at.Sub(start) <= promptly {
			break
		}
	}
	return qdiscs, at, nil
}

// take stores a qdisc's counters where they belong. The shaper has the port's, except
// for marks, which its queues make.
func (p *PortCounters) take(q qdisc) {
	p.Marks += q.counters.Marks
	switch {
	case q.handle == rootHandle:
		marks := p.Marks
		p.QueueCounters = q.counters
		p.Marks = marks
	case !q.holds:
	case q.parent == rootHandle|minorKV:
		p.KV = q.counters
	case q.parent == rootHandle|minorBack:
		p.Background = q.counters
	case q.parent == rootHandle|minorOther:
		p.Other = q.counters
	}
}

// qdisc is the counters of one queueing discipline.
type qdisc struct {
	index          uint32
	handle, parent tc.Handle
	holds          bool // packets of a class: the qdisc has the planned kind
	counters       QueueCounters
}

func dumpQdiscs(c *rtnl.Conn) (qdiscs []qdisc, err error) {
	err = tc.Dump(c, tc.Qdisc, nl.TcMsg{}, func() { qdiscs = qdiscs[:0] }, func(m tc.Message) {
		q := qdisc{index: uint32(m.Ifindex), handle: tc.Handle(m.Handle), parent: tc.Handle(m.Parent), counters: parseStats(m.Stats)}
		switch string(m.Kind) {
		case "red":
			q.holds, q.counters.Marks = true, uint64(rtnl.U32(rtnl.Find(m.Stats, nl.TCA_STATS_APP), redXstatsMarked))
		case "bfifo", "htb":
			q.holds = true
		}
		qdiscs = append(qdiscs, q)
	})
	return qdiscs, err
}

// redXstatsMarked is where tc_red_xstats counts marks, after early, pdrop and other.
const redXstatsMarked = 12

// parseStats reads gnet_stats: the packet count has 64 bits only where it
// would wrap or the kernel always sends it; gnet_stats_queue is qlen, backlog,
// drops, requeues, overlimits.
func parseStats(p []byte) (c QueueCounters) {
	wide := false
	rtnl.Attrs(p, func(typ uint16, v []byte) {
		switch typ {
		case nl.TCA_STATS_BASIC:
			c.Bytes = rtnl.U64(v, 0)
			if !wide {
				c.Packets = uint64(rtnl.U32(v, 8))
			}
		case nl.TCA_STATS_PKT64:
			c.Packets, wide = rtnl.U64(v, 0), true
		case nl.TCA_STATS_QUEUE:
			c.BacklogPackets, c.BacklogBytes = uint64(rtnl.U32(v, 0)), uint64(rtnl.U32(v, 4))
			c.Drops = uint64(rtnl.U32(v, 8))
		}
	})
	return c
}
