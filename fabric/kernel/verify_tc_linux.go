package kernel

import (
	"fmt"
	"math"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// verifyShaping compares every port's qdisc, and with classes its classes,
// their queues and filters, field by field.
func (f *Fabric) verifyShaping(ns *namespace, n *fabric.Node) (diffs []Difference, err error) {
	qdiscs, err := dumpQdiscs(ns.conn)
	if err != nil {
		return nil, err
	}
	for _, p := range f.plan.Ports[n.ID] {
		found, err := f.verifyPort(ns, ofPort(qdiscs, ifindexOf(f.plan, p)), p)
		if err != nil {
			return nil, fmt.Errorf("port %s: %w", p.Name, err)
		}
		for _, d := range found {
			diffs = append(diffs, difference(n, "port "+p.Name, "%s", d))
		}
	}
	return diffs, nil
}

// portQdiscs are the qdiscs of one port.
type portQdiscs []qdisc

func ofPort(all []qdisc, index uint32) (own portQdiscs) {
	for _, q := range all {
		if q.index == index {
			own = append(own, q)
		}
	}
	return own
}

// at is the qdisc that hangs below a parent, nil where there is none.
func (q portQdiscs) at(parent uint32) *qdisc {
	i := slices.IndexFunc(q, func(q qdisc) bool { return q.parent == parent })
	if i < 0 {
		return nil
	}
	return &q[i]
}

// verifyPort checks a port from its root down: the delay if it has one, the shaper,
// the queues.
func (f *Fabric) verifyPort(ns *namespace, qdiscs portQdiscs, p *fabric.Port) (diffs []string, err error) {
	where := "root qdisc"
	if f.delayed(p) {
		root := qdiscs.at(handleRoot)
		if root.kindOf() != "netem" {
			return []string{fmt.Sprintf("root qdisc %s, want netem", root.kindOf())}, nil
		}
		for _, d := range checkDelay(root.options, p.Shape.Delay) {
			diffs = append(diffs, "netem "+d)
		}
		where = "qdisc behind the delay"
	}
	kind := "tbf"
	if p.Shape.Classes {
		kind = "htb"
	}
	shaper := qdiscs.at(shaperParent(f.delayed(p)))
	if shaper.kindOf() != kind {
		return append(diffs, fmt.Sprintf("%s %s, want %s", where, shaper.kindOf(), kind)), nil
	}
	var found []string
	if p.Shape.Classes {
		found, err = f.verifyHTB(ns, qdiscs, shaper, &p.Shape)
	} else {
		found, err = verifyTBF(ns, qdiscs, shaper, &p.Shape)
	}
	for _, d := range found {
		diffs = append(diffs, kind+" "+d)
	}
	return diffs, err
}

// kindOf is a qdisc's kind in words; none for nil.
func (q *qdisc) kindOf() string {
	if q == nil {
		return "none"
	}
	return q.kind
}

// wideRate reads a rate from tc_ratespec or, above 32 bits, its attribute.
func wideRate(spec uint32, wide []byte) uint64 {
	if len(wide) >= 8 {
		return rtnl.U64(wide, 0)
	}
	return uint64(spec)
}

// checkRate compares bytes a second with what a planned rate becomes.
func checkRate(what string, got uint64, want fabric.BitsPerSecond) []string {
	if got == byteRate(want) {
		return nil
	}
	return []string{fmt.Sprintf("%s %d bit/s, want %d", what, got*8, byteRate(want)*8)}
}

// checkDepth compares a bucket's depth, which the kernel reports as the time
// the bytes take, in ticks.
func checkDepth(what string, got uint32, bytes int, rate uint64) []string {
	if want := ticks(bytes, rate); math.Abs(float64(got)-float64(want)) <= 1 {
		return nil
	}
	return []string{fmt.Sprintf("%s %.0f bytes, want %d", what, float64(got)*tickNanoseconds*float64(rate)/1e9, bytes)}
}

func verifyTBF(ns *namespace, qdiscs portQdiscs, tbf *qdisc, s *fabric.Shape) (diffs []string, err error) {
	diffs = checkTBF(tbf.options, s)
	queue := qdiscs.at(classLink) // the shaper's own queue is in no list
	switch {
	case s.FlowQueues > 0:
		var found []string
		found, err = checkFlowQueues(ns, qdiscs, classLink, s)
		diffs = append(diffs, found...)
	case s.MarkBytes > 0:
		diffs = append(diffs, checkQueue(queue, s)...)
	case queue.kindOf() == "red":
		diffs = append(diffs, "marks, want a plain queue")
	case queue.kindOf() == "htb":
		diffs = append(diffs, "serves flows in turn, want a plain queue")
	}
	return diffs, err
}

// checkTBF compares tc_tbf_qopt: rate, peak rate, limit, depth, mtu.
func checkTBF(options []byte, s *fabric.Shape) (diffs []string) {
	parms := rtnl.Find(options, tcaTBFParms)
	rate := wideRate(rtnl.U32(parms, 8), rtnl.Find(options, tcaTBFRate64))
	diffs = append(diffs, checkRate("rate", rate, s.Rate)...)
	if limit := rtnl.U32(parms, 24); limit != uint32(s.LimitBytes) {
		diffs = append(diffs, fmt.Sprintf("limit %d bytes, want %d", limit, s.LimitBytes))
	}
	if len(diffs) == 0 || rate == byteRate(s.Rate) {
		diffs = append(diffs, checkDepth("burst", rtnl.U32(parms, 28), s.BurstBytes, rate)...)
	}
	return diffs
}

func (f *Fabric) verifyHTB(ns *namespace, qdiscs portQdiscs, htb *qdisc, s *fabric.Shape) (diffs []string, err error) {
	index := htb.index
	classes, err := dumpTC(ns.conn, unix.RTM_GETTCLASS, "classes", index, 0)
	if err != nil {
		return nil, err
	}
	filters, err := dumpTC(ns.conn, unix.RTM_GETTFILTER, "filters", index, rootHandle)
	if err != nil {
		return nil, err
	}
	global := rtnl.Find(htb.options, tcaHTBInit)
	if def := rtnl.U32(global, 8); def != minorOther {
		diffs = append(diffs, fmt.Sprintf("default class 1:%x, want 1:%x", def, minorOther))
	}
	if direct := rtnl.U32(global, 16); direct != 0 {
		diffs = append(diffs, fmt.Sprintf("%d packets went past the classes, unshaped", direct))
	}
	diffs = append(diffs, checkClass(classes, classLink, 0, s, s.Rate)...)
	for _, c := range classesOf(f.plan, s) {
		class := uint32(rootHandle) | c.minor
		diffs = append(diffs, checkClass(classes, class, c.prio, s, c.rate)...)
		found := checkQueue(qdiscs.at(class), s)
		if s.FlowQueues > 0 && c.minor != minorOther {
			if found, err = checkFlowQueues(ns, qdiscs, class, s); err != nil {
				return nil, err
			}
		}
		for _, d := range found {
			diffs = append(diffs, fmt.Sprintf("class 1:%x %s", c.minor, d))
		}
		if c.dscp >= 0 && !hasFilter(filters, class, c.dscp) {
			diffs = append(diffs, fmt.Sprintf("no filter sends dscp %d to class 1:%x", c.dscp, c.minor))
		}
	}
	return diffs, nil
}

// dumpTC lists classes or filters of one interface.
func dumpTC(c *rtnl.Conn, typ uint16, what string, index, parent uint32) (found []qdisc, err error) {
	var b rtnl.Batch
	b.Begin(typ, 0, "list", what)
	tcmsg(&b, index, 0, parent, 0)
	err = c.Dump(&b, func() { found = nil }, func(m rtnl.Message) {
		found = append(found, parseQdisc(m.Payload))
	})
	return found, err
}

// checkClass compares tc_htb_opt: rate, ceil, depths, quantum, level, priority.
func checkClass(classes []qdisc, handle, prio uint32, s *fabric.Shape, r fabric.BitsPerSecond) (diffs []string) {
	name := fmt.Sprintf("class 1:%x", handle&0xffff)
	i := slices.IndexFunc(classes, func(q qdisc) bool { return q.handle == handle })
	if i < 0 {
		return []string{name + " is missing"}
	}
	o := classes[i].options
	parms := rtnl.Find(o, tcaHTBParms)
	rate := wideRate(rtnl.U32(parms, 8), rtnl.Find(o, tcaHTBRate64))
	ceil := wideRate(rtnl.U32(parms, 20), rtnl.Find(o, tcaHTBCeil64))
	diffs = append(diffs, checkRate(name+" rate", rate, r)...)
	diffs = append(diffs, checkRate(name+" ceil", ceil, s.Rate)...)
	if len(diffs) > 0 {
		return diffs
	}
	diffs = append(diffs, checkDepth(name+" burst", rtnl.U32(parms, 24), s.BurstBytes, rate)...)
	diffs = append(diffs, checkDepth(name+" cburst", rtnl.U32(parms, 28), s.BurstBytes, ceil)...)
	// Only leaves have a priority of their own.
	if got := rtnl.U32(parms, 40); handle != classLink && got != prio {
		diffs = append(diffs, fmt.Sprintf("%s priority %d, want %d", name, got, prio))
	}
	return diffs
}

// hasFilter looks for a u32 filter with exactly the planned key.
func hasFilter(filters []qdisc, class uint32, dscp int) bool {
	return slices.ContainsFunc(filters, func(q qdisc) bool {
		sel := rtnl.Find(q.options, tcaU32Sel)
		return q.kind == "u32" && rtnl.U32(rtnl.Find(q.options, tcaU32ClassID), 0) == class &&
			rtnl.U32(sel, 16) == htonl(dscpMask<<tosWordShift) && rtnl.U32(sel, 20) == htonl(dscpWord(dscp))
	})
}
