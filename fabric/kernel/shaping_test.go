//go:build linux && !race

package kernel_test

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/fabrictest"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/scenarios"
)

// ideal is how long a payload takes in full segments of 1448 bytes, each a
// frame of 1514.
func ideal(payload int, rate fabric.BitsPerSecond) time.Duration {
	return time.Duration(float64(payload) / 1448 * 1514 * 8 / float64(rate) * float64(time.Second))
}

// tierTree is a small tree in which a lone transfer of the given tier has its
// narrowest link at rate, as in the paper's cluster: NIC, rack uplink, core
// link are 4 : 2 : 1.
func tierTree(tier int, rate fabric.BitsPerSecond) (*scenarios.Scenario, float64) {
	s := smallTree()
	if tier == 0 {
		// Two instances per server, joined by an NVLink as slow as a NIC here.
		s.Placement = scenarios.Placement{Prefill: []int{0}, Decode: []int{1}}
		s.Topology.NVLinkRate = s.Topology.NICRate
		return s, float64(s.Topology.NVLinkRate) / float64(rate)
	}
	s.Placement = scenarios.Placement{Prefill: []int{0}, Decode: []int{1, 2, 4}}
	s.Topology.GPUsPerServer, s.Topology.ServersPerRack = 4, 2 // a neighbour in the rack is in another server
	narrow := []fabric.BitsPerSecond{0, s.Topology.NICRate, s.Topology.LinkRates.RackUplink, s.Topology.LinkRates.CoreLink}[tier]
	return s, float64(narrow) / float64(rate)
}

// measurement is one connection over the bottleneck of a tier, in a fabric of its own.
type measurement struct {
	tier   int
	rate   fabric.BitsPerSecond
	burst  time.Duration // the time of the narrowest link's bucket at its rate
	conn   connection
	sizes  []int
	rounds map[int][][]float64 // by size and round: completion times relative to ideal, sorted
	err    error
}

func mustPrepare(t *testing.T, tier int, rate fabric.BitsPerSecond, sizes []int) *measurement {
	t.Helper()
	s, scale := tierTree(tier, rate)
	plan := mustPlan(t, s, scale)
	f := mustUp(t, lab(t, fmt.Sprintf("s%d-%d", tier, rate/1e6)), plan)
	src, dst := plan.Prefill[0], plan.Decode[max(0, tier-1)]
	require.Equal(t, tier, plan.Tier(src, dst))
	var burst time.Duration
	for _, hop := range plan.NICPaths(src, dst, 0, 0)[0] {
		shape := plan.Egress(hop).Shape
		burst = max(burst, time.Duration(float64(shape.BurstBytes)/shape.Rate.BytesPerSecond()*float64(time.Second)))
	}
	return &measurement{
		tier: tier, rate: rate, burst: burst, sizes: sizes, rounds: map[int][][]float64{},
		conn: mustConnect(t, f, src, dst, mustListen(t, f, dst), 40_000),
	}
}

// tolerance is how far a completion time may be from ideal.
const tolerance = 0.02

// median of a sorted round.
func median(round []float64) float64 { return round[len(round)/2] }

// run measures each size on the warm connection in rounds: seven transfers where
// that takes little time, else one. A round's median counts. Other load on
// the CPU can spoil a round, so there are up to three, and the last one is
// judged; a faulty shaper spoils them all.
func (m *measurement) run() {
	for _, size := range m.sizes {
		for range 3 {
			round, err := m.round(size)
			if err != nil {
				m.err = fmt.Errorf("%d bytes: %w", size, err)
				return
			}
			m.rounds[size] = append(m.rounds[size], round)
			if math.Abs(median(round)-1) <= tolerance {
				break
			}
		}
	}
}

