package kernel

import (
	"math/bits"
	"slices"

	"golang.org/x/net/bpf"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/tc"
	"github.com/netkvlab/netkvlab/scenarios"
)

// Handles of a port's qdiscs. The shaper has one handle whether TBF or HTB, and
// whether it is the root or below a delay; with classes, class 1:10 holds qdisc
// 10: and so on.
const (
	rootHandle  tc.Handle = 1 << 16
	classLink             = rootHandle | 1 // HTB's class of the whole link, and the place of TBF's queue
	delayHandle tc.Handle = 2 << 16
	delayClass            = delayHandle | 1 // netem's only class, where its child hangs
	markHandle  tc.Handle = 0x40 << 16      // under TBF; HTB's leaves have their class's number
	flowHandle  tc.Handle = 0x50 << 16      // likewise

	minorKV    tc.Handle = 0x10
	minorBack  tc.Handle = 0x20
	minorOther tc.Handle = 0x30
)

const (
	htbQuantum = 2 * fabric.FrameBytes
	// delayPackets is how many packets netem may hold: more than any delay lets
	// gather, because netem drops the others.
	delayPackets = 1_000_000
	// The class of a queue for flows never is the bottleneck.
	flowRate  = 1 << 35 // bytes per second
	flowBurst = 1 << 20
)

// byteRate is a rate in bytes per second, rounded to the nearest.
func byteRate(r fabric.BitsPerSecond) uint64 { return uint64(r+4) / 8 }

// shaperParent is where a port's shaper hangs: at the root, or under its delay.
func shaperParent(delayed bool) tc.Handle {
	if delayed {
		return delayClass
	}
	return tc.Root
}

// delays reports whether a port has a delay that can be emulated.
func (f Features) delays(p *fabric.Port) bool { return f.Latency && p.Shape.Delay > 0 }

// queueing is the tree that the kernel must hold for a port's shape.
//
// A port with a delay has netem at its root and its shaper as netem's child: packets
// first wait for the delay and then join the shaper's queue, whose rate, limit and
// counters are the same as without. The other way round, netem as the shaper's child,
// delayed packets would count as backlog and take room from it.
func queueing(plan *fabric.Plan, s *fabric.Shape, delayed bool) tc.Tree {
	q := queues{shape: s}
	if delayed {
		q.add(tc.Root, delayHandle, tc.Netem{Delay: uint64(s.Delay), Limit: delayPackets})
	}
	if s.Classes {
		q.addClasses(plan, shaperParent(delayed))
		return q.tree
	}
	q.add(shaperParent(delayed), rootHandle, tc.TBF{Bucket: q.bucket(s.Rate), Limit: uint32(s.LimitBytes)})
	switch { // by itself, TBF has a FIFO of its limit
	case s.FlowQueues > 0:
		q.addFlowQueues(classLink, flowHandle)
	case s.MarkBytes > 0:
		q.add(classLink, markHandle, q.queue())
	}
	return q.tree
}

// queues builds a port's tree.
type queues struct {
	shape *fabric.Shape
	tree  tc.Tree
}

func (q *queues) add(parent, handle tc.Handle, o tc.Options) {
	q.tree = append(q.tree, tc.Object{Parent: parent, Handle: handle, Options: o})
}

func (q *queues) bucket(r fabric.BitsPerSecond) tc.Bucket {
	return tc.Bucket{Rate: byteRate(r), Bytes: float64(q.shape.BurstBytes)}
}

// queue holds the packets of a shaper or class: a FIFO bounded in bytes, or RED
// where the queue marks. RED is set up as a DCTCP switch: both thresholds are the same,
// and compared with the current backlog, so that every packet that meets K bytes
// or more is marked. Packets that cannot be marked wait and are dropped at the limit,
// as without RED.
func (q *queues) queue() tc.Options {
	limit, mark := uint32(q.shape.LimitBytes), uint32(q.shape.MarkBytes)
	if mark == 0 {
		return tc.FIFO{Limit: limit}
	}
	return tc.RED{Limit: limit, MarkFrom: mark, MarkAll: mark, Flags: tc.REDMarks | tc.REDNoDrop}
}

