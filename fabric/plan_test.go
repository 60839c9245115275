package fabric_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/fabrictest"
	"github.com/netkvlab/netkvlab/scenarios"
)

func scale(s, t float64) scenarios.Scale { return scenarios.Scale{Rate: s, Time: t} }

func mustPlan(tb testing.TB, s *scenarios.Scenario, sc scenarios.Scale) *fabric.Plan {
	tb.Helper()
	p, err := fabric.New(s, sc)
	require.NoError(tb, err)
	return p
}

func TestPlanCounts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		scenario *scenarios.Scenario
		// hosts counts instances and background hosts.
		hosts, switches, tree, nvlinks int
	}{
		{"the paper's cluster is 36 namespaces, 48 tree links and 8 NVLinks", fabrictest.Paper64(), 16, 20, 48, 8},
		{"background adds a host and a link a rack", fabrictest.Paper64Background(), 24, 20, 56, 8},
		{"four NICs an instance are four links", fabrictest.Rail64(), 16, 20, 96, 8},
		{"the k=8 fat tree has 128 hosts, 80 switches, 384 links", fabrictest.KAry(8), 128, 80, 384, 0},
		{"the k=4 fat tree has 16 hosts, 20 switches, 48 links", fabrictest.KAry(4), 16, 20, 48, 0},
		{"the k=2 fat tree keeps its switches", fabrictest.KAry(2), 2, 5, 6, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := mustPlan(t, tc.scenario, scale(100, 1))
			hosts, nv := 0, 0
			for i := range p.Nodes {
				if !p.Nodes[i].IsSwitch() {
					hosts++
				}
			}
			for i := range p.Links {
				if p.Links[i].Tier == 0 {
					nv++
				}
			}
			assert.Equal(t, tc.hosts, hosts)
			assert.Equal(t, tc.switches, len(p.Nodes)-hosts)
			assert.Equal(t, tc.tree, len(p.Links)-nv)
			assert.Equal(t, tc.nvlinks, nv)
		})
	}
}

// every runs a law on all shapes of a plan.
func every(t *testing.T, law func(t *testing.T, p *fabric.Plan)) {
	t.Helper()
	fourNICs := fabrictest.Rail64()
	fourNICs.Background = scenarios.Background{Utilization: scenarios.TierUtilization{Tier3: 0.9}, DSCP: 8}
	single := fabrictest.KAry(4)
	single.Topology.Pods = 1
	oneRack := fabrictest.Paper64()
	oneRack.Topology.Pods, oneRack.Topology.RacksPerPod = 1, 1
	oneRack.Placement = scenarios.Placement{Unit: "instance", Pattern: []string{"prefill", "decode"}}
	eight := fabrictest.Paper64()
	eight.Model.TensorParallel = 1
	eight.Topology.ServersPerRack = 3
	for name, s := range map[string]*scenarios.Scenario{
		"paper": fabrictest.Paper64(), "background": fabrictest.Paper64Background(), "rail": fabrictest.Rail64(),
		"rail with background": fourNICs, "k4": fabrictest.KAry(4), "k8": fabrictest.KAry(8), "one pod": single,
		"one rack": oneRack, "eight instances a server": eight,
	} {
		for _, sc := range []scenarios.Scale{scale(1, 1), scale(1000, 1), scale(200, 4)} {
			t.Run(fmt.Sprintf("%s at %v/%v", name, sc.Rate, sc.Time), func(t *testing.T) {
				t.Parallel()
				law(t, mustPlan(t, s, sc))
			})
		}
	}
}

func TestEveryAddressNameAndPortIsUnique(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, p *fabric.Plan) {
		addrs, names := map[netip.Addr]string{}, map[string]bool{}
		claim := func(a netip.Addr, who string) {
			require.Emptyf(t, addrs[a], "%s and %s share %s", addrs[a], who, a)
			require.True(t, netip.MustParsePrefix("10.0.0.0/8").Contains(a))
			addrs[a] = who
		}
		for i := range p.Nodes {
			n := &p.Nodes[i]
			require.Equal(t, fabric.NodeID(i), n.ID)
			require.False(t, names[n.Name], n.Name)
			names[n.Name] = true
			id, ok := p.Lookup(n.Name)
			require.True(t, ok)
			require.Equal(t, n.ID, id)
			for _, a := range n.Addrs {
				claim(a, n.Name)
			}
			ports := map[string]bool{}
			for j, port := range p.Ports[i] {
				require.Equal(t, j, port.Index)
				require.Equal(t, n.ID, port.Node)
				require.LessOrEqual(t, len(port.Name), 15)
				require.False(t, ports[port.Name])
				ports[port.Name] = true
				claim(port.Addr.Addr(), n.Name+"/"+port.Name)
			}
			require.Equal(t, n.IsSwitch(), n.HashSeed != 0)
		}
		for i := range p.Links {
			l := &p.Links[i]
			require.Equal(t, l.A.Addr.Masked(), l.B.Addr.Masked(), "a link's ends share its /31")
			require.Same(t, &l.B, p.Peer(&l.A))
			require.Same(t, &l.A, p.Peer(&l.B))
		}
	})
}

