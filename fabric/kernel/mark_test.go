//go:build linux && !race

package kernel_test

import (
	"fmt"
	"slices"
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

func TestTwoDCTCPFlowsKeepTheQueueAtItsThreshold(t *testing.T) {
	ktest.Need(t, "red", "dctcp")
	if testing.Short() {
		t.Skip("takes some seconds of transfers")
	}
	for _, background := range []bool{false, true} {
		t.Run(fmt.Sprintf("classes %v", background), func(t *testing.T) {
			const rate = 2_000_000 // slow, so that late timers of a virtual machine cost nothing
			s, scale := tierTree(3, rate)
			s.Transfer.CongestionControl = scenarios.CongestionDCTCP
			if background {
				s.Background = fabrictest.Paper64Background().Background
			}
			plan := mustPlan(t, s, scale)
			f := mustUp(t, lab(t, "dctcp"), plan)
			require.NoError(t, f.Verify(t.Context()))
			core := plan.EqualCostPaths(plan.Prefill[0], plan.Decode[2])[0][2]
			shape, link := plan.Egress(core).Shape, plan.LinkName(core)
			flows := mustConnectDCTCP(t, f, plan.Prefill[0], plan.Decode[2], 2)
			got := mustMark(t, f, link, rate, flows) // the first slow start, which overshoots
			t.Logf("first: %+v", got)
			for range 3 { // other load on the CPU can spoil one
				got = mustMark(t, f, link, rate, flows)
				t.Logf("threshold %d of %d bytes: %+v", shape.MarkBytes, shape.LimitBytes, got)
				if got.drops == 0 && got.most < shape.LimitBytes*3/4 && got.idle < 0.1 {
					break
				}
			}
			assert.Zero(t, got.drops)
			assert.Positive(t, got.marks)
			assert.InDelta(t, shape.MarkBytes, got.median, float64(shape.MarkBytes)/2, "the queue stays near its threshold")
			assert.Less(t, got.most, shape.LimitBytes*3/4, "and far below its limit")
			assert.Less(t, got.idle, 0.1, "and rarely empties, so that the link stays full")
			if plan.Classes {
				c := mustSettle(t, f)[link]
				assert.Equal(t, c.Marks, c.KV.Marks)
			}
		})
	}
}

// marking is what a port did while flows filled it.
type marking struct {
	marks, drops uint64  // drops of the whole fabric
	median, most int     // backlog in bytes
	idle         float64 // share of the samples that met an empty queue
	ratio        float64 // time relative to the ideal of the rate
}

// mustMark sends half a megabyte over each connection at once.
func mustMark(t *testing.T, f *kernel.Fabric, link string, rate fabric.BitsPerSecond, flows []connection) (m marking) {
	t.Helper()
	const size = 500_000
	before := mustSettle(t, f)
	start := time.Now()
	var wg sync.WaitGroup
	errs := make([]error, len(flows))
	last := make([]time.Time, len(flows))
	for i, k := range flows {
		wg.Go(func() { last[i], errs[i] = k.transfer(size) })
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	backlog := sampleBacklog(t, f, link, done)
	for i, err := range errs {
		require.NoError(t, err)
		m.ratio = max(m.ratio, float64(last[i].Sub(start))/float64(ideal(len(flows)*size, rate)))
	}
	now := mustSettle(t, f)
	for name, c := range now {
		m.drops += c.Drops - before[name].Drops
	}
	m.marks = now[link].Marks - before[link].Marks
	slices.Sort(backlog)
	busy, _ := slices.BinarySearch(backlog, 1)
	m.idle = float64(busy) / float64(len(backlog))
	m.median, m.most = backlog[len(backlog)/2], backlog[len(backlog)-1]
	return m
}

// mustConnectDCTCP opens warm connections over a pair's first path.
func mustConnectDCTCP(t *testing.T, f *kernel.Fabric, src, dst fabric.NodeID, n int) (all []connection) {
	t.Helper()
	table, err := f.PathPorts(kernel.Flow{Src: src, Dst: dst, SrcPort: 20_000, DstPort: dataPort}, n)
	require.NoError(t, err)
	l := mustListenWith(t, f, dst, "dctcp")
	for _, port := range table[0] {
		k := mustConnectWith(t, f, src, dst, l, port, "dctcp")
		mustTOS(t, k.out, f.Plan().KVDSCP<<2)
		mustBeDCTCP(t, k)
		all = append(all, k)
	}
	return all
}

// mustBeDCTCP fails where ECN was not negotiated: the kernel then falls back to reno
// and calls it dctcp-reno.
func mustBeDCTCP(t *testing.T, k connection) {
	t.Helper()
	raw, err := k.out.SyscallConn()
	require.NoError(t, err)
	var name string
	var info *unix.TCPInfo
	require.NoError(t, raw.Control(func(fd uintptr) {
		if name, err = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION); err == nil {
			info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		}
	}))
	require.NoError(t, err)
	const ecn = 8 // TCPI_OPT_ECN
	assert.Equal(t, "dctcp", name)
	assert.NotZero(t, info.Options&ecn, "ECN was negotiated")
}

// sampleBacklog samples a port's queue until done, from the first transfers' slow start on.
func sampleBacklog(t *testing.T, f *kernel.Fabric, link string, done <-chan struct{}) (backlog []int) {
	t.Helper()
	var node fabric.NodeID
	for _, l := range f.Plan().Links {
		for _, hop := range []fabric.Hop{{Link: l.ID}, {Link: l.ID, Reverse: true}} {
			if f.Plan().LinkName(hop) == link {
				node = f.Plan().Egress(hop).Node
			}
		}
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			require.NotEmpty(t, backlog)
			return backlog
		case <-tick.C:
		}
		now, err := f.CountersOf(node)
		require.NoError(t, err)
		backlog = append(backlog, int(byName(f.Plan(), now)[link].BacklogBytes))
	}
}

func TestVerifyKnowsMarks(t *testing.T) {
	ktest.Need(t, "red")
	classes := smallTree()
	classes.Background = fabrictest.Paper64Background().Background
	for name, tc := range map[string]struct {
		scenario     *scenarios.Scenario
		class, plain string
	}{"tbf": {smallTree(), "1:1", "none"}, "htb": {classes, "1:10", "bfifo"}} {
		s := tc.scenario
		s.Transfer.CongestionControl = scenarios.CongestionDCTCP
		plan := mustPlan(t, s, 400)
		lab := lab(t, "marks-"+name)
		f := mustUp(t, lab, plan)
		require.NoError(t, f.Verify(t.Context()))
		differs := func(want string, args ...any) {
			t.Helper()
			err := mustOpen(t, lab, mustPlan(t, s, 400)).Verify(t.Context())
			assert.ErrorContains(t, err, fmt.Sprintf("tor0-0 port d0: "+want, args...))
		}
		s.Topology.Buffers.ECNThresholdEmulated = 40_000
		differs("red of class %s marks from 30280 bytes, want 40000", tc.class)
		s.Topology.Buffers = scenarios.Buffers{SwitchEmulated: 65_000}
		differs("red of class %s limit 156250 bytes, want 65000", tc.class)
		s.Topology.Buffers = scenarios.Buffers{}
		s.Transfer.CongestionControl = "cubic"
		differs("qdisc of class %s red, want %s", tc.class, tc.plain)
	}
}
