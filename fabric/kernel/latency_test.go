//go:build linux && !race

package kernel_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/fabrictest"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/fabric/kernel/ktest"
	"github.com/netkvlab/netkvlab/scenarios"
)

// farTree is tierTree's with latencies that netem can show.
func farTree(tier int, rate fabric.BitsPerSecond) (*scenarios.Scenario, float64) {
	s, scale := tierTree(tier, rate)
	s.Topology.Latency = farLatency
	return s, scale
}

var farLatency = scenarios.TierLatency{
	Tier0: time.Microsecond, Tier1: 4 * time.Millisecond, Tier2: 8 * time.Millisecond, Tier3: 16 * time.Millisecond,
}

// minRTT is the shortest round trip that a connection has seen, as agents report it.
func minRTT(t *testing.T, k connection) time.Duration {
	t.Helper()
	raw, err := k.out.SyscallConn()
	require.NoError(t, err)
	var info *unix.TCPInfo
	require.NoError(t, raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }))
	require.NoError(t, err)
	return time.Duration(info.Min_rtt) * time.Microsecond
}

// pingPong returns the shortest of some exchanges of one byte.
func pingPong(t *testing.T, k connection) time.Duration {
	t.Helper()
	best := time.Hour
	one := []byte{1}
	for range 20 {
		start := time.Now()
		_, err := k.out.Write(one)
		require.NoError(t, err)
		_, err = io.ReadFull(k.in, one)
		require.NoError(t, err)
		_, err = k.in.Write(one)
		require.NoError(t, err)
		_, err = io.ReadFull(k.out, one)
		require.NoError(t, err)
		best = min(best, time.Since(start))
	}
	return best
}

func TestARoundTripTakesTwiceItsTiersLatency(t *testing.T) {
	ktest.Need(t, "netem")
	for _, background := range []bool{false, true} {
		t.Run(fmt.Sprintf("classes %v", background), func(t *testing.T) {
			// A timer of a virtual machine on a busy host is about 0.4 ms late.
			s, scale := farTree(3, 100e6)
			s.Topology.Latency = scenarios.TierLatency{Tier1: 10 * time.Millisecond, Tier2: 20 * time.Millisecond, Tier3: 40 * time.Millisecond}
			if background {
				s.Background = fabrictest.Paper64Background().Background
			}
			far := mustUp(t, lab(t, "far"), mustPlan(t, s, scale))
			require.NoError(t, far.Verify(t.Context()))
			assert.Equal(t, [4]time.Duration{0, 10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond}, far.Latency())
			s.Topology.Latency = scenarios.TierLatency{}
			near := mustUp(t, lab(t, "near"), mustPlan(t, s, scale))
			assert.Zero(t, near.Latency())
			for tier := 1; tier <= 3; tier++ {
				roundTrips(t, far, near, tier)
			}
		})
	}
}

// roundTrips compares round trips with those of a lab without latency: the forwarding
// time of this host, which may be a virtual machine, is not part of the wire's.
func roundTrips(t *testing.T, far, near *kernel.Fabric, tier int) {
	t.Helper()
	src, dst := far.Plan().Prefill[0], far.Plan().Decode[tier-1]
	require.Equal(t, tier, far.Plan().Tier(src, dst))
	over := mustConnect(t, far, src, dst, mustListen(t, far, dst), 40_000)
	beside := mustConnect(t, near, src, dst, mustListen(t, near, dst), 40_000)
	want := 2 * far.Latency()[tier]
	most := want + want/10 + 100*time.Microsecond
	got, floor := pingPong(t, over), pingPong(t, beside)
	for try := 1; try < 5 && got-floor > most; try++ { // a busy neighbour can only lengthen it
		got, floor = min(got, pingPong(t, over)), min(floor, pingPong(t, beside))
	}
	seen, seenFloor := minRTT(t, over), minRTT(t, beside)
	t.Logf("tier %d: asked %v, exchanged in %v (%v without), TCP's least %v (%v without)", tier, want, got, floor, seen, seenFloor)
	assert.GreaterOrEqual(t, got, want)
	assert.GreaterOrEqual(t, seen, want)
	assert.LessOrEqual(t, got-floor, most)
	assert.LessOrEqual(t, seen-seenFloor, most)
}

// With latency, a transfer takes its ideal time plus one latency: the wire does
// not slow the shaper down. The time is compared with a transfer at the same
// time in a lab without latency, because on a busy host both
// take longer. The link is slow, so its bucket makes up for most late timers.
func TestALoneTransferOverAWireTakesItsLatencyMore(t *testing.T) {
	ktest.Need(t, "netem")
	if testing.Short() {
		t.Skip("takes some seconds of transfers")
	}
	const rate, size = 2_000_000, 1_000_000
	for tier := 1; tier <= 3; tier++ {
		t.Run(fmt.Sprintf("tier %d", tier), func(t *testing.T) {
			t.Parallel()
			s, scale := farTree(tier, rate)
			far := mustUp(t, lab(t, fmt.Sprintf("wire%d", tier)), mustPlan(t, s, scale))
			s.Topology.Latency = scenarios.TierLatency{}
			near := mustUp(t, lab(t, fmt.Sprintf("none%d", tier)), mustPlan(t, s, scale))
			src, dst := far.Plan().Prefill[0], far.Plan().Decode[tier-1]
			pair := [2]connection{
				mustConnect(t, far, src, dst, mustListen(t, far, dst), 40_000),
				mustConnect(t, near, src, dst, mustListen(t, near, dst), 40_000),
			}
			off := math.Inf(1)
			for try := 0; try < 4 && math.Abs(off) > tolerance; try++ {
				took := mustTransferBoth(t, pair, size)
				off = float64(took[0]-took[1]-far.Latency()[tier]) / float64(ideal(size, rate))
				t.Logf("%v with latency, %v without, ideal %v: %+.4f off", took[0], took[1], ideal(size, rate), off)
				assert.GreaterOrEqual(t, took[0], ideal(size, rate)*98/100+far.Latency()[tier])
			}
			assert.InDelta(t, 0, off, tolerance)
		})
	}
}

