package kernel

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// Counters reads the egress counters of every port, in plan order: node by
// node, port by port. A dump takes some 30 us a node. All counters of one node
// are from one instant, those of different nodes are not. A port whose qdisc
// is gone is an error that names it.
func (f *Fabric) Counters() ([]PortCounters, error) {
	all := make([]fabric.NodeID, len(f.ns))
	for i := range all {
		all[i] = fabric.NodeID(i)
	}
	return f.CountersOf(all...)
}

// CountersOf is Counters of some nodes, in the order given.
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
	// from the CPU meanwhile: then nobody knows which instant the counters are of.
	promptly    = 2 * time.Millisecond
	promptTries = 5
)

// readQdiscs reads a namespace's qdiscs and says when: within promptly, if one of a few
// tries is so lucky.
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

// take stores a qdisc's counters where they belong. The shaper has the port's, but
// for marks, which its queues make.
func (p *PortCounters) take(q qdisc) {
	p.Marks += q.counters.Marks
	switch {
	case q.handle == rootHandle:
		marks := p.Marks
		p.QueueCounters = q.counters
		p.Marks = marks
	case q.kind != "bfifo" && q.kind != "red" && q.kind != "htb":
	case q.parent == rootHandle|minorKV:
		p.KV = q.counters
	case q.parent == rootHandle|minorBack:
		p.Background = q.counters
	case q.parent == rootHandle|minorOther:
		p.Other = q.counters
	}
}

// qdisc is one queueing discipline as the kernel reports it.
type qdisc struct {
	index, handle, parent uint32
	kind                  string
	options               []byte
	counters              QueueCounters
}

func dumpQdiscs(c *rtnl.Conn) (qdiscs []qdisc, err error) {
	var b rtnl.Batch
	b.Begin(unix.RTM_GETQDISC, 0, "list", "qdiscs")
	tcmsg(&b, 0, 0, 0, 0)
	err = c.Dump(&b, func() { qdiscs = nil }, func(m rtnl.Message) {
		qdiscs = append(qdiscs, parseQdisc(m.Payload))
	})
	return qdiscs, err
}

const sizeofTcmsg = 20

func parseQdisc(p []byte) qdisc {
	q := qdisc{index: rtnl.U32(p, 4), handle: rtnl.U32(p, 8), parent: rtnl.U32(p, 12)}
	var stats []byte
	rtnl.Attrs(rtnl.Skip(p, sizeofTcmsg), func(typ uint16, v []byte) {
		switch typ {
		case unix.TCA_KIND:
			q.kind = rtnl.String(v)
		case unix.TCA_OPTIONS:
			q.options = append([]byte(nil), v...)
		case unix.TCA_STATS2:
			q.counters = parseStats(v)
			stats = v
		}
	})
	if q.kind == "red" {
		q.counters.Marks = uint64(rtnl.U32(rtnl.Find(stats, tcaStatsApp), redXstatsMarked))
	}
	return q
}

// parseStats reads gnet_stats: the packet count has 64 bits only where it
// would wrap or the kernel always sends it; gnet_stats_queue is qlen, backlog,
// drops, requeues, overlimits.
func parseStats(p []byte) (c QueueCounters) {
	wide := false
	rtnl.Attrs(p, func(typ uint16, v []byte) {
		switch typ {
		case tcaStatsBasic:
			c.Bytes = rtnl.U64(v, 0)
			if !wide {
				c.Packets = uint64(rtnl.U32(v, 8))
			}
		case tcaStatsPkt64:
			c.Packets, wide = rtnl.U64(v, 0), true
		case tcaStatsQueue:
			c.BacklogPackets, c.BacklogBytes = uint64(rtnl.U32(v, 0)), uint64(rtnl.U32(v, 4))
			c.Drops = uint64(rtnl.U32(v, 8))
		}
	})
	return c
}
