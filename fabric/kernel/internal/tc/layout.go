//go:build linux

package tc

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink/nl"
)

// What nl of netlink v1.3.1 lacks of linux/pkt_sched.h.
const (
	tcaNetemLatency64                                = 10
	tcaREDParms, tcaREDStab, tcaREDMaxP, tcaREDFlags = 1, 2, 3, 4
	htbVersion, htbRate2Quantum                      = 3, 10
)

// TBF lets packets of any kind pass at a rate. Its own queue is a FIFO of Limit bytes.
type TBF struct {
	Bucket Bucket
	Limit  uint32
}

// Kind is "tbf".
func (q TBF) Kind() string { return "tbf" }

func (q TBF) layout(c *coder) Options {
	var p nl.TcTbfQopt
	c.load(nl.TCA_TBF_PARMS, p.Serialize())
	c.bucket("rate", "burst", nl.TCA_TBF_RATE64, kernelBucket{&p.Rate, &p.Buffer}, &q.Bucket)
	c.word("limit", " bytes", &p.Limit, &q.Limit)
	c.store(nl.TCA_TBF_PARMS, p.Serialize())
	burst := uint32(q.Bucket.Bytes) // the kernel takes it before Buffer, and does not report it
	c.store(nl.TCA_TBF_BURST, raw(&burst))
	return q
}

// HTB shares an interface among classes.
type HTB struct {
	Default uint32 // minor of the class for what no filter matches
	Direct  uint32 // packets that found no class and were not shaped
}

// Kind is "htb".
func (q HTB) Kind() string { return "htb" }

func (q HTB) layout(c *coder) Options {
	p := nl.TcHtbGlob{Version: htbVersion, Rate2Quantum: htbRate2Quantum}
	c.load(nl.TCA_HTB_INIT, p.Serialize())
	c.word("default class", hex, &p.Defcls, &q.Default)
	c.word("packets past the classes, unshaped:", "", &p.DirectPkts, &q.Direct)
	c.store(nl.TCA_HTB_INIT, p.Serialize())
	return q
}

// HTBClass is a class of HTB: sure of Rate, able to borrow up to Ceil.
type HTBClass struct {
	Rate, Ceil Bucket
	Quantum    uint32 // bytes it sends before another class of its priority
	Prio       uint32 // lower ones borrow first
}

// Kind is "htb".
func (q HTBClass) Kind() string { return "htb" }

func (q HTBClass) layout(c *coder) Options {
	var p nl.TcHtbCopt
	c.load(nl.TCA_HTB_PARMS, p.Serialize())
	c.bucket("rate", "burst", nl.TCA_HTB_RATE64, kernelBucket{&p.Rate, &p.Buffer}, &q.Rate)
	c.bucket("ceil", "cburst", nl.TCA_HTB_CEIL64, kernelBucket{&p.Ceil, &p.Cbuffer}, &q.Ceil)
	c.word("quantum", " bytes", &p.Quantum, &q.Quantum)
	c.word("priority", "", &p.Prio, &q.Prio)
	c.store(nl.TCA_HTB_PARMS, p.Serialize())
	return q
}

// FIFO is a queue of Limit bytes.
type FIFO struct{ Limit uint32 }

// Kind is "bfifo".
func (q FIFO) Kind() string { return "bfifo" }

func (q FIFO) layout(c *coder) Options {
	var limit uint32
	c.load(head, raw(&limit))
	c.word("limit", " bytes", &limit, &q.Limit)
	c.store(head, raw(&limit))
	return q
}

// RED is a queue of Limit bytes that marks packets instead of dropping them.
type RED struct {
	Limit uint32
	// Every packet that meets a backlog of MarkAll bytes is marked, of those that meet
	// MarkFrom some.
	MarkFrom, MarkAll uint32
	Averaging         uint8 // 0: the backlog of the moment counts
	Flags             uint32
}

// Flags of RED.
const (
	REDMarks  = 1 // ECN
	REDNoDrop = 8 // packets that cannot be marked stay
)

// redQopt is tc_red_qopt. The flags of today have an attribute of their own.
type redQopt struct {
	limit, min, max                     uint32
	weight, probability, idleCell, flag uint8
}

// redStab forgets the average after any idle time: shifts that leave nothing of it.
var redStab = bytes.Repeat([]byte{31}, 256)

// Kind is "red".
func (q RED) Kind() string { return "red" }