func TestHashSeedsDiffer(t *testing.T) {
	t.Parallel()
	p := mustPlan(t, fabrictest.KAry(8), scale(1, 1))
	seen := map[uint32]string{}
	for i := range p.Nodes {
		if n := &p.Nodes[i]; n.IsSwitch() {
			require.Emptyf(t, seen[n.HashSeed], "%s and %s", seen[n.HashSeed], n.Name)
			seen[n.HashSeed] = n.Name
		}
	}
}

func TestSameInputGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, p *fabric.Plan) {
		_, err := json.Marshal(p)
		require.NoError(t, err)
	})
	for _, s := range []func() *scenarios.Scenario{fabrictest.Paper64Background, fabrictest.Rail64} {
		a, b := mustPlan(t, s(), scale(400, 1)), mustPlan(t, s(), scale(400, 1))
		ja, err := json.Marshal(a)
		require.NoError(t, err)
		jb, err := json.Marshal(b)
		require.NoError(t, err)
		assert.Equal(t, string(ja), string(jb))
	}
}

func TestNodesHaveRolesAndAddresses(t *testing.T) {
	t.Parallel()
	s := fabrictest.Paper64()
	s.Placement = scenarios.Placement{Prefill: []int{0}, Decode: []int{1}}
	p := mustPlan(t, s, scale(400, 1))
	for i, want := range []string{"p0: instance, prefill, [10.0.0.1]", "d0: instance, decode, [10.0.0.2]", "i0: instance, none, [10.0.1.1]"} {
		n := &p.Nodes[i]
		assert.Equal(t, want, fmt.Sprintf("%s: %s, %s, %v", n.Name, n.Kind, n.Role, n.Addrs))
	}
	id, _ := p.Lookup("tor0-0")
	assert.Equal(t, "tor, none, []", fmt.Sprintf("%s, %s, %v", p.Nodes[id].Kind, p.Nodes[id].Role, p.Nodes[id].Addrs))
}

func TestRatesAreDividedByBothScales(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, p *fabric.Plan) {
		for i := range p.Links {
			l := &p.Links[i]
			want := float64(l.Rate) / p.Scale.Rate / p.Scale.Time
			require.InDelta(t, want, float64(l.RateEmulated), 0.5)
			for _, port := range []*fabric.Port{&l.A, &l.B} {
				require.Equal(t, l.RateEmulated, port.Shape.Rate)
			}
		}
	})
}

func TestShapesFollowTheRecipe(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, p *fabric.Plan) {
		for i := range p.Nodes {
			for _, port := range p.Ports[i] {
				s := port.Shape
				require.GreaterOrEqual(t, float64(s.BurstBytes), s.Rate.BytesPerSecond()*200e-6)
				require.LessOrEqual(t, s.LimitBytes, math.MaxUint32)
				if p.Nodes[i].IsSwitch() {
					require.Zero(t, port.GSOMaxSegs, "only senders bound segments")
					require.GreaterOrEqual(t, s.LimitBytes, 65536)
				} else {
					require.Positive(t, port.GSOMaxSegs)
					packet := port.GSOMaxSegs * fabric.FrameBytes
					late := min(packet, int(s.Rate.BytesPerSecond()/1000))
					require.GreaterOrEqual(t, s.BurstBytes, packet+late, "a packet, and what comes while a timer is a millisecond late")
					require.Equal(t, 4_000_000, s.LimitBytes)
					require.False(t, s.Classes, "a host sends one kind of traffic")
				}
				if s.Classes {
					require.Equal(t, s.Rate, s.KVRate+s.BackgroundRate+s.OtherRate)
				}
			}
		}
	})
}

