//go:build linux

package kernel_test

import (
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/fabrictest"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/fabric/kernel/ktest"
)

func TestCountersAreExact(t *testing.T) {
	plan := mustPlan(t, smallTree(), 400)
	f := mustUp(t, lab(t, "count"), plan)
	src, dst := plan.Prefill[0], plan.Decode[3]
	mustUDP(t, f, dst, dataPort)
	start := mustSettle(t, f)
	for name, c := range start {
		require.Zero(t, c.Packets, name+": a new lab is silent")
	}
	from := mustUDP(t, f, src, 40_000)
	sendUDP(t, f, from, dst, 40, 1000, 0)
	now := mustSettle(t, f)
	path, err := f.Path(kernel.Flow{Src: src, Dst: dst, Proto: unix.IPPROTO_UDP, SrcPort: 40_000, DstPort: dataPort})
	require.NoError(t, err)
	require.Len(t, path, 6)
	on := map[string]bool{}
	for _, hop := range path {
		name := plan.LinkName(hop)
		on[name] = true
		assert.EqualValues(t, 40, now[name].Packets, name)
		assert.EqualValues(t, 40*udpFrame(1000), now[name].Bytes, name)
		assert.Zero(t, now[name].Drops, name)
	}
	for name, c := range now {
		if !on[name] {
			assert.Zero(t, c.Packets, name+" is not on the path")
		}
	}
}

func TestWhatEntersAQueueLeavesItOrIsDropped(t *testing.T) {
	plan := mustPlan(t, smallTree(), 1000)
	f := mustUp(t, lab(t, "drop"), plan)
	src, dst := plan.Prefill[0], plan.Decode[3]
	mustUDP(t, f, dst, dataPort)
	const sent = 2000
	sendUDP(t, f, mustUDP(t, f, src, 40_000), dst, sent, 1000, 0)
	now := mustSettle(t, f)
	path, err := f.Path(kernel.Flow{Src: src, Dst: dst, Proto: unix.IPPROTO_UDP, SrcPort: 40_000, DstPort: dataPort})
	require.NoError(t, err)
	entered := uint64(sent)
	for _, hop := range path {
		c := now[plan.LinkName(hop)]
		assert.Equal(t, entered, c.Packets+c.Drops, plan.LinkName(hop))
		entered = c.Packets
	}
	assert.Less(t, entered, uint64(sent), "2 MB at once do not fit the shallow queues")
}

func TestCountersOfALostQdiscFail(t *testing.T) {
	name := lab(t, "lost")
	f := mustUp(t, name, mustPlan(t, smallTree(), 400))
	mustRun(t, "tc", "-n", name+".tor0-0", "qdisc", "del", "dev", "up0", "root")
	_, err := f.Counters()
	require.Error(t, err)
	assert.Contains(t, err.Error(), name+".tor0-0: port up0")
}

// The two ECN bits beside a DSCP change on the way; neighbouring DSCPs differ
// by one bit from the masked ones.
func TestClassesCountTheirDSCPWhateverTheECNBits(t *testing.T) {
	s := smallTree()
	s.Background = fabrictest.Paper64Background().Background
	plan := mustPlan(t, s, 400)
	require.True(t, plan.Classes)
	f := mustUp(t, lab(t, "dscp"), plan)
	src, dst := plan.Prefill[0], plan.Decode[3]
	mustUDP(t, f, dst, dataPort)
	from := mustUDP(t, f, src, 40_000)
	for ecn := range 4 {
		sendUDP(t, f, from, dst, 3, 500, plan.KVDSCP<<2|ecn)
		sendUDP(t, f, from, dst, 2, 500, plan.BackgroundDSCP<<2|ecn)
		for _, neighbour := range []int{plan.KVDSCP + 1, plan.KVDSCP - 1, 0, 46} {
			sendUDP(t, f, from, dst, 1, 500, neighbour<<2|ecn)
		}
	}
	now := mustSettle(t, f)
	path, err := f.Path(kernel.Flow{Src: src, Dst: dst, Proto: unix.IPPROTO_UDP, SrcPort: 40_000, DstPort: dataPort})
	require.NoError(t, err)
	for _, hop := range path[1:] {
		c := now[plan.LinkName(hop)]
		assert.EqualValues(t, 12*udpFrame(500), c.KV.Bytes)
		assert.EqualValues(t, 12, c.KV.Packets)
		assert.EqualValues(t, 8*udpFrame(500), c.Background.Bytes)
		assert.EqualValues(t, 16*udpFrame(500), c.Other.Bytes)
		assert.Equal(t, c.Bytes, c.KV.Bytes+c.Background.Bytes+c.Other.Bytes, "the port's total is its classes' sum")
	}
}

