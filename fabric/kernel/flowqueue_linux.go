package kernel

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// A queue that serves flows in turn is an HTB whose classes, one a flow queue, may all
// send faster than any port, so that nothing is left of HTB but the deficit round
// robin between them. The qdiscs made for the purpose (fq, sfq, drr) are missing on some
// hosts where HTB is not.
const (
	flowHandle              = 0x50 << 16 // under TBF; under HTB's leaves their class's number
	flowRate                = 1 << 35    // bytes a second: never the bottleneck
	flowBurst               = 1 << 20
	flowPrio                = 0
	tcaBPFOpsLen, tcaBPFOps = 4, 5
	sizeofBPFInsn           = 8
	majorMask               = 0xffff0000 // of a handle: the qdisc's part
)

func addFlowQueues(b *rtnl.Batch, index, handle, parent uint32, s *fabric.Shape, name string) {
	addHTBQdisc(b, index, handle, parent, 1, name)
	for i := range s.FlowQueues {
		addFlowQueue(b, index, handle, handle|uint32(i+1), s, name)
	}
	program := flowProgram(handle, s.FlowQueues)
	b.Begin(unix.RTM_NEWTFILTER, createNew, "add classifier of flows to", name)
	tcmsg(b, index, 0, handle, filterPrio<<16|uint32(htons(unix.ETH_P_IP)))
	b.AttrString(unix.TCA_KIND, "bpf")
	b.Nest(unix.TCA_OPTIONS)
	b.Attr(tcaBPFOpsLen, binary.NativeEndian.AppendUint16(nil, uint16(len(program)/sizeofBPFInsn)))
	b.Attr(tcaBPFOps, program)
	b.End()
}

func addFlowQueue(b *rtnl.Batch, index, parent, class uint32, s *fabric.Shape, name string) {
	b.Begin(unix.RTM_NEWTCLASS, createNew, "add queue of flows to", name)
	tcmsg(b, index, class, parent, 0)
	b.AttrString(unix.TCA_KIND, "htb")
	b.Nest(unix.TCA_OPTIONS)
	b.Nest(tcaHTBParms)
	rateSpec(b, flowRate)
	rateSpec(b, flowRate)
	b.U32(ticks(flowBurst, flowRate), ticks(flowBurst, flowRate), uint32(s.QuantumBytes), 0, flowPrio)
	b.End()
	b.AttrU64(tcaHTBRate64, flowRate)
	b.AttrU64(tcaHTBCeil64, flowRate)
	b.End()
	addQueue(b, index, 0, class, s, name) // the kernel numbers it
}

// flowProgram is flowClassifier as the kernel's sock_filter.
func flowProgram(handle uint32, queues int) (out []byte) {
	for _, i := range flowClassifier(handle, queues) {
		out = binary.NativeEndian.AppendUint16(out, i.Op)
		out = append(out, i.Jt, i.Jf)
		out = binary.NativeEndian.AppendUint32(out, i.K)
	}
	return out
}

// checkFlowQueues compares what hangs below a shaper or class with what addFlowQueues makes.
func checkFlowQueues(ns *namespace, qdiscs portQdiscs, parent uint32, s *fabric.Shape) (diffs []string, err error) {
	q := qdiscs.at(parent)
	if q == nil || q.kind != "htb" {
		return []string{"has no queues of flows"}, nil
	}
	classes, err := dumpTC(ns.conn, unix.RTM_GETTCLASS, "classes", q.index, 0)
	if err != nil {
		return nil, err
	}
	filters, err := dumpTC(ns.conn, unix.RTM_GETTFILTER, "filters", q.index, q.handle)
	if err != nil {
		return nil, err
	}
	if !leadsFlows(filters, flowProgram(q.handle, s.FlowQueues)) {
		diffs = append(diffs, "does not lead flows to their queues, and by nothing else")
	}
	queues, alike, limits := 0, 0, 0
	for _, c := range classes {
		if c.handle&majorMask != q.handle {
			continue
		}
		queues++
		if takesItsTurn(&c, s) {
			alike++
		}
		if len(checkQueue(qdiscs.at(c.handle), s)) == 0 {
			limits++
		}
	}
	switch {
	case queues != s.FlowQueues:
		diffs = append(diffs, fmt.Sprintf("has %d queues of flows, want %d", queues, s.FlowQueues))
	case alike != queues:
		diffs = append(diffs, fmt.Sprintf("serves %d of %d queues of flows other than in turn, %d bytes at a time", queues-alike, queues, s.QuantumBytes))
	case limits != queues:
		diffs = append(diffs, fmt.Sprintf("has %d of %d queues of flows with another limit than %d bytes", queues-limits, queues, s.LimitBytes))
	}
	return diffs, nil
}

// takesItsTurn compares a class with what addFlowQueue makes: tc_htb_opt's rate, ceil,
// quantum, level and priority.
func takesItsTurn(class *qdisc, s *fabric.Shape) bool {
	parms := rtnl.Find(class.options, tcaHTBParms)
	return wideRate(rtnl.U32(parms, 8), rtnl.Find(class.options, tcaHTBRate64)) == flowRate &&
		wideRate(rtnl.U32(parms, 20), rtnl.Find(class.options, tcaHTBCeil64)) == flowRate &&
		rtnl.U32(parms, 32) == uint32(s.QuantumBytes) && rtnl.U32(parms, 36) == 0 && rtnl.U32(parms, 40) == flowPrio
}

// leadsFlows reports whether the program classifies, and nothing else does.
func leadsFlows(filters []qdisc, program []byte) bool {
	programs := 0
	for _, f := range filters {
		ops := rtnl.Find(f.options, tcaBPFOps)
		switch {
		case f.kind == "bpf" && bytes.Equal(ops, program):
			programs++
		case len(f.options) > 0: // others are the heads of a kind's list
			return false
		}
	}
	return programs == 1
}