// addClasses makes HTB with one class per kind of traffic. The last gets all that the others
// do not match, and borrows first.
func (q *queues) addClasses(plan *fabric.Plan, parent tc.Handle) {
	link := q.bucket(q.shape.Rate)
	q.add(parent, rootHandle, tc.HTB{Default: uint32(minorOther)})
	q.add(rootHandle, classLink, tc.HTBClass{Rate: link, Ceil: link, Quantum: htbQuantum})
	for _, c := range []struct {
		minor tc.Handle
		rate  fabric.BitsPerSecond
		kind  string
		dscp  int
	}{
		{minorKV, q.shape.KVRate, scenarios.PriorityTransfers, plan.KVDSCP},
		{minorBack, q.shape.BackgroundRate, scenarios.PriorityBackground, plan.BackgroundDSCP},
		{minor: minorOther, rate: q.shape.OtherRate},
	} {
		class, leaf, prio := rootHandle|c.minor, c.minor<<16, uint32(1)
		if c.minor == minorOther {
			prio = 0
		} else if q.shape.First != "" && q.shape.First != c.kind {
			prio = 2
		}
		q.add(classLink, class, tc.HTBClass{Rate: q.bucket(c.rate), Ceil: link, Quantum: htbQuantum, Prio: prio})
		if q.shape.FlowQueues > 0 && c.minor != minorOther {
			q.addFlowQueues(class, leaf)
		} else {
			q.add(class, leaf, q.queue())
		}
		if c.minor != minorOther {
			q.add(rootHandle, 0, tc.DSCP(c.dscp, class))
		}
	}
}

// addFlowQueues makes a queue that serves flows in turn: an HTB with one class per flow
// queue. Each class may send faster than any port, so HTB only does its
// deficit round robin between them. The qdiscs made for the purpose (fq, sfq, drr) are
// missing on some hosts that have HTB.
func (q *queues) addFlowQueues(parent, handle tc.Handle) {
	all := tc.Bucket{Rate: flowRate, Bytes: flowBurst}
	var class, queue tc.Options = tc.HTBClass{Rate: all, Ceil: all, Quantum: uint32(q.shape.QuantumBytes)}, q.queue()
	q.add(parent, handle, tc.HTB{Default: 1})
	q.tree = slices.Grow(q.tree, 2*q.shape.FlowQueues+1)
	for i := range q.shape.FlowQueues {
		h := handle | tc.Handle(i+1)
		q.add(handle, h, class)
		q.add(h, 0, queue)
	}
	q.add(handle, 0, flowFilter(handle, q.shape.FlowQueues))
}

// flowFilter is flowClassifier as the kernel's sock_filter, which has the same layout.
func flowFilter(handle tc.Handle, queues int) tc.BPF {
	var out []byte
	for _, i := range flowClassifier(uint32(handle), queues) {
		out = append(out, rtnl.Raw(&i)...)
	}
	return tc.BPF{Program: string(out)}
}

// flowClassifier is the classic BPF program that sends an Ethernet frame of IPv4 to the
// queue of its flow: class 1 to queues of the qdisc with the given handle, by a hash of
// addresses and ports. queues is a power of two, at most 2^15. The program would read
// IP options as ports, but nothing here sends IP options.
func flowClassifier(handle uint32, queues int) []bpf.RawInstruction {
	const ethernet, source, destination, ports = 14, 12, 16, 20 // offsets; the last three in the IP header
	// Each product spreads its factor over the bits above; only the topmost are used.
	const a, b, c = 0x9e3779b1, 0x85ebca77, 0xc2b2ae3d // large odd numbers
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: ethernet + source, Size: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpMul, Val: a},
		bpf.StoreScratch{Src: bpf.RegA, N: 0},
		bpf.LoadAbsolute{Off: ethernet + destination, Size: 4},
		bpf.LoadScratch{Dst: bpf.RegX, N: 0},
		bpf.ALUOpX{Op: bpf.ALUOpAdd},
		bpf.ALUOpConstant{Op: bpf.ALUOpMul, Val: b},
		bpf.StoreScratch{Src: bpf.RegA, N: 0},
		bpf.LoadAbsolute{Off: ethernet + ports, Size: 4},
		bpf.LoadScratch{Dst: bpf.RegX, N: 0},
		bpf.ALUOpX{Op: bpf.ALUOpAdd},
		bpf.ALUOpConstant{Op: bpf.ALUOpMul, Val: c},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: uint32(32 - bits.Len(uint(queues-1)))},
		bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: handle | 1},
		bpf.RetA{},
	})
	if err != nil {
		panic("kernel: the classifier of flows does not assemble: " + err.Error()) // all operands are constants
	}
	return program
}

// tryTree makes a tree object by object on the loopback interface and returns the first error.
func tryTree(c *rtnl.Conn, tree tc.Tree) error {
	for i := range tree {
		var b rtnl.Batch
		tree[i:i+1].Add(&b, loIndex, "lo")
		if err := c.Exec(&b); err != nil {
			return err
		}
	}
	return nil
}