func TestECNOfTCPStaysInItsClass(t *testing.T) {
	s := smallTree()
	s.Background = fabrictest.Paper64Background().Background
	plan := mustPlan(t, s, 400)
	name := lab(t, "ecn")
	f := mustUp(t, name, plan)
	src, dst := plan.Prefill[0], plan.Decode[3]
	for _, host := range []fabric.NodeID{src, dst} {
		mustRun(t, "ip", "netns", "exec", name+"."+plan.Nodes[host].Name, "sysctl", "-qw", "net.ipv4.tcp_ecn=1")
	}
	k := mustConnect(t, f, src, dst, mustListen(t, f, dst), 40_000)
	before := mustSettle(t, f)
	raw, err := k.out.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, plan.KVDSCP<<2)
	}))
	require.NoError(t, err)
	const payload = 1_000_000
	_, err = k.transfer(payload)
	require.NoError(t, err)
	now := mustSettle(t, f)
	path, err := f.Path(kernel.Flow{Src: src, Dst: dst, SrcPort: 40_000, DstPort: dataPort})
	require.NoError(t, err)
	last := plan.LinkName(path[5])
	frames := math.Ceil(payload / 1448.0)
	got := float64(now[last].KV.Bytes - before[last].KV.Bytes)
	// Only retransmissions may add to it, and the queues can hold most of a first window.
	assert.GreaterOrEqual(t, got, payload+66*frames)
	assert.LessOrEqual(t, got, 1.02*(payload+66*frames))
	assert.Equal(t, before[last].Other.Bytes, now[last].Other.Bytes, "no data packet in another class")
}

// chiSquare of two counts that should be equal; above 6.635 is less than one
// per cent likely.
func chiSquare(a, b int) float64 {
	mean := float64(a+b) / 2
	return ((float64(a)-mean)*(float64(a)-mean) + (float64(b)-mean)*(float64(b)-mean)) / mean
}

func TestFlowsSpreadOverAllCoreLinks(t *testing.T) {
	plan := mustPlan(t, fabrictest.Paper64(), 400)
	f := mustUp(t, lab(t, "ecmp"), plan)
	// 256 flows from the two instances of rack 0-0 to the other pods. Seeds
	// and ports are fixed, so the kernel's choice is the same every time.
	links := map[string]int{}
	for i := range 256 {
		src, dst := plan.Prefill[i%2], plan.Decode[2+i%6]
		path, err := f.Path(kernel.Flow{Src: src, Dst: dst, SrcPort: uint16(40_000 + i), DstPort: dataPort})
		require.NoError(t, err)
		links[plan.LinkName(path[1])]++
		links[plan.LinkName(path[2])]++
	}
	t.Log(links)
	for _, core := range []string{"agg0-0>core0-0", "agg0-0>core0-1", "agg0-1>core1-0", "agg0-1>core1-1"} {
		assert.Positive(t, links[core], core)
	}
	ktest.Need(t, "hash-seed")
	assert.Less(t, chiSquare(links["tor0-0>agg0-0"], links["tor0-0>agg0-1"]), 6.635, "rack uplinks")
	assert.Less(t, chiSquare(links["agg0-0>core0-0"], links["agg0-0>core0-1"]), 6.635, "core links of aggregation switch 0")
	assert.Less(t, chiSquare(links["agg0-1>core1-0"], links["agg0-1>core1-1"]), 6.635, "core links of aggregation switch 1")
}

func TestWithoutSeedsTheLayersHashDifferentFields(t *testing.T) {
	ktest.NeedFabric(t)
	plan, name := mustPlan(t, fabrictest.Paper64(), 400), lab(t, "seedless")
	f, err := kernel.Apply(t.Context(), name, plan, kernel.Options{NoHashSeed: true})
	require.NoError(t, err)
	defer mustRemove(t, name)
	defer func() { assert.NoError(t, f.Close()) }()
	assert.NoError(t, f.Verify(t.Context()))
	assert.Equal(t, kernel.Features{ToRHashFields: 0x37, AggHashFields: 0x31, RTOMinSysctl: f.Features().RTOMinSysctl}, f.Features())
	links := map[string]int{}
	for i := range 256 {
		path, err := f.Path(kernel.Flow{Src: plan.Prefill[i%2], Dst: plan.Decode[2+i%6], SrcPort: uint16(40_000 + i), DstPort: dataPort})
		require.NoError(t, err)
		links[plan.LinkName(path[2])]++
	}
	t.Log(links)
	assert.Len(t, links, 4, "no core link stays dark")
}

