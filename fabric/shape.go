package fabric

import (
	"fmt"
	"math"
	"time"

	"github.com/netkvlab/netkvlab/scenarios"
)

// The shaping recipe. Each figure was chosen by measuring completion times of
// lone and of eight competing TCP transfers at 5 to 2500 Mbit/s against the
// ideal time of the rate.
const (
	// burstTime of the rate is the least burst: below it, each late timer of
	// the shaper loses capacity (4 to 6 per cent with one packet).
	burstTime = 200 * time.Microsecond
	// lateTime is the lateness of a timer that the bucket makes up for. More would only let
	// transfers on idle links get further ahead.
	lateTime = time.Millisecond
	// switchQueueTime of the rate is a switch port's queue: shallow, as in real switches.
	switchQueueTime = 5 * time.Millisecond
	// minSwitchQueue holds about forty packets at low rates: with twenty, eight
	// flows retransmit a tenth of what they send.
	minSwitchQueue = 64 << 10
	// hostQueue is an instance's own egress: deep, because a real sender's queue
	// slows the sender instead of dropping.
	hostQueue = 4_000_000
	// slowLink is the rate at which a burst of four segments takes too long: at 12.5
	// Mbit/s four frames are 4 ms. Bursts of two cost a host two thirds more per packet.
	slowLink scenarios.BitsPerSecond = 12_500_000
	// fastLink is the rate from which eight segments take no longer than four at half the
	// rate: a millisecond at 100 Mbit/s. They cost a host a third less per packet.
	fastLink scenarios.BitsPerSecond = 100_000_000
	// maxSegments is what the largest segmentation-offload packet of 64 KiB holds.
	maxSegments = 43
	// mostFlowQueues is the number of queues of a port with fair queueing in a small fabric:
	// of eight flows that meet there, two share a queue in a tenth of the cases.
	mostFlowQueues = 256
	// leastFlowQueues still keep the median completion time within a per cent of the
	// fluid's (measured), but not single completion times.
	leastFlowQueues = 16
	// allFlowQueues is about the number of a whole fabric's queues: the kernel compares each
	// new one with all that the host has, which takes half a second for this number.
	allFlowQueues = 10_500
	// tooManyFlowQueues would take four seconds to create, and as long to remove.
	tooManyFlowQueues = 28_000
	// flowShare of a deep buffer is the most of one flow, so the flows that usually
	// meet fit into it together. Where buffers are shallow, each flow has a whole one.
	flowShare = 8
	// otherShare of a port's rate is reserved for traffic of neither class.
	otherShare = 0.01
	// maxBackgroundShare leaves KV traffic some rate whatever background asks for.
	maxBackgroundShare = 0.96
)

// Segments returns how many segments a sender's skb may have when the
// narrowest link of the tree has the given emulated rate: two, four or eight, so that
// they take a millisecond of it, or at most four where links are slow. Larger skbs
// need less CPU, and shaping is less exact.
func Segments(narrowest scenarios.BitsPerSecond) int {
	switch {
	case narrowest <= slowLink:
		return 2
	case narrowest < fastLink:
		return 4
	}
	return 8
}

// BurstBytes is the token bucket for a rate and a segment bound: one of the largest
// packets, and what the rate gives while a timer is late, at most another such packet; at
// least 200 us of the rate. With one packet, late timers lose rate.
func BurstBytes(rate scenarios.BitsPerSecond, segments int) int {
	packet := segments * FrameBytes
	return max(packet+min(packet, bytesIn(rate, lateTime)), bytesIn(rate, burstTime))
}

func bytesIn(rate scenarios.BitsPerSecond, d time.Duration) int {
	return int(math.Ceil(rate.BytesPerSecond() * d.Seconds()))
}

// shapePorts fills Shape and GSOMaxSegs of every port.
func (p *Plan) shapePorts(s *scenarios.Scenario) error {
	b := &s.Topology.Buffers
	for _, c := range []struct {
		field string
		v     int64
		max   int64
	}{
		{"topology.buffers.switchEmulated", int64(b.SwitchEmulated), math.MaxInt32},
		{"topology.buffers.hostEmulated", int64(b.HostEmulated), math.MaxInt32},
		{"topology.buffers.segmentsPerBurst", int64(b.SegmentsPerBurst), 64},
	} {
		if c.v < 0 || c.v > c.max {
			return fmt.Errorf("%s is %d, want 0 (auto) or 1..%d", c.field, c.v, c.max)
		}
	}
	if p.Classes && p.KVDSCP == p.BackgroundDSCP {
		return fmt.Errorf("transfer.dscp and background.dscp are both %d: oracle.separation dscp cannot tell them apart", p.KVDSCP)
	}
	if b.Priority != "" && !p.Classes {
		return fmt.Errorf("topology.buffers.priority is %s, but ports cannot tell kinds of traffic apart: it needs background.utilization and oracle.separation dscp", b.Priority)
	}
	for _, dscp := range []int{p.KVDSCP, p.BackgroundDSCP} {
		if dscp < 0 || dscp > 63 {
			return fmt.Errorf("dscp is %d, want 0..63", dscp)
		}
	}
	segments := b.SegmentsPerBurst
	if segments == 0 {
		segments = Segments(p.narrowest())
	}
	if b.Queueing == scenarios.QueueingFair {
		if err := p.spreadFlows(); err != nil {
			return err
		}
	}
	for i := range p.Links {
		l := &p.Links[i]
		segs := segments
		if l.Tier == 0 && b.SegmentsPerBurst == 0 {
			segs = nvSegments(l.RateEmulated, segments)
		}
		p.shape(&l.A, l, segs, s)
		p.shape(&l.B, l, segs, s)
	}
	return nil
}

