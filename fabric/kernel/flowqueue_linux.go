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
// robin between them. Unlike the qdiscs made for the purpose (fq, sfq, drr), it is on
// every host that a lab runs on. A class's own queue is the pfifo that it is born
// with: that one is in no ordinary list, so that counters stay cheap to read, and takes
// its limit from the interface's transmit queue length at that moment.
const (
	flowHandle                  = 0x50 << 16 // under TBF; under HTB's leaves their class's number
	flowRate                    = 1 << 35    // bytes a second: never the bottleneck
	flowBurst                   = 1 << 20
	tcaBPFOpsLen, tcaBPFOps     = 4, 5
	htbQuantumAt, sizeofBPFInsn = 32, 8
)

// flowPackets is what one flow's queue holds at most: packets as they were handed
// down, each up to the quantum.
func flowPackets(s *fabric.Shape) uint32 { return uint32(max(1, s.LimitBytes/s.QuantumBytes)) }

// limitFlowQueues sets what the flow queues made after it will hold.
func limitFlowQueues(b *rtnl.Batch, index uint32, s *fabric.Shape, name string) {
	b.Begin(unix.RTM_NEWLINK, 0, "set transmit queue length of", name)
	ifinfo(b, index, 0)
	b.AttrU32(unix.IFLA_TXQLEN, flowPackets(s))
}

func addFlowQueues(b *rtnl.Batch, index, handle, parent uint32, s *fabric.Shape, name string) {
	b.Begin(unix.RTM_NEWQDISC, createNew, "add queues of flows to", name)
	tcmsg(b, index, handle, parent, 0)
	b.AttrString(unix.TCA_KIND, "htb")
	b.Nest(unix.TCA_OPTIONS)
	b.Nest(tcaHTBInit)
	b.U32(htbVersion, 10, 1, 0, 0) // version, rate2quantum, default class, debug, direct packets
	b.End()
	b.End()
	for i := range s.FlowQueues {
		b.Begin(unix.RTM_NEWTCLASS, createNew, "add queue of flows to", name)
		tcmsg(b, index, handle|uint32(i+1), handle, 0)
		b.AttrString(unix.TCA_KIND, "htb")
		b.Nest(unix.TCA_OPTIONS)
		b.Nest(tcaHTBParms)
		rateSpec(b, flowRate)
		rateSpec(b, flowRate)
		b.U32(ticks(flowBurst, flowRate), ticks(flowBurst, flowRate), uint32(s.QuantumBytes), 0, 0)
		b.End()
		b.AttrU64(tcaHTBRate64, flowRate)
		b.AttrU64(tcaHTBCeil64, flowRate)
		b.End()
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

// flowProgram is flowClassifier as the kernel's sock_filter.
func flowProgram(handle uint32, queues int) (out []byte) {
	for _, i := range flowClassifier(handle, queues) {
		out = binary.NativeEndian.AppendUint16(out, i.Op)
		out = append(out, i.Jt, i.Jf)
		out = binary.NativeEndian.AppendUint32(out, i.K)
	}
	return out
}

// checkFlowQueues compares what hangs below a shaper or class with what addFlowQueues
// makes. The qdiscs include those that ordinary lists leave out.
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
	if !hasProgram(filters, flowProgram(q.handle, s.FlowQueues)) {
		diffs = append(diffs, "does not lead flows to their queues")
	}
	queues, turns, limits := 0, 0, 0
	for _, c := range classes {
		if c.handle&0xffff0000 != q.handle {
			continue
		}
		queues++
		if rtnl.U32(rtnl.Find(c.options, tcaHTBParms), htbQuantumAt) == uint32(s.QuantumBytes) {
			turns++
		}
	}
	for _, l := range qdiscs {
		if l.parent&0xffff0000 == q.handle && l.kind == "pfifo" && rtnl.U32(l.options, 0) == flowPackets(s) {
			limits++
		}
	}
	for _, c := range []struct {
		got  int
		what string
	}{
		{queues, "queues of flows"},
		{turns, fmt.Sprintf("queues that are served %d bytes in turn", s.QuantumBytes)},
		{limits, fmt.Sprintf("queues with a limit of %d packets", flowPackets(s))},
	} {
		if c.got != s.FlowQueues {
			diffs = append(diffs, fmt.Sprintf("has %d %s, want %d", c.got, c.what, s.FlowQueues))
		}
	}
	return diffs, nil
}

func hasProgram(filters []qdisc, program []byte) bool {
	for _, f := range filters {
		if f.kind == "bpf" && bytes.Equal(rtnl.Find(f.options, tcaBPFOps), program) {
			return true
		}
	}
	return false
}