func TestPacketsTakeThePredictedPaths(t *testing.T) {
	plan := mustPlan(t, fabrictest.Paper64(), 400)
	f := mustUp(t, lab(t, "predict"), plan)
	want := map[string]uint64{}
	const flows = 64
	for _, d := range plan.Decode {
		mustUDP(t, f, d, dataPort)
	}
	for i := range flows {
		src, dst := plan.Prefill[i%8], plan.Decode[(i*3+i/8)%8]
		sport := uint16(41_000 + i)
		path, err := f.Path(kernel.Flow{Src: src, Dst: dst, Proto: unix.IPPROTO_UDP, SrcPort: sport, DstPort: dataPort})
		require.NoError(t, err)
		for _, hop := range path {
			want[plan.LinkName(hop)] += udpFrame(100)
		}
		sendUDP(t, f, mustUDP(t, f, src, sport), dst, 1, 100, 0)
	}
	for name, c := range mustSettle(t, f) {
		assert.Equal(t, want[name], c.Bytes, name)
	}
}

func TestPathPortsLeadTCPOverEachPath(t *testing.T) {
	plan := mustPlan(t, fabrictest.Paper64(), 400)
	f := mustUp(t, lab(t, "ports"), plan)
	src, dst := plan.Prefill[1], plan.Decode[6]
	start := time.Now()
	table, err := f.PathPorts(kernel.Flow{Src: src, Dst: dst, SrcPort: 20_000, DstPort: dataPort}, 4)
	require.NoError(t, err)
	t.Logf("16 ports on 4 paths in %v", time.Since(start))
	paths := plan.EqualCostPaths(src, dst)
	require.Len(t, table, len(paths))
	l := mustListen(t, f, dst)
	for slot, ports := range table {
		require.Len(t, ports, 4)
		assert.True(t, slices.IsSorted(ports))
		path, err := f.Path(kernel.Flow{Src: src, Dst: dst, SrcPort: ports[3], DstPort: dataPort})
		require.NoError(t, err)
		assert.Equal(t, paths[slot], path)
		k := mustConnect(t, f, src, dst, l, ports[0])
		before := mustSettle(t, f)
		_, err = k.transfer(10_000)
		require.NoError(t, err)
		now := mustSettle(t, f)
		for other, path := range paths {
			name := plan.LinkName(path[2])
			moved := now[name].Bytes - before[name].Bytes
			if other == slot {
				assert.GreaterOrEqual(t, moved, uint64(10_000))
			} else {
				assert.Zero(t, moved, name)
			}
		}
	}
	_, err = f.PathPorts(kernel.Flow{Src: src, Dst: dst, SrcPort: 65_500, DstPort: dataPort}, 100)
	require.Error(t, err)
	assert.Contains(t, err.Error(), "source ports 65500..65535 from p1 to d6")
	udp, err := f.PathPorts(kernel.Flow{Src: src, Dst: dst, Proto: unix.IPPROTO_UDP, SrcPort: 20_000, DstPort: dataPort}, 4)
	require.NoError(t, err)
	assert.NotEqual(t, table, udp, "the protocol is hashed too")
	for slot, ports := range udp {
		path, err := f.Path(kernel.Flow{Src: src, Dst: dst, Proto: unix.IPPROTO_UDP, SrcPort: ports[0], DstPort: dataPort})
		require.NoError(t, err)
		assert.Equal(t, paths[slot], path)
	}
	near, err := f.PathPorts(kernel.Flow{Src: src, Dst: plan.Prefill[0], SrcPort: 30_000, DstPort: dataPort}, 2)
	require.NoError(t, err)
	assert.Equal(t, [][]uint16{{30_000, 30_001}}, near, "one path: any port")
}

func TestEveryNICUsesItsOwnLink(t *testing.T) {
	s := fabrictest.Rail64()
	s.Topology.Pods = 2
	plan := mustPlan(t, s, 400)
	f := mustUp(t, lab(t, "rail"), plan)
	src, dst := plan.Prefill[0], plan.Decode[3]
	for nic := range 4 {
		table, err := f.PathPorts(kernel.Flow{Src: src, Dst: dst, SrcNIC: nic, DstNIC: nic, SrcPort: 20_000, DstPort: dataPort}, 1)
		require.NoError(t, err)
		assert.Len(t, table, 4)
		out := mustRun(t, "ip", "-n", filepath.Base(f.NetnsPath(src)), "route", "get", plan.Nodes[dst].Addrs[nic].String(), "from", plan.Nodes[src].Addrs[nic].String())
		assert.Contains(t, out, "dev "+plan.Ports[src][nic].Name)
	}
	out := mustRun(t, "ip", "-n", filepath.Base(f.NetnsPath(src)), "route", "get", plan.Nodes[plan.Prefill[1]].Addrs[2].String(), "from", plan.Nodes[src].Addrs[1].String())
	assert.Contains(t, out, "dev nv0", "a neighbour in the server is reached over NVLink from any NIC")
}