func (m *measurement) round(size int) ([]float64, error) {
	tries := 7
	if ideal(size, m.rate) >= 500*time.Millisecond {
		tries = 1
	}
	var ratios []float64
	for range tries {
		start := time.Now()
		last, err := m.conn.transfer(size)
		if err != nil {
			return nil, err
		}
		ratios = append(ratios, float64(last.Sub(start))/float64(ideal(size, m.rate)))
	}
	slices.Sort(ratios)
	return ratios, nil
}

func (m *measurement) check(t *testing.T) {
	t.Helper()
	require.NoErrorf(t, m.err, "tier %d at %d bit/s", m.tier, m.rate)
	for _, size := range m.sizes {
		want, rounds := ideal(size, m.rate), m.rounds[size]
		t.Logf("tier %d, %d Mbit/s, %d MB: %.4f of ideal %v", m.tier, m.rate/1e6, size/1e6, rounds, want.Round(time.Microsecond))
		if want < 20*time.Millisecond {
			continue
		}
		assert.InDelta(t, 1, median(rounds[len(rounds)-1]), tolerance, "tier %d, %d bit/s, %d bytes", m.tier, m.rate, size)
		for _, round := range rounds {
			assert.GreaterOrEqual(t, round[0], 1-float64(m.burst)/float64(want)-0.002, "no transfer beats its rate by more than a burst")
		}
	}
}

func TestALoneTransferTakesItsIdealTime(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some 35 s of transfers")
	}
	for _, tc := range []struct {
		name  string
		tiers []int
		rates []fabric.BitsPerSecond
	}{
		// The fastest run one at a time: together they would measure this host's CPUs.
		{"tier 0 at 400 Mbit/s", []int{0}, []fabric.BitsPerSecond{400e6}},
		{"tier 1 at 400 Mbit/s", []int{1}, []fabric.BitsPerSecond{400e6}},
		{"tier 2 at 400 Mbit/s", []int{2}, []fabric.BitsPerSecond{400e6}},
		{"tier 3 at 400 Mbit/s", []int{3}, []fabric.BitsPerSecond{400e6}},
		{"all tiers at 100 Mbit/s side by side", []int{0, 1, 2, 3}, []fabric.BitsPerSecond{100e6}},
		{"all tiers at 25 and 50 Mbit/s side by side", []int{0, 1, 2, 3}, []fabric.BitsPerSecond{25e6, 50e6}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var all []*measurement
			for _, tier := range tc.tiers {
				for _, rate := range tc.rates {
					all = append(all, mustPrepare(t, tier, rate, []int{1e6, 5e6, 50e6}))
				}
			}
			var wg sync.WaitGroup
			for _, m := range all {
				wg.Go(m.run)
			}
			wg.Wait()
			for _, m := range all {
				m.check(t)
			}
		})
	}
}

func TestEightTransfersShareALink(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some 4 s of transfers")
	}
	const rate, size, flows = 100_000_000, 2_500_000, 8
	s, scale := tierTree(3, rate)
	plan := mustPlan(t, s, scale)
	f := mustUp(t, lab(t, "eight"), plan)
	src, dst := plan.Prefill[0], plan.Decode[2]
	table, err := f.PathPorts(kernel.Flow{Src: src, Dst: dst, SrcPort: 20_000, DstPort: dataPort}, flows)
	require.NoError(t, err)
	l := mustListen(t, f, dst)
	var all []connection
	for _, port := range table[0] {
		all = append(all, mustConnect(t, f, src, dst, l, port))
	}
	start := time.Now()
	last := make([]time.Duration, flows)
	errs := make([]error, flows)
	var wg sync.WaitGroup
	for i, k := range all {
		wg.Go(func() {
			at, err := k.transfer(size)
			last[i], errs[i] = at.Sub(start), err
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	ratio := float64(slices.Max(last)) / float64(ideal(flows*size, rate))
	t.Logf("last of eight: %.4f of fair; first: %v, last: %v", ratio, slices.Min(last), slices.Max(last))
	assert.InDelta(t, 1, ratio, 0.03, "the link is full until the last byte")
}

// capture records the arrival of frames at a host's NIC, with the kernel's
// time stamps. Memory for them is the socket's receive buffer.
type capture struct{ fd int }

type arrival struct {
	at    time.Duration
	bytes int
}

func mustCapture(t *testing.T, f *kernel.Fabric, host fabric.NodeID) *capture {
	t.Helper()
	c := &capture{fd: -1}
	require.NoError(t, f.Do(host, func() (err error) {
		const allProtocols = 0x0300 // ETH_P_ALL in network order
		c.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, allProtocols)
		return err
	}))
	t.Cleanup(func() { _ = unix.Close(c.fd) })
	require.NoError(t, unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 256<<20))
	require.NoError(t, unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1))
	return c
}

