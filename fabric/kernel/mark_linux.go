package kernel

import (
	"bytes"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// A queue that marks is RED instead of a plain FIFO, set up as a DCTCP switch: both
// thresholds are the same, and compared with the backlog of the moment (a weight
// of one), so that every packet that meets K bytes or more is marked. Packets
// that cannot be marked wait and are dropped at the limit, as without RED.
const (
	markHandle                                         = 0x40 << 16 // under TBF; HTB's leaves have their class's number
	tcaREDParms, tcaREDStab, tcaREDMaxP, tcaREDFlags   = 1, 2, 3, 4
	redECN, redNoDrop                                  = 1, 8
	redWeight, redProbability, redIdleCell             = 0, 0, 10
	redForget                                          = 31 // a shift that leaves nothing of the average after an idle time
	redStabSize                                        = 256
	tcaStatsApp                                        = 4
	redXstatsMarked                                    = 12 // in tc_red_xstats: early, pdrop, other, marked
	redOptLimit, redOptMin, redOptMax, redOptLogarithm = 0, 4, 8, 12
)

func addRED(b *rtnl.Batch, index, handle, parent uint32, s *fabric.Shape, name string) {
	b.Begin(unix.RTM_NEWQDISC, createNew, "add red to", name)
	tcmsg(b, index, handle, parent, 0)
	b.AttrString(unix.TCA_KIND, "red")
	b.Nest(unix.TCA_OPTIONS)
	b.Nest(tcaREDParms)
	b.U32(uint32(s.LimitBytes), uint32(s.MarkBytes), uint32(s.MarkBytes))
	b.U8(redWeight, redProbability, redIdleCell, 0) // the flags have an attribute of their own
	b.End()
	b.Attr(tcaREDStab, bytes.Repeat([]byte{redForget}, redStabSize))
	b.AttrU32(tcaREDMaxP, 1<<31)
	b.Nest(tcaREDFlags)
	b.U32(redECN|redNoDrop, redECN|redNoDrop) // value and which of its bits hold
	b.End()
	b.End()
}

// addQueue makes what holds the packets of a shaper or class: a FIFO bounded in
// bytes, or RED where the queue marks.
func addQueue(b *rtnl.Batch, index, handle, parent uint32, s *fabric.Shape, name string) {
	if s.MarkBytes > 0 {
		addRED(b, index, handle, parent, s, name)
		return
	}
	b.Begin(unix.RTM_NEWQDISC, createNew, "add bfifo to", name)
	tcmsg(b, index, handle, parent, 0)
	b.AttrString(unix.TCA_KIND, "bfifo")
	b.Nest(unix.TCA_OPTIONS)
	b.U32(uint32(s.LimitBytes))
	b.End()
}

// checkQueue compares a queue with what addQueue makes; q is nil where there is none.
func checkQueue(q *qdisc, s *fabric.Shape) []string {
	kind, limit := "bfifo", 0
	if s.MarkBytes > 0 {
		kind = "red"
	}
	if q == nil || q.kind != kind {
		return []string{"has no " + kind}
	}
	if kind == "bfifo" {
		limit = int(rtnl.U32(q.options, 0))
	} else {
		limit = int(rtnl.U32(rtnl.Find(q.options, tcaREDParms), redOptLimit))
	}
	var diffs []string
	if limit != s.LimitBytes {
		diffs = append(diffs, fmt.Sprintf("limit %d bytes, want %d", limit, s.LimitBytes))
	}
	if kind == "red" {
		diffs = append(diffs, checkMarking(q.options, s)...)
	}
	return diffs
}

func checkMarking(options []byte, s *fabric.Shape) (diffs []string) {
	parms := rtnl.Find(options, tcaREDParms)
	least, most := rtnl.U32(parms, redOptMin), rtnl.U32(parms, redOptMax)
	if least != uint32(s.MarkBytes) || most != uint32(s.MarkBytes) {
		diffs = append(diffs, fmt.Sprintf("marks from %d to %d bytes, want from %d", least, most, s.MarkBytes))
	}
	if weight := rtnl.Skip(parms, redOptLogarithm); len(weight) == 0 || weight[0] != redWeight {
		diffs = append(diffs, "marks by an average, want by the backlog of the moment")
	}
	if flags := rtnl.U32(rtnl.Find(options, tcaREDFlags), 0); flags != redECN|redNoDrop {
		diffs = append(diffs, fmt.Sprintf("flags %#x, want %#x (ecn nodrop)", flags, redECN|redNoDrop))
	}
	return diffs
}
