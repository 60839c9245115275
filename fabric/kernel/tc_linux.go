package kernel

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// Traffic control as of linux/pkt_sched.h and linux/pkt_cls.h. Rates are
// bytes a second. The old 32-bit field wraps above 34.36 Gbit/s, so faster
// rates travel in the 64-bit attributes and the old field is all ones.
const (
	tcaTBFParms, tcaTBFRate64, tcaTBFBurst              = 1, 4, 6
	tcaHTBParms, tcaHTBInit, tcaHTBRate64, tcaHTBCeil64 = 1, 2, 6, 7
	tcaU32ClassID, tcaU32Sel                            = 1, 5
	tcaStatsBasic, tcaStatsQueue, tcaStatsPkt64         = 1, 3, 8
	handleRoot                                          = 0xFFFFFFFF
	tickNanoseconds                                     = 64 // the kernel's unit of bucket depths
	linkLayerEthernet                                   = 1
	htbVersion                                          = 3
)

// Handles of the qdisc tree. The shaper has one handle whether TBF or HTB, and
// whether it is the root or below a delay; with classes, class 1:10 holds qdisc
// 10: and so on.
const (
	rootHandle   = 1 << 16
	classLink    = rootHandle | 1 // HTB's class of the whole link, and the place of TBF's queue
	minorKV      = 0x10
	minorBack    = 0x20
	minorOther   = 0x30
	dscpMask     = 0xfc // the two ECN bits of the byte change on the way
	filterPrio   = 1
	htbQuantum   = 2 * fabric.FrameBytes
	tosWordShift = 16 // the TOS byte in the first 32-bit word of an IPv4 header
)

// tcmsg appends the header of a traffic control request.
func tcmsg(b *rtnl.Batch, index, handle, parent, info uint32) {
	b.U8(unix.AF_UNSPEC, 0)
	b.U16(0)
	b.U32(index, handle, parent, info)
}

// rateSpec appends a tc_ratespec.
func rateSpec(b *rtnl.Batch, rate uint64) {
	b.U8(0, linkLayerEthernet)
	b.U16(0, 0xFFFF, 0) // overhead, cell align (-1: none), mpu
	b.U32(uint32(min(rate, math.MaxUint32)))
}

// byteRate is a rate in bytes a second, rounded to the nearest.
func byteRate(r fabric.BitsPerSecond) uint64 { return uint64(r+4) / 8 }

// ticks is the depth of a token bucket as the kernel counts it: the time the
// bytes take at the rate, rounded up.
func ticks(bytes int, rate uint64) uint32 {
	t := math.Ceil(float64(bytes) * 1e9 / float64(rate) / tickNanoseconds)
	return uint32(min(t, math.MaxUint32))
}

func addShaping(b *rtnl.Batch, plan *fabric.Plan, p *fabric.Port, delayed bool) {
	index, parent := ifindexOf(plan, p), shaperParent(delayed)
	if delayed {
		addDelay(b, index, p.Shape.Delay, p.Name)
	}
	if p.Shape.Classes {
		addHTB(b, plan, p, parent)
		return
	}
	addTBF(b, index, parent, &p.Shape, p.Name)
}

// addTBF makes a token bucket. Its own queue is a FIFO of the limit in bytes.
func addTBF(b *rtnl.Batch, index, parent uint32, s *fabric.Shape, name string) {
	rate := byteRate(s.Rate)
	b.Begin(unix.RTM_NEWQDISC, createNew, "add tbf to", name)
	tcmsg(b, index, rootHandle, parent, 0)
	b.AttrString(unix.TCA_KIND, "tbf")
	b.Nest(unix.TCA_OPTIONS)
	b.Nest(tcaTBFParms)
	rateSpec(b, rate)
	b.U32(0, 0, 0) // no peak rate
	b.U32(uint32(s.LimitBytes), ticks(s.BurstBytes, rate), 0)
	b.End()
	b.AttrU32(tcaTBFBurst, uint32(s.BurstBytes))
	if rate > math.MaxUint32 {
		b.AttrU64(tcaTBFRate64, rate)
	}
	b.End()
	switch {
	case s.FlowQueues > 0:
		addFlowQueues(b, index, flowHandle, classLink, s, name)
	case s.MarkBytes > 0:
		addQueue(b, index, markHandle, classLink, s, name)
	}
}