// drain returns what has arrived at the NIC since the capture began.
func (c *capture) drain(t *testing.T) (got []arrival) {
	t.Helper()
	buf, oob := make([]byte, 128), make([]byte, 128)
	for {
		n, oobn, _, from, err := unix.Recvmsg(c.fd, buf, oob, unix.MSG_TRUNC)
		if errors.Is(err, unix.EAGAIN) {
			return got
		}
		require.NoError(t, err)
		if ll, ok := from.(*unix.SockaddrLinklayer); !ok || ll.Pkttype == unix.PACKET_OUTGOING || ll.Ifindex == 1 {
			continue
		}
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		require.NoError(t, err)
		require.NotEmpty(t, messages)
		require.GreaterOrEqual(t, len(messages[0].Data), int(unsafe.Sizeof(unix.Timespec{})))
		ts := *(*unix.Timespec)(unsafe.Pointer(&messages[0].Data[0]))
		got = append(got, arrival{at: time.Duration(ts.Nano()), bytes: onWire(n)})
	}
}

// onWire is the size in frames of an unsegmented packet of n bytes: each segment
// after the first has its own 66 bytes of headers.
func onWire(n int) int {
	if n <= fabric.FrameBytes {
		return n
	}
	segments := int(math.Ceil(float64(n-66) / 1448))
	return n + (segments-1)*66
}

func TestNoWindowCarriesMoreThanItsRateAndOneBurst(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds of transfers and pauses")
	}
	for _, rate := range []fabric.BitsPerSecond{25e6, 100e6, 400e6} {
		t.Run(fmt.Sprintf("%d Mbit/s", rate/1e6), func(t *testing.T) {
			s, scale := tierTree(3, rate)
			plan := mustPlan(t, s, scale)
			f := mustUp(t, lab(t, fmt.Sprintf("burst-%d", rate/1e6)), plan)
			src, dst := plan.Prefill[0], plan.Decode[2]
			k := mustConnect(t, f, src, dst, mustListen(t, f, dst), 40_000)
			_, err := k.transfer(2e6)
			require.NoError(t, err)
			c := mustCapture(t, f, dst)
			burst := plan.Egress(plan.EqualCostPaths(src, dst)[0][2]).Shape.BurstBytes
			const window = 20 * time.Millisecond
			allowed := int(rate.BytesPerSecond()*window.Seconds()) + burst
			// A receiver without CPU stamps packets late that came in time,
			// and so sees bursts that were not on the wire: three tries.
			worst := math.MaxInt
			for try := 0; try < 3 && worst > allowed; try++ {
				// The idle time fills every bucket, and lets the kernel switch time
				// stamps on, which it does a moment after the first socket asks.
				<-time.After(300 * time.Millisecond)
				c.drain(t)
				start := time.Now()
				last, err := k.transfer(4e6)
				require.NoError(t, err)
				var total int
				worst, total = fullest(c.drain(t), window)
				require.GreaterOrEqual(t, total, 4_000_000, "the capture is complete")
				t.Logf("fullest 20 ms: %d bytes, rate and burst allow %d; the transfer took %.4f of ideal",
					worst, allowed, float64(last.Sub(start))/float64(ideal(4e6, rate)))
				// A transfer is never faster than its rate allows, but for one burst.
				assert.GreaterOrEqual(t, last.Sub(start), ideal(4e6-burst, rate)*99/100)
			}
			assert.LessOrEqual(t, worst, allowed)
		})
	}
}

