package kernel

import (
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
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
	all := make([]PortCounters, 0, 2*len(f.plan.Links))
	for i := range f.ns {
		ports, err := f.CountersOf(fabric.NodeID(i))
		if err != nil {
			return nil, err
		}
		all = append(all, ports...)
	}
	return all, nil
}

const (
	// promptly is how long reading one node takes at most, unless this program is kept
	// from the CPU meanwhile: then the instant of the counters is unknown.
	promptly    = 2 * time.Millisecond
	promptTries = 5
)

// CountersOf is Counters of one node. It tries a few times until one read takes at most
// promptly.
func (f *Fabric) CountersOf(id fabric.NodeID) ([]PortCounters, error) {
	ns, err := f.at(id)
	if err != nil {
		return nil, err
	}
	ports := f.plan.Ports[id]
	all, seen := make([]PortCounters, len(ports)), make([]bool, len(ports))
	reset := func() { clear(all); clear(seen) }
	var at time.Time
	for range promptTries {
		start := time.Now()
		err := tc.Dump(ns.conn, tc.Qdisc, nl.TcMsg{}, reset, func(m tc.Message) {
			if i := portOf(uint32(m.Ifindex)); i >= 0 && i < len(ports) {
				all[i].take(m)
				shapes := tc.Handle(m.Handle) == rootHandle && tc.Handle(m.Parent) == shaperParent(f.features.delays(ports[i]))
				seen[i] = seen[i] || shapes
			}
		})
		if err != nil {
			return nil, fmt.Errorf("counters of %s: %w", ns.name, err)
		}
		if at = time.Now(); at.Sub(start) <= promptly {
			break
		}
	}
	for i, port := range ports {
		if !seen[i] {
			return nil, fmt.Errorf("counters of %s: port %s has lost its qdisc", ns.name, port.Name)
		}
		all[i].Node, all[i].Port, all[i].At = int(id), i, at
	}
	return all, nil
}

// take stores a qdisc's counters where they belong. The shaper has the port's, except
// for marks, which its queues make.
func (p *PortCounters) take(m tc.Message) {
	c, handle, parent := parseStats(m.Stats), tc.Handle(m.Handle), tc.Handle(m.Parent)
	kind := string(m.Kind)
	if kind == "red" {
		c.Marks = uint64(rtnl.Get[redXstats](rtnl.Find(m.Stats, nl.TCA_STATS_APP)).marked)
		p.Marks += c.Marks
	}
	switch {
	case handle == rootHandle:
		c.Marks = p.Marks
		p.QueueCounters = c
	case kind != "red" && kind != "bfifo" && kind != "htb": // not the planned kind
	case parent == rootHandle|minorKV:
		p.KV = c
	case parent == rootHandle|minorBack:
		p.Background = c
	case parent == rootHandle|minorOther:
		p.Other = c
	}
}

// redXstats is tc_red_xstats.
type redXstats struct{ early, pdrop, other, marked uint32 }

// parseStats reads gnet_stats: the packet count has 64 bits only where it
// would wrap or the kernel always sends it.
func parseStats(p []byte) (c QueueCounters) {
	wide := false
	rtnl.Attrs(p, func(typ uint16, v []byte) {
		switch typ {
		case nl.TCA_STATS_BASIC:
			basic := rtnl.Get[netlink.GnetStatsBasic](v)
			c.Bytes = basic.Bytes
			if !wide {
				c.Packets = uint64(basic.Packets)
			}
		case nl.TCA_STATS_PKT64:
			c.Packets, wide = rtnl.Get[uint64](v), true
		case nl.TCA_STATS_QUEUE:
			q := rtnl.Get[netlink.GnetStatsQueue](v)
			c.BacklogPackets, c.BacklogBytes, c.Drops = uint64(q.Qlen), uint64(q.Backlog), uint64(q.Drops)
		}
	})
	return c
}
