//go:build linux

// Package tc holds the queueing of an interface as a value: a Tree of qdiscs, classes and
// filters. The same value is written to the kernel, read back from it and compared.
//
// Each kind has one layout method, which defines the place of every field in
// the kernel's messages. Writing, reading and comparing all run it. A new setting is a
// new field of a kind and one line in its layout.
package tc

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// Handle names a qdisc (MAJOR:) or a class (MAJOR:MINOR).
type Handle uint32

// Root is the parent of an interface's first qdisc.
const Root Handle = math.MaxUint32

// Qdisc is the handle of the qdisc that a class belongs to.
func (h Handle) Qdisc() Handle { return h &^ math.MaxUint16 }

// String is the handle as the tc command writes it.
func (h Handle) String() string {
	switch {
	case h == Root:
		return "root"
	case h == h.Qdisc():
		return fmt.Sprintf("%x:", uint32(h>>16))
	}
	return fmt.Sprintf("%x:%x", uint32(h>>16), uint16(h))
}

// Type is what an object is: the netlink message that makes it.
type Type uint16

// The types of object.
const (
	Qdisc  Type = unix.RTM_NEWQDISC
	Class  Type = unix.RTM_NEWTCLASS
	Filter Type = unix.RTM_NEWTFILTER
)

// Object is a qdisc, a class or a filter.
type Object struct {
	// Parent is the class that holds a qdisc, the class or qdisc that a class is
	// part of, or the qdisc that uses a filter.
	Parent Handle
	// Handle is 0 for filters, and for a qdisc whose number the kernel chooses.
	Handle  Handle
	Options Options
}

// Tree is the queueing of one interface.
type Tree []Object

// Options are the settings of an object; their type is the object's kind.
type Options interface {
	kind() (Type, string)
	// layout runs the coder over all fields and returns the options with what it read.
	layout(c *coder) Options
}

// Bucket is a token bucket.
type Bucket struct {
	// Rate in bytes per second, at least 1.
	Rate uint64
	// Bytes is the depth. The kernel reports it as the time that the bytes take at the
	// rate, in ticks, so that what is read back is rounded.
	Bytes float64
}

// TickNanoseconds is the kernel's unit of bucket depths.
const TickNanoseconds = 64

// Ticks is the depth as the kernel counts it, rounded up.
func (b Bucket) Ticks() uint32 {
	const fuzz = 1e-6 // of a tick: what arithmetic adds to a depth that was read
	t := math.Ceil(b.Bytes*1e9/float64(b.Rate)/TickNanoseconds - fuzz)
	return uint32(max(0, min(t, math.MaxUint32)))
}

// TBF lets packets of any kind pass at a rate. Its own queue is a FIFO of Limit bytes.
type TBF struct {
	Bucket Bucket
	Limit  uint32
}

// HTB shares an interface among classes.
type HTB struct {
	Default uint32 // minor of the class for what no filter matches
	Direct  uint32 // packets that found no class and were not shaped
}

// HTBClass is a class of HTB: Rate is guaranteed, and it may borrow up to Ceil.
type HTBClass struct {
	Rate, Ceil Bucket
	Quantum    uint32 // bytes it sends before another class of its priority
	Prio       uint32 // lower ones borrow first
}

// FIFO is a queue of Limit bytes.
type FIFO struct{ Limit uint32 }

// RED is a queue of Limit bytes that marks packets instead of dropping them: of those that
// meet a backlog of MarkFrom bytes some, from MarkAll on all.
type RED struct {
	Limit, MarkFrom, MarkAll uint32
	Averaging                uint8 // 0: the current backlog counts
	Flags                    uint32
}

// Flags of RED.
const (
	REDMarks  = 1 // ECN
	REDNoDrop = 8 // packets that cannot be marked stay
)

// Netem delays packets before they reach the qdisc below it.
type Netem struct {
	Delay                        uint64 // nanoseconds
	Limit                        uint32 // delayed packets that it holds
	Loss, Gap, Duplicate, Jitter uint32 // 0: it loses, reorders, repeats nothing, and every delay is the same
}

// U32 is a filter that sends packets to a class by one 32-bit word of the IP header.
type U32 struct {
	Class       uint32
	Mask, Value uint32 // in network order
	Offset      uint32 // bytes into the header
	Keys        uint8  // words that it compares; this value holds the first
}