// trafficClass is one leaf of a port with classes.
type trafficClass struct {
	minor uint32
	rate  fabric.BitsPerSecond
	prio  uint32
	dscp  int // -1: all that no other class matches
}

func classesOf(plan *fabric.Plan, s *fabric.Shape) []trafficClass {
	return []trafficClass{
		{minor: minorKV, rate: s.KVRate, prio: 1, dscp: plan.KVDSCP},
		{minor: minorBack, rate: s.BackgroundRate, prio: 1, dscp: plan.BackgroundDSCP},
		{minor: minorOther, rate: s.OtherRate, prio: 0, dscp: -1},
	}
}

func addHTB(b *rtnl.Batch, plan *fabric.Plan, p *fabric.Port, parent uint32) {
	index, s := ifindexOf(plan, p), &p.Shape
	addHTBQdisc(b, index, rootHandle, parent, minorOther, p.Name)
	addClass(b, index, rootHandle, classLink, s, s.Rate, 0, p.Name)
	for _, c := range classesOf(plan, s) {
		class := uint32(rootHandle) | c.minor
		addClass(b, index, classLink, class, s, c.rate, c.prio, p.Name)
		if s.FlowQueues > 0 && c.minor != minorOther {
			addFlowQueues(b, index, c.minor<<16, class, s, p.Name)
		} else {
			addQueue(b, index, c.minor<<16, class, s, p.Name)
		}
		if c.dscp >= 0 {
			addDSCPFilter(b, index, class, c.dscp, p.Name)
		}
	}
}

// addHTBQdisc makes an HTB without classes; what no filter matches goes to the default one.
func addHTBQdisc(b *rtnl.Batch, index, handle, parent, defaultMinor uint32, name string) {
	b.Begin(unix.RTM_NEWQDISC, createNew, "add htb to", name)
	tcmsg(b, index, handle, parent, 0)
	b.AttrString(unix.TCA_KIND, "htb")
	b.Nest(unix.TCA_OPTIONS)
	b.Nest(tcaHTBInit)
	b.U32(htbVersion, 10, defaultMinor, 0, 0) // version, rate2quantum, default class, debug, direct packets
	b.End()
	b.End()
}

func addClass(b *rtnl.Batch, index, parent, class uint32, s *fabric.Shape, r fabric.BitsPerSecond, prio uint32, name string) {
	rate, ceil := byteRate(r), byteRate(s.Rate)
	b.Begin(unix.RTM_NEWTCLASS, createNew, "add htb class to", name)
	tcmsg(b, index, class, parent, 0)
	b.AttrString(unix.TCA_KIND, "htb")
	b.Nest(unix.TCA_OPTIONS)
	b.Nest(tcaHTBParms)
	rateSpec(b, rate)
	rateSpec(b, ceil)
	b.U32(ticks(s.BurstBytes, rate), ticks(s.BurstBytes, ceil), htbQuantum, 0, prio)
	b.End()
	if rate > math.MaxUint32 {
		b.AttrU64(tcaHTBRate64, rate)
	}
	if ceil > math.MaxUint32 {
		b.AttrU64(tcaHTBCeil64, ceil)
	}
	b.End()
}

func addDSCPFilter(b *rtnl.Batch, index, class uint32, dscp int, name string) {
	b.Begin(unix.RTM_NEWTFILTER, createNew, "add dscp filter to", name)
	tcmsg(b, index, 0, rootHandle, filterPrio<<16|uint32(htons(unix.ETH_P_IP)))
	b.AttrString(unix.TCA_KIND, "u32")
	b.Nest(unix.TCA_OPTIONS)
	b.AttrU32(tcaU32ClassID, class)
	b.Nest(tcaU32Sel)
	b.U8(1, 0, 1, 0)                       // terminal, offset shift, one key, padding
	b.U16(0, 0, 0, 0)                      // offset mask, offset, offset of offset, hash offset
	b.U32(0)                               // hash mask
	b.U32(htonl(dscpMask << tosWordShift)) // key mask
	b.U32(htonl(dscpWord(dscp)))
	b.U32(0, 0) // at byte 0 of the IP header
	b.End()
	b.End()
}

// dscpWord is a DSCP where the TOS byte lies in an IPv4 header's first word.
func dscpWord(dscp int) uint32 { return uint32(dscp) << 2 << tosWordShift }
