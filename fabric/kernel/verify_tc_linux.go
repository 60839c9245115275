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
func (f *Fabric) verifyShaping(ns *namespace, n *fabric.Node) (diffs []string, err error) {
	qdiscs, err := dumpQdiscs(ns.conn)
	if err != nil {
		return nil, err
	}
	for _, p := range f.plan.Ports[n.ID] {
		kind := "tbf"
		if p.Shape.Classes {
			kind = "htb"
		}
		index, object := ifindexOf(f.plan, p), "port "+p.Name
		i := slices.IndexFunc(qdiscs, func(q qdisc) bool { return q.index == index && q.parent == handleRoot })
		if i < 0 || qdiscs[i].kind != kind {
			got := "none"
			if i >= 0 {
				got = qdiscs[i].kind
			}
			diffs = append(diffs, difference(n, object, "root qdisc %s, want %s", got, kind))
			continue
		}
		if !p.Shape.Classes {
			for _, d := range checkTBF(qdiscs[i].options, &p.Shape) {
				diffs = append(diffs, difference(n, object, "tbf %s", d))
			}
			continue
		}
		d, err := f.verifyHTB(ns, qdiscs, index, &p.Shape)
		if err != nil {
			return nil, fmt.Errorf("port %s: %w", p.Name, err)
		}
		for _, d := range d {
			diffs = append(diffs, difference(n, object, "htb %s", d))
		}
	}
	return diffs, nil
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

func (f *Fabric) verifyHTB(ns *namespace, qdiscs []qdisc, index uint32, s *fabric.Shape) (diffs []string, err error) {
	classes, err := dumpTC(ns.conn, unix.RTM_GETTCLASS, "classes", index, 0)
	if err != nil {
		return nil, err
	}
	filters, err := dumpTC(ns.conn, unix.RTM_GETTFILTER, "filters", index, rootHandle)
	if err != nil {
		return nil, err
	}
	root := slices.IndexFunc(qdiscs, func(q qdisc) bool { return q.index == index && q.parent == handleRoot })
	global := rtnl.Find(qdiscs[root].options, tcaHTBInit)
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
		i := slices.IndexFunc(qdiscs, func(q qdisc) bool { return q.index == index && q.parent == class })
		switch {
		case i < 0 || qdiscs[i].kind != "bfifo":
			diffs = append(diffs, fmt.Sprintf("class 1:%x has no bfifo", c.minor))
		case rtnl.U32(qdiscs[i].options, 0) != uint32(s.LimitBytes):
			diffs = append(diffs, fmt.Sprintf("class 1:%x limit %d bytes, want %d", c.minor, rtnl.U32(qdiscs[i].options, 0), s.LimitBytes))
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
