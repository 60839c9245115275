package fabric

import (
	"cmp"
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
	slowLink BitsPerSecond = 12_500_000
	// fastLink is the rate from which eight segments take no longer than four at half the
	// rate: a millisecond at 100 Mbit/s. They cost a host a third less per packet.
	fastLink BitsPerSecond = 100_000_000
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
	// lastShare is guaranteed to the kind of traffic that is not served first: HTB serves
	// the guaranteed rate of a class whatever its priority.
	lastShare = 0.001
)

// The marking threshold K of DCTCP: in theory 0.17 of what the path holds (Alizadeh
// et al., SIGMETRICS 2011), in practice more, because senders send several packets
// at once. The first paper (SIGCOMM 2010) takes 20 packets at 1 Gbit/s and 65 at 10.
const (
	markLeast      = 20
	markAt10G      = 65
	markOfBDP      = 0.17
	markTenGigabit = 10e9
	markOfLimit    = 4
)

// MinLatency is the shortest one-way latency, in this host's time, that is
// emulated. A shorter one is below the lateness of timers and the host's own
// forwarding, about 25 us per round trip.
const MinLatency = 50 * time.Microsecond

// Segments returns how many segments a sender's skb may have when the
// narrowest link of the tree has the given emulated rate: two, four or eight, so that
// they take a millisecond of it, or at most four where links are slow. Larger skbs
// need less CPU, and shaping is less exact.
func Segments(narrowest BitsPerSecond) int {
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
func BurstBytes(rate BitsPerSecond, segments int) int {
	packet := segments * FrameBytes
	return max(packet+min(packet, bytesIn(rate, lateTime)), bytesIn(rate, burstTime))
}

// MarkBytes is the marking threshold for a rate and a round trip, both emulated:
// the larger of the DCTCP paper's packets and 0.17 of the bandwidth-delay product.
func MarkBytes(rate BitsPerSecond, roundTrip time.Duration) int {
	packets := max(markLeast, markAt10G*float64(rate)/markTenGigabit)
	return max(int(packets*FrameBytes), int(markOfBDP*float64(bytesIn(rate, roundTrip))))
}

func bytesIn(rate BitsPerSecond, d time.Duration) int {
	return int(math.Ceil(rate.BytesPerSecond() * d.Seconds()))
}

// shapePorts fills Shape and GSOMaxSegs of every port.
func (b *builder) shapePorts() error {
	buffers := &b.scenario.Topology.Buffers
	if buffers.Priority != "" && !b.Classes {
		return fmt.Errorf("topology.buffers.priority is %s, but ports cannot tell kinds of traffic apart: it needs background.utilization and oracle.separation dscp", buffers.Priority)
	}
	narrowest := BitsPerSecond(math.MaxInt64)
	for l := range b.ends() {
		if l.Tier > 0 {
			narrowest = min(narrowest, l.RateEmulated)
		}
	}
	queues, err := b.spreadFlows()
	if err != nil {
		return err
	}
	for l, port := range b.ends() {
		segments := cmp.Or(buffers.SegmentsPerBurst, Segments(narrowest))
		if l.Tier == 0 && buffers.SegmentsPerBurst == 0 {
			// An NVLink, which is far faster than a NIC and crosses no switch, moves larger
			// packets: about 100 us of its rate.
			segments = min(max(bytesIn(l.RateEmulated, burstTime/2)/FrameBytes, segments), maxSegments)
		}
		sh := &port.Shape
		*sh = Shape{Rate: l.RateEmulated, BurstBytes: BurstBytes(l.RateEmulated, segments)}
		if !b.Nodes[port.Node].IsSwitch() {
			port.GSOMaxSegs, sh.LimitBytes = segments, cmp.Or(int(buffers.HostEmulated), hostQueue)
			continue
		}
		sh.LimitBytes = cmp.Or(int(buffers.SwitchEmulated), max(minSwitchQueue, bytesIn(sh.Rate, switchQueueTime)))
		if queues > 0 {
			sh.FlowQueues, sh.QuantumBytes = queues, segments*FrameBytes
			sh.LimitBytes = min(sh.LimitBytes, max(minSwitchQueue, sh.LimitBytes/flowShare))
		}
		if b.Classes {
			sh.split(backgroundShare(l.Tier, b.scenario.Background.Utilization), buffers.Priority)
		}
	}
	return nil
}

// spreadFlows decides how many queues each switch port has for flows with fair queueing: as
// many as the host can create in acceptable time, a power of two; 0 without.
func (b *builder) spreadFlows() (queues int, err error) {
	if b.scenario.Topology.Buffers.Queueing != scenarios.QueueingFair {
		return 0, nil
	}
	sets := 0 // of queues: one per switch port, or one per class of traffic
	for _, port := range b.ends() {
		if b.Nodes[port.Node].IsSwitch() {
			sets++
		}
	}
	if b.Classes {
		sets *= 2
	}
	if sets*leastFlowQueues > tooManyFlowQueues {
		return 0, fmt.Errorf("topology.buffers.queueing: fair takes %d queues for flows on %d switch ports, at most %d: make the topology smaller, or take fifo",
			sets*leastFlowQueues, sets, tooManyFlowQueues)
	}
	queues = mostFlowQueues
	for queues > leastFlowQueues && sets*queues > allFlowQueues {
		queues /= 2
	}
	return queues, nil
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

func (s *Shape) split(background float64, first string) {
	switch first {
	case scenarios.PriorityTransfers:
		background = lastShare
	case scenarios.PriorityBackground:
		background = 1 - lastShare - otherShare
	}
	s.Classes, s.First = true, first
	s.OtherRate = max(minEmulated, BitsPerSecond(float64(s.Rate)*otherShare))
	s.BackgroundRate = max(minEmulated, BitsPerSecond(float64(s.Rate)*background))
	s.KVRate = max(minEmulated, s.Rate-s.OtherRate-s.BackgroundRate)
}

// delayPorts gives the switch ports that lead down to the hosts the tiers' latencies,
// so that the delays along every path of a tier add up to the tier's, in either
// direction: every path comes down through one port of tier 1, within a pod through
// one of tier 2 before, and across pods through one of tier 3 before that. If the
// ports that lead up had delays too, the sums would be the same, but each delay
// needs a timer and adds that timer's lateness.
//
// A port's delay is in front of its queue, so it stands for the wire of the hop
// before. Instances have no delay: in front of their own queue it would hide the queue
// from their sockets, and the sockets would fill it.
func (b *builder) delayPorts() {
	l := &b.scenario.Topology.Latency
	b.Latency = [4]time.Duration{1: l.Tier1, 2: l.Tier2, 3: l.Tier3}
	var real [4]time.Duration
	for tier := range real {
		if real[tier] = time.Duration(float64(b.Latency[tier]) * b.Scale.Time); real[tier] < MinLatency {
			real[tier], b.Latency[tier] = 0, 0
		}
	}
	for i := range b.Links {
		if link := &b.Links[i]; link.Tier > 0 {
			link.B.Shape.Delay = real[link.Tier] - real[link.Tier-1]
		}
	}
}

// markPorts gives the switch ports their marking threshold where the transfers'
// congestion control needs marks. Unless the scenario sets it, it is at most a quarter
// of the queue: slow start continues for a round trip after the first mark, to twice
// the threshold and more, and the queue must not drop packets then.
func (b *builder) markPorts() error {
	if b.scenario.Transfer.CongestionControl != scenarios.CongestionDCTCP {
		return nil
	}
	asked := int(b.scenario.Topology.Buffers.ECNThresholdEmulated)
	roundTrip := 2 * time.Duration(float64(b.Latency[3])*b.Scale.Time)
	for _, port := range b.ends() {
		sh := &port.Shape
		switch {
		case !b.Nodes[port.Node].IsSwitch():
		case asked >= sh.LimitBytes:
			return fmt.Errorf("topology.buffers.ecnThresholdEmulated is %d, want less than the switch buffer of %d bytes", asked, sh.LimitBytes)
		default:
			sh.MarkBytes = cmp.Or(asked, min(MarkBytes(sh.Rate, roundTrip), sh.LimitBytes/markOfLimit))
		}
	}
	return nil
}