// mustTransferBoth moves the same bytes over two connections at once.
func mustTransferBoth(t *testing.T, pair [2]connection, size int) (took [2]time.Duration) {
	t.Helper()
	var errs [2]error
	var wg sync.WaitGroup
	start := time.Now()
	for i := range pair {
		wg.Go(func() {
			last, err := pair[i].transfer(size)
			took[i], errs[i] = last.Sub(start), err
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs[0], errs[1]))
	return took
}

// The queue behind the delay is as long as planned, and packets that do not fit are counted.
func TestAQueueBehindADelayIsAsLongAsPlanned(t *testing.T) {
	ktest.Need(t, "netem")
	s := smallTree()
	s.Topology.Latency = farLatency
	plan := mustPlan(t, s, 10_000) // NIC 10, rack uplink 5, core link 2.5 Mbit/s
	f := mustUp(t, lab(t, "bound"), plan)
	src, dst := plan.Prefill[0], plan.Decode[3]
	mustUDP(t, f, dst, dataPort)
	const sent = 500
	from := mustUDP(t, f, src, 40_000)
	path, err := f.Path(kernel.Flow{Src: src, Dst: dst, Proto: unix.IPPROTO_UDP, SrcPort: 40_000, DstPort: dataPort})
	require.NoError(t, err)
	sendUDP(t, f, from, dst, sent, 1000, 0) // a host's own queue takes them at once
	most := map[string]uint64{}
	for busy := true; busy; {
		busy = false
		for _, hop := range path {
			counters, err := f.CountersOf(plan.Egress(hop).Node)
			require.NoError(t, err)
			c := byName(plan, counters)[plan.LinkName(hop)]
			most[plan.LinkName(hop)] = max(most[plan.LinkName(hop)], c.BacklogBytes)
			busy = busy || c.BacklogBytes > 0
		}
	}
	now := mustSettle(t, f)
	entered, dropped := uint64(sent), uint64(0)
	for i, hop := range path {
		name := plan.LinkName(hop)
		c, limit := now[name], uint64(plan.Egress(hop).Shape.LimitBytes)
		assert.Equal(t, entered, c.Packets+c.Drops, name)
		assert.LessOrEqual(t, most[name], limit, name)
		if c.Drops > 10 && i > 0 {
			assert.Greater(t, most[name], limit-2*udpFrame(1000), name+" dropped before it was full")
		}
		t.Logf("%s: delay %v, %d left, %d dropped, backlog up to %d of %d", name, plan.Egress(hop).Shape.Delay, c.Packets, c.Drops, most[name], limit)
		entered, dropped = c.Packets, dropped+c.Drops
	}
	assert.Positive(t, dropped, "half a megabyte does not fit")
}

// On every kernel a lab with latencies comes up, verifies, and its remarks say what it emulates.
func TestALabSaysWhetherItHasLatency(t *testing.T) {
	ktest.NeedFabric(t)
	s := smallTree()
	s.Topology.Latency = farLatency
	plan := mustPlan(t, s, 400)
	name := lab(t, "says")
	f := mustUp(t, name, plan)
	require.NoError(t, f.Verify(t.Context()))
	_, err := f.Counters()
	require.NoError(t, err)
	if lack := kernel.Lacks("netem"); lack != nil {
		assert.False(t, f.Features().Latency)
		assert.Zero(t, f.Latency())
		assert.Contains(t, f.Remarks()[0], "since this kernel cannot ("+lack.Error()+")")
		return
	}
	assert.True(t, f.Features().Latency)
	assert.Contains(t, f.Remarks()[0], "link latency is emulated, one way none at tier 0, 4ms at tier 1, 8ms at tier 2, 16ms at tier 3")

	s.Topology.Latency.Tier1 = 500 * time.Microsecond
	other := mustOpen(t, name, mustPlan(t, s, 400))
	assert.ErrorContains(t, other.Verify(t.Context()), "tor0-0 port d0: netem delay 4ms, want 500µs")
	s.Topology.Latency = scenarios.TierLatency{}
	other = mustOpen(t, name, mustPlan(t, s, 400))
	assert.ErrorContains(t, other.Verify(t.Context()), "tor0-0 port d0: root qdisc netem, want tbf")
	_, err = other.Counters()
	assert.ErrorContains(t, err, "has lost its qdisc")
}

func mustOpen(t *testing.T, name string, plan *fabric.Plan) *kernel.Fabric {
	t.Helper()
	f, err := kernel.Open(t.Context(), name, plan, kernel.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}