func TestSegmentsAndBuffers(t *testing.T) {
	t.Parallel()
	at := func(s *scenarios.Scenario, rate float64, node string) *fabric.Port {
		p := mustPlan(t, s, scale(rate, 1))
		id, _ := p.Lookup(node)
		return p.Ports[id][0]
	}
	slow, quick := fabrictest.Paper64(), fabrictest.Paper64()
	assert.Equal(t, 2, at(slow, 2000, "p0").GSOMaxSegs, "core links of 12.5 Mbit/s")
	assert.Equal(t, 4, at(slow, 1999, "p0").GSOMaxSegs)
	assert.Equal(t, 4, at(quick, 400, "p0").GSOMaxSegs)
	assert.Equal(t, 4, at(quick, 251, "p0").GSOMaxSegs)
	assert.Equal(t, 8, at(quick, 250, "p0").GSOMaxSegs, "core links of 100 Mbit/s")
	set := fabrictest.Paper64()
	set.Topology.Buffers = scenarios.Buffers{SwitchEmulated: 30_000, HostEmulated: 1 << 20, SegmentsPerBurst: 8}
	assert.Equal(t, 8, at(set, 1000, "p0").GSOMaxSegs)
	assert.Equal(t, 1<<20, at(set, 1000, "p0").Shape.LimitBytes)
	assert.Equal(t, 30_000, at(set, 1000, "tor0-0").Shape.LimitBytes)
	assert.Equal(t, 8*1514+3125, at(set, 1000, "core0-0").Shape.BurstBytes, "a packet and a millisecond of 25 Mbit/s")
	// 50 Gbps / 100 = 500 Mbit/s: 5 ms are 312500 bytes.
	p := mustPlan(t, fabrictest.Paper64(), scale(100, 1))
	tor, _ := p.Lookup("tor0-0")
	assert.Equal(t, 312_500, p.Ports[tor][2].Shape.LimitBytes)
	assert.Equal(t, 2*8*1514, p.Ports[tor][2].Shape.BurstBytes, "two packets of eight segments, and more than 200 us of the rate")
	// 200 us of 2.5 Gbit/s are more than that.
	p = mustPlan(t, fabrictest.Paper64(), scale(20, 1))
	assert.Equal(t, 62_500, p.Ports[tor][2].Shape.BurstBytes)
}

func TestFairSwitchesHaveQueuesForFlows(t *testing.T) {
	t.Parallel()
	pods := func(s *scenarios.Scenario, n int) *scenarios.Scenario {
		s.Topology.Pods = n
		return s
	}
	for _, tc := range []struct {
		s        *scenarios.Scenario
		buffer   scenarios.Bytes
		segments int
		limit    int
		queues   int // 20 switch ports per pod, and those that background adds
	}{
		{pods(fabrictest.Paper64(), 2), 0, 4, 65_536, 256},
		{fabrictest.Paper64(), 1_000_000, 4, 125_000, 128},
		{fabrictest.Paper64(), 16_384, 4, 16_384, 128},
		{fabrictest.Paper64Background(), 400_000, 2, 65_536, 32},
		{pods(fabrictest.Paper64(), 64), 0, 4, 65_536, 16},
	} {
		fifo := mustPlan(t, tc.s, scale(400, 1))
		assert.False(t, fifo.Fair())
		tc.s.Topology.Buffers = scenarios.Buffers{Queueing: scenarios.QueueingFair, SwitchEmulated: tc.buffer, SegmentsPerBurst: tc.segments}
		p := mustPlan(t, tc.s, scale(400, 1))
		assert.True(t, p.Fair())
		assert.NotEqual(t, fifo.Links, p.Links, "a lab of one kind is not taken for the other")
		sum := 0
		for i := range p.Nodes {
			for _, port := range p.Ports[i] {
				if !p.Nodes[i].IsSwitch() {
					require.Zero(t, port.Shape.FlowQueues, "a host's own queue pushes back on its senders")
					continue
				}
				require.Equal(t, tc.queues, port.Shape.FlowQueues)
				require.Equal(t, tc.segments*fabric.FrameBytes, port.Shape.QuantumBytes, "a turn is a burst")
				require.Equal(t, tc.limit, port.Shape.LimitBytes)
				sum += tc.queues
			}
		}
		if p.Classes {
			sum *= 2
		}
		assert.Equal(t, sum, p.FlowQueues())
	}
	huge := pods(fabrictest.Paper64Background(), 64)
	huge.Topology.Buffers.Queueing = scenarios.QueueingFair
	_, err := fabric.New(huge, scale(400, 1))
	assert.ErrorContains(t, err, "topology.buffers.queueing: fair takes")
}