// fullest returns the most bytes that arrived within any window, and all bytes.
func fullest(got []arrival, window time.Duration) (most, total int) {
	sum, tail := 0, 0
	for _, a := range got {
		total += a.bytes
		sum += a.bytes
		for a.at-got[tail].at > window {
			sum -= got[tail].bytes
			tail++
		}
		most = max(most, sum)
	}
	return most, total
}

func TestClassesFillTheLinkAndGiveBackgroundItsShare(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds of transfers")
	}
	const rate, size = 100_000_000, 10_000_000
	s, scale := tierTree(3, rate)
	s.Background = fabrictest.Paper64Background().Background
	plan := mustPlan(t, s, scale)
	f := mustUp(t, lab(t, "share"), plan)
	src, dst := plan.Prefill[0], plan.Decode[2]
	k := mustConnect(t, f, src, dst, mustListen(t, f, dst), 40_000)
	mustTOS(t, k.out, plan.KVDSCP<<2)
	took := func() float64 {
		start := time.Now()
		last, err := k.transfer(size)
		require.NoError(t, err)
		return float64(last.Sub(start)) / float64(ideal(size, rate))
	}
	alone := math.MaxFloat64
	for try := 0; try < 3 && alone > 1+tolerance; try++ { // other load can only lengthen it
		alone = min(alone, took())
	}
	assert.InDelta(t, 1, alone, tolerance, "a class may use what others leave")

	// A fifth of the link, constant, over the same core link.
	tcp, err := f.Path(kernel.Flow{Src: src, Dst: dst, SrcPort: 40_000, DstPort: dataPort})
	require.NoError(t, err)
	from, to := plan.Background[0], plan.Background[2]
	table, err := f.PathPorts(kernel.Flow{Src: from, Dst: to, Proto: unix.IPPROTO_UDP, SrcPort: 30_000, DstPort: dataPort}, 1)
	require.NoError(t, err)
	mustUDP(t, f, to, dataPort)
	slot := slices.IndexFunc(plan.EqualCostPaths(src, dst), func(p fabric.Path) bool { return slices.Equal(p, tcp) })
	other := mustUDP(t, f, from, table[slot][0])
	mustTOS(t, other, plan.BackgroundDSCP<<2)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { constant(other, plan.Nodes[to].Addrs[0], 0.2*rate, stop) })
	before, err := f.Counters()
	require.NoError(t, err)
	ratio := took()
	now, err := f.Counters()
	require.NoError(t, err)
	close(stop)
	wg.Wait()
	core := plan.LinkName(tcp[2])
	a, b := byName(plan, before)[core].Background, byName(plan, now)[core].Background
	share := float64(b.Bytes-a.Bytes) * 8 / (rate * ratio * ideal(size, rate).Seconds())
	t.Logf("beside background of %.3f of the link, KV took %.3f of its ideal time", share, ratio)
	assert.InDelta(t, 0.2, share, 0.01)
	assert.Zero(t, b.Drops, "background within its share loses nothing")
	assert.InDelta(t, 1/(1-share), ratio, 0.03, "KV gets what background leaves")
}

func mustTOS(t *testing.T, c syscall.Conn, tos int) {
	t.Helper()
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, tos) }))
	require.NoError(t, err)
}

// constant sends full frames at a mean rate in bits per second until stopped.
func constant(c *net.UDPConn, to netip.Addr, rate float64, stop <-chan struct{}) {
	payload := make([]byte, fabric.MTU-28)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	start, sent := time.Now(), 0
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		for due := int(time.Since(start).Seconds() * rate / 8 / fabric.FrameBytes); sent < due; sent++ {
			if _, err := c.WriteToUDPAddrPort(payload, netip.AddrPortFrom(to, dataPort)); err != nil {
				return // the counters will show it
			}
		}
	}
}