// narrowest is the lowest emulated rate of the tree, NVLinks aside.
func (p *Plan) narrowest() scenarios.BitsPerSecond {
	r := scenarios.BitsPerSecond(math.MaxInt64)
	for i := range p.Links {
		if p.Links[i].Tier > 0 {
			r = min(r, p.Links[i].RateEmulated)
		}
	}
	return r
}

// nvSegments lets an NVLink, which is far faster than a NIC and crosses no
// switch, move larger packets: about 100 us of its rate.
func nvSegments(rate scenarios.BitsPerSecond, atLeast int) int {
	return min(max(bytesIn(rate, burstTime/2)/FrameBytes, atLeast), maxSegments)
}

// spreadFlows decides how many queues each switch port has for flows: as many as the
// host can create in acceptable time, a power of two.
func (p *Plan) spreadFlows() error {
	sets := 0 // of queues: one per switch port, or one per class of traffic
	for i := range p.Links {
		for _, port := range []*Port{&p.Links[i].A, &p.Links[i].B} {
			if p.Nodes[port.Node].IsSwitch() {
				sets++
			}
		}
	}
	if p.Classes {
		sets *= 2
	}
	if sets*leastFlowQueues > tooManyFlowQueues {
		return fmt.Errorf("topology.buffers.queueing: fair takes %d queues for flows on %d switch ports, at most %d: make the topology smaller, or take fifo",
			sets*leastFlowQueues, sets, tooManyFlowQueues)
	}
	p.flowQueues = mostFlowQueues
	for p.flowQueues > leastFlowQueues && sets*p.flowQueues > allFlowQueues {
		p.flowQueues /= 2
	}
	return nil
}

func (p *Plan) shape(port *Port, l *Link, segments int, s *scenarios.Scenario) {
	b := &s.Topology.Buffers
	sh := Shape{Rate: l.RateEmulated, BurstBytes: BurstBytes(l.RateEmulated, segments)}
	if p.Nodes[port.Node].IsSwitch() {
		sh.LimitBytes = int(b.SwitchEmulated)
		if sh.LimitBytes == 0 {
			sh.LimitBytes = max(minSwitchQueue, bytesIn(sh.Rate, switchQueueTime))
		}
		if b.Queueing == scenarios.QueueingFair {
			sh.FlowQueues, sh.QuantumBytes = p.flowQueues, segments*FrameBytes
			sh.LimitBytes = min(sh.LimitBytes, max(minSwitchQueue, sh.LimitBytes/flowShare))
		}
		if p.Classes {
			sh.split(backgroundShare(l.Tier, s.Background.Utilization), b.Priority)
		}
	} else {
		port.GSOMaxSegs = segments
		sh.LimitBytes = int(b.HostEmulated)
		if sh.LimitBytes == 0 {
			sh.LimitBytes = hostQueue
		}
	}
	port.Shape = sh
}

// backgroundShare is the part of a link that is guaranteed to its background class:
// what the scenario asks for and a tenth more. Background traffic does not
// yield in a shared queue, so its class must not either; KV traffic then gets
// the notes' B_eff = B(1-c).
func backgroundShare(tier int, u scenarios.TierUtilization) float64 {
	share := u.Tier3
	switch tier {
	case 2:
		share = u.Tier2
	case 1:
		share = max(u.Tier2, u.Tier3)
	}
	return min(share*1.1+0.02, maxBackgroundShare)
}

// lastShare is guaranteed to the kind of traffic that is not served first: HTB serves
// the guaranteed rate of a class whatever its priority.
const lastShare = 0.001

func (s *Shape) split(background float64, first string) {
	switch first {
	case scenarios.PriorityTransfers:
		background = lastShare
	case scenarios.PriorityBackground:
		background = 1 - lastShare - otherShare
	}
	s.Classes, s.First = true, first
	s.OtherRate = max(minEmulated, scenarios.BitsPerSecond(float64(s.Rate)*otherShare))
	s.BackgroundRate = max(minEmulated, scenarios.BitsPerSecond(float64(s.Rate)*background))
	s.KVRate = max(minEmulated, s.Rate-s.OtherRate-s.BackgroundRate)
}