// BPF is a filter that is a program of classic BPF. Its result is the class.
type BPF struct{ Program string } // the kernel's sock_filter instructions

// Other is a kind that no plan has but the kernel holds.
type Other struct {
	Type Type
	Name string
}

func (TBF) kind() (Type, string)      { return Qdisc, "tbf" }
func (HTB) kind() (Type, string)      { return Qdisc, "htb" }
func (HTBClass) kind() (Type, string) { return Class, "htb" }
func (FIFO) kind() (Type, string)     { return Qdisc, "bfifo" }
func (RED) kind() (Type, string)      { return Qdisc, "red" }
func (Netem) kind() (Type, string)    { return Qdisc, "netem" }
func (U32) kind() (Type, string)      { return Filter, "u32" }
func (BPF) kind() (Type, string)      { return Filter, "bpf" }
func (o Other) kind() (Type, string)  { return o.Type, o.Name }

// kinds are those that can be read.
var kinds = []Options{TBF{}, HTB{}, HTBClass{}, FIFO{}, RED{}, Netem{}, U32{}, BPF{}}

func (q TBF) layout(c *coder) Options {
	var p nl.TcTbfQopt
	c.load(nl.TCA_TBF_PARMS, p.Serialize())
	c.bucket("rate", "burst", nl.TCA_TBF_RATE64, kernelBucket{&p.Rate, &p.Buffer}, &q.Bucket)
	number(c, "limit", "%d bytes", &p.Limit, &q.Limit)
	c.store(nl.TCA_TBF_PARMS, p.Serialize())
	burst := uint32(q.Bucket.Bytes) // the kernel takes it before Buffer, and does not report it
	c.store(nl.TCA_TBF_BURST, rtnl.Raw(&burst))
	return result(c, q)
}

func (q HTB) layout(c *coder) Options {
	p := nl.TcHtbGlob{Version: 3, Rate2Quantum: 10}
	c.load(nl.TCA_HTB_INIT, p.Serialize())
	number(c, "default class", "%#x", &p.Defcls, &q.Default)
	number(c, "packets past the classes, unshaped:", "%d", &p.DirectPkts, &q.Direct)
	c.store(nl.TCA_HTB_INIT, p.Serialize())
	return result(c, q)
}

func (q HTBClass) layout(c *coder) Options {
	var p nl.TcHtbCopt
	c.load(nl.TCA_HTB_PARMS, p.Serialize())
	c.bucket("rate", "burst", nl.TCA_HTB_RATE64, kernelBucket{&p.Rate, &p.Buffer}, &q.Rate)
	c.bucket("ceil", "cburst", nl.TCA_HTB_CEIL64, kernelBucket{&p.Ceil, &p.Cbuffer}, &q.Ceil)
	number(c, "quantum", "%d bytes", &p.Quantum, &q.Quantum)
	number(c, "priority", "%d", &p.Prio, &q.Prio)
	c.store(nl.TCA_HTB_PARMS, p.Serialize())
	return result(c, q)
}

func (q FIFO) layout(c *coder) Options {
	var limit uint32
	c.load(head, rtnl.Raw(&limit))
	number(c, "limit", "%d bytes", &limit, &q.Limit)
	c.store(head, rtnl.Raw(&limit))
	return result(c, q)
}

// redQopt is tc_red_qopt, which nl lacks. The flags of today have an attribute of their own.
type redQopt struct {
	limit, min, max        uint32
	weight, _, idleCell, _ uint8
}

// redStab makes RED forget the average after any idle time: the shifts make it 0.
var redStab = bytes.Repeat([]byte{31}, 256)

func (q RED) layout(c *coder) Options {
	const parms, stab, maxP, flagBits = 1, 2, 3, 4 // attributes, which nl lacks
	p, most := redQopt{idleCell: 10}, uint32(1<<31)
	flags := nl.Uint32Bitfield{Selector: q.Flags}
	c.load(parms, rtnl.Raw(&p))
	c.load(flagBits, rtnl.Raw(&flags))
	number(c, "limit", "%d bytes", &p.limit, &q.Limit)
	number(c, "marks some from", "%d bytes", &p.min, &q.MarkFrom)
	number(c, "marks from", "%d bytes", &p.max, &q.MarkAll)
	number(c, "weight of the past", "%d", &p.weight, &q.Averaging)
	number(c, "flags", "%#x", &flags.Value, &q.Flags)
	c.store(parms, rtnl.Raw(&p))
	c.store(stab, redStab)
	c.store(maxP, rtnl.Raw(&most))
	c.store(flagBits, rtnl.Raw(&flags))
	return result(c, q)
}