func TestClassesNeedBackgroundAndSeparation(t *testing.T) {
	t.Parallel()
	off := fabrictest.Paper64Background()
	off.Oracle.Separation = "none"
	assert.False(t, mustPlan(t, off, scale(400, 1)).Classes)
	assert.False(t, mustPlan(t, fabrictest.Paper64(), scale(400, 1)).Classes)
	p := mustPlan(t, fabrictest.Paper64Background(), scale(400, 1))
	require.True(t, p.Classes)
	core, _ := p.Lookup("core0-0")
	s := p.Ports[core][0].Shape
	require.True(t, s.Classes)
	assert.InDelta(t, 0.24, float64(s.BackgroundRate)/float64(s.Rate), 1e-6, "a fifth and a tenth of it and 2 points")
}

func TestTierBandwidthIsThePapers(t *testing.T) {
	t.Parallel()
	p := mustPlan(t, fabrictest.Paper64(), scale(400, 1))
	assert.Equal(t, [4]scenarios.BitsPerSecond{3600e9, 100e9, 50e9, 25e9}, p.TierBandwidth())
}

func TestPlacement(t *testing.T) {
	t.Parallel()
	names := func(p *fabric.Plan, ids []fabric.NodeID) (out []string) {
		for _, id := range ids {
			n := p.Nodes[id]
			out = append(out, fmt.Sprintf("%s@%d", n.Name, n.Index))
		}
		return out
	}
	p := mustPlan(t, fabrictest.Paper64(), scale(1, 1))
	assert.Equal(t, []string{"p0@0", "p1@1", "p2@4", "p3@5", "p4@8", "p5@9", "p6@12", "p7@13"}, names(p, p.Prefill))
	for _, a := range p.Prefill {
		for _, b := range p.Decode {
			assert.GreaterOrEqual(t, p.Tier(a, b), 2, "no transfer stays in a rack, as in the paper")
		}
	}
	listed := fabrictest.Paper64()
	listed.Placement = scenarios.Placement{Prefill: []int{5, 0}, Decode: []int{3}}
	p = mustPlan(t, listed, scale(1, 1))
	assert.Equal(t, []string{"p0@0", "p1@5"}, names(p, p.Prefill), "names follow position, not the list")
	assert.Equal(t, []string{"d0@3"}, names(p, p.Decode))
	_, ok := p.Lookup("i12")
	assert.True(t, ok)
	for _, unit := range []string{"server", "pod"} {
		s := fabrictest.Paper64()
		s.Placement = scenarios.Placement{Unit: unit, Pattern: []string{"prefill", "idle", "decode"}}
		assert.NotEmpty(t, mustPlan(t, s, scale(1, 1)).Decode)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		spoil func(s *scenarios.Scenario, sc *scenarios.Scale)
		want  string
	}{
		{"no pods", func(s *scenarios.Scenario, _ *scenarios.Scale) { s.Topology.Pods = 0 }, "topology.pods is 0, want 1..64"},
		{"an unresolved scale", func(_ *scenarios.Scenario, sc *scenarios.Scale) { sc.Rate = 0 }, "scale.rate is 0"},
		{"a NaN scale", func(_ *scenarios.Scenario, sc *scenarios.Scale) { sc.Time = math.NaN() }, "scale.time is NaN"},
		{"a rate scaled to nothing", func(_ *scenarios.Scenario, sc *scenarios.Scale) { sc.Rate = 1e11 }, "want at least 8"},
		{"no NIC rate", func(s *scenarios.Scenario, _ *scenarios.Scale) { s.Topology.NICRate = 0 }, "topology.nicRate is 0"},
		{"GPUs that do not divide", func(s *scenarios.Scenario, _ *scenarios.Scale) { s.Model.TensorParallel = 3 }, "multiple of model.tensorParallel"},
		{"a rack beyond a /24", func(s *scenarios.Scenario, _ *scenarios.Scale) {
			s.Topology.ServersPerRack = 64
			s.Model.TensorParallel = 1
		}, "a rack needs 512"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, sc := fabrictest.Paper64(), scale(400, 1)
			tc.spoil(s, &sc)
			_, err := fabric.New(s, sc)
			require.Error(t, err)
			assert.Contains(t, err.Error(), tc.want)
		})
	}
	_, err := fabric.New(nil, scale(1, 1))
	assert.Error(t, err)
}