func (q RED) layout(c *coder) Options {
	p, most := redQopt{idleCell: 10}, uint32(1<<31) // the latter two matter only between the thresholds
	flags := nl.Uint32Bitfield{Selector: q.Flags}
	c.load(tcaREDParms, raw(&p))
	c.load(tcaREDFlags, raw(&flags))
	c.word("limit", " bytes", &p.limit, &q.Limit)
	c.word("marks some from", " bytes", &p.min, &q.MarkFrom)
	c.word("marks from", " bytes", &p.max, &q.MarkAll)
	c.byte("weight of the past", "", &p.weight, &q.Averaging)
	c.word("flags", hex, &flags.Value, &q.Flags)
	c.store(tcaREDParms, raw(&p))
	c.store(tcaREDStab, redStab)
	c.store(tcaREDMaxP, raw(&most))
	c.store(tcaREDFlags, raw(&flags))
	return q
}

// Netem delays packets before they reach the qdisc below it.
type Netem struct {
	Delay                        time.Duration
	Limit                        uint32 // packets under way
	Loss, Gap, Duplicate, Jitter uint32 // 0: it loses, reorders, repeats nothing, and every delay is the same
}

// Kind is "netem".
func (q Netem) Kind() string { return "netem" }

func (q Netem) layout(c *coder) Options {
	// The field for the delay, in ticks and 32 bits wide, holds 274 s; the kernel
	// prefers the wide one, in nanoseconds.
	p := nl.TcNetemQopt{Latency: uint32(q.Delay / TickNanoseconds)}
	c.load(head, p.Serialize())
	c.word("limit", " packets", &p.Limit, &q.Limit)
	c.word("loss", "", &p.Loss, &q.Loss)
	c.word("reordering gap", "", &p.Gap, &q.Gap)
	c.word("duplication", "", &p.Duplicate, &q.Duplicate)
	c.word("jitter", "", &p.Jitter, &q.Jitter)
	c.store(head, p.Serialize())
	c.duration("delay", tcaNetemLatency64, &q.Delay)
	return q
}

// U32 is a filter that sends packets to a class by one 32-bit word of the IP header.
type U32 struct {
	Class       Handle
	Mask, Value uint32 // in host order
	Offset      int32  // bytes into the header
	Keys        uint8  // words that it compares; this value holds the first
}

// The differentiated services code point in the first word of an IPv4 header. The two
// ECN bits beside it change on the way.
const (
	dscpMask  = 0xfc << 16
	dscpShift = 2 + 16
)

// DSCP is the filter that sends a code point (0..63) to a class.
func DSCP(dscp int, class Handle) U32 {
	return U32{Class: class, Mask: dscpMask, Value: uint32(dscp) << dscpShift, Keys: 1}
}

// Kind is "u32".
func (q U32) Kind() string { return "u32" }

// String says what goes where.
func (q U32) String() string {
	if q == DSCP(int(q.Value>>dscpShift), q.Class) {
		return fmt.Sprintf("u32 filter of dscp %d to class %s", q.Value>>dscpShift, q.Class)
	}
	return fmt.Sprintf("u32 filter of %d keys, first %08x/%08x at %d, to class %s", q.Keys, q.Value, q.Mask, q.Offset, q.Class)
}

func (q U32) layout(c *coder) Options {
	class := uint32(q.Class)
	c.store(nl.TCA_U32_CLASSID, raw(&class))
	c.load(nl.TCA_U32_CLASSID, raw(&class))
	q.Class = Handle(class)
	c.key(&q)
	return q
}

// BPF is a filter that is a program of classic BPF. Its result is the class.
type BPF struct{ Program string } // in the kernel's sock_filter instructions

const sizeofSockFilter = 8

// Kind is "bpf".
func (q BPF) Kind() string { return "bpf" }

// String tells programs apart.
func (q BPF) String() string {
	return fmt.Sprintf("bpf filter of %d instructions (checksum %08x)", len(q.Program)/sizeofSockFilter, crc32.ChecksumIEEE([]byte(q.Program)))
}

func (q BPF) layout(c *coder) Options {
	length := uint16(len(q.Program) / sizeofSockFilter)
	c.store(nl.TCA_BPF_OPS_LEN, raw(&length))
	c.text(nl.TCA_BPF_OPS, &q.Program)
	return q
}

// raw is a value's memory.
func raw[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}