func (q Netem) layout(c *coder) Options {
	const latency64 = 10 // an attribute, which nl lacks
	// The field for the delay, in ticks and 32 bits wide, holds 274 s; the kernel
	// prefers the wide one.
	p, delay := nl.TcNetemQopt{Latency: uint32(q.Delay / TickNanoseconds)}, uint64(0)
	c.load(head, p.Serialize())
	c.load(latency64, rtnl.Raw(&delay))
	number(c, "delay", nanoseconds, &delay, &q.Delay)
	number(c, "limit", "%d packets", &p.Limit, &q.Limit)
	number(c, "loss", "%d", &p.Loss, &q.Loss)
	number(c, "reordering gap", "%d", &p.Gap, &q.Gap)
	number(c, "duplication", "%d", &p.Duplicate, &q.Duplicate)
	number(c, "jitter", "%d", &p.Jitter, &q.Jitter)
	c.store(head, p.Serialize())
	c.store(latency64, rtnl.Raw(&delay))
	return result(c, q)
}

// u32Sel is tc_u32_sel with one key. nl's has a slice of keys, which is not the kernel's
// memory layout, and its decoder panics on incomplete keys.
type u32Sel struct {
	flags, _, keys, _ uint8
	_                 [3]uint32
	key               struct{ mask, value, offset, offsetMask uint32 }
}

func (q U32) layout(c *coder) Options {
	sel, class := u32Sel{flags: nl.TC_U32_TERMINAL}, uint32(0)
	c.load(nl.TCA_U32_CLASSID, rtnl.Raw(&class))
	c.load(nl.TCA_U32_SEL, rtnl.Raw(&sel))
	number(c, "class", "%#x", &class, &q.Class)
	number(c, "mask", "%#x", &sel.key.mask, &q.Mask)
	number(c, "value", "%#x", &sel.key.value, &q.Value)
	number(c, "offset", "%d bytes", &sel.key.offset, &q.Offset)
	number(c, "keys", "%d", &sel.keys, &q.Keys)
	c.store(nl.TCA_U32_CLASSID, rtnl.Raw(&class))
	c.store(nl.TCA_U32_SEL, rtnl.Raw(&sel))
	return result(c, q)
}

// The differentiated services code point in the first word of an IPv4 header. The two
// ECN bits beside it change on the way.
const (
	dscpMask  = 0xfc << 16
	dscpShift = 2 + 16
)

// DSCP is the filter that sends a code point (0..63) to a class.
func DSCP(dscp int, class Handle) U32 {
	return U32{Class: uint32(class), Mask: nl.Swap32(dscpMask), Value: nl.Swap32(uint32(dscp) << dscpShift), Keys: 1}
}

// String says which packets go to which class.
func (q U32) String() string {
	dscp := int(nl.Swap32(q.Value) >> dscpShift)
	if q == DSCP(dscp, Handle(q.Class)) {
		return fmt.Sprintf("of dscp %d to class %s", dscp, Handle(q.Class))
	}
	return fmt.Sprintf("of %d keys, first %08x/%08x at %d, to class %s", q.Keys, nl.Swap32(q.Value), nl.Swap32(q.Mask), q.Offset, Handle(q.Class))
}

const sizeofSockFilter = 8

func (q BPF) layout(c *coder) Options {
	length := uint16(len(q.Program) / sizeofSockFilter)
	c.store(nl.TCA_BPF_OPS_LEN, rtnl.Raw(&length))
	c.store(nl.TCA_BPF_OPS, []byte(q.Program))
	q.Program = string(rtnl.Find(c.in, nl.TCA_BPF_OPS)) // which counts only where the coder reads
	return result(c, q)
}

// String identifies the program.
func (q BPF) String() string {
	return fmt.Sprintf("of %d instructions (checksum %08x)", len(q.Program)/sizeofSockFilter, crc32.ChecksumIEEE([]byte(q.Program)))
}

func (o Other) layout(*coder) Options { return o }

// String describes a filter.
func (o Other) String() string { return "of a kind that no plan has" }
