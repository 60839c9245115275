package fabric_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/fabrictest"
)

func TestEveryPairHasItsTiersPaths(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, p *fabric.Plan) {
		hops := []int{1, 2, 4, 6}
		for i := range p.Nodes {
			for j := range p.Nodes {
				src, dst := fabric.NodeID(i), fabric.NodeID(j)
				paths := p.EqualCostPaths(src, dst)
				tier := p.Tier(src, dst)
				if tier < 0 || src == dst {
					require.Nil(t, paths)
					continue
				}
				require.Equal(t, tier, p.Tier(dst, src))
				require.Len(t, paths, p.PathCount(tier))
				seen := map[string]bool{}
				for slot, path := range paths {
					require.Len(t, path, hops[tier])
					names := p.PathNodes(path)
					if slot == (i+j)%len(paths) { // one per pair: it looks through all paths
						got, err := p.SlotVia(src, dst, names[1:len(names)-1])
						require.NoError(t, err)
						require.Equal(t, slot, got)
					}
					require.Equal(t, p.Nodes[src].Name, names[0])
					require.Equal(t, p.Nodes[dst].Name, names[len(names)-1])
					seen[strings.Join(names, " ")] = true
					for h := 1; h < len(path); h++ {
						require.Equal(t, p.Ingress(path[h-1]).Node, p.Egress(path[h]).Node, "hops join")
					}
				}
				require.Len(t, seen, len(paths), "no path twice")
			}
		}
	})
}

// walk follows the planned routes from a node to an address and returns how
// many distinct ways lead there.
func walk(t *testing.T, p *fabric.Plan, from fabric.NodeID, dst netip.Addr, left int) int {
	t.Helper()
	for _, a := range p.Nodes[from].Addrs {
		if a == dst {
			return 1
		}
	}
	require.Positive(t, left, "routes loop")
	var best *fabric.Route
	for i := range p.Nodes[from].Routes {
		r := &p.Nodes[from].Routes[i]
		if r.Table == 0 && r.Dst.Contains(dst) && (best == nil || r.Dst.Bits() > best.Dst.Bits()) {
			best = r
		}
	}
	require.NotNil(t, best)
	ways := 0
	for _, nh := range best.NextHops {
		peer := p.Peer(p.Ports[from][nh.Port])
		require.Equal(t, nh.Via, peer.Addr.Addr(), "the next hop is the neighbour's address")
		ways += walk(t, p, peer.Node, dst, left-1)
	}
	return ways
}

func TestRoutesGiveExactlyTheEqualCostPaths(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, p *fabric.Plan) {
		for i := range p.Nodes {
			for j := range p.Nodes {
				src, dst := &p.Nodes[i], &p.Nodes[j]
				if src.IsSwitch() || dst.IsSwitch() || i == j || (i+j)%3 != 0 && len(p.Nodes) > 100 {
					continue
				}
				for _, a := range dst.Addrs {
					require.Equal(t, p.PathCount(p.Tier(src.ID, dst.ID)), walk(t, p, src.ID, a, 7))
				}
			}
		}
	})
}

func TestNICsHaveTablesAndRules(t *testing.T) {
	t.Parallel()
	p := mustPlan(t, fabrictest.Rail64(), scale(400, 1))
	n := p.Nodes[p.Prefill[0]]
	require.Len(t, n.Addrs, 4)
	require.Len(t, n.Rules, 4)
	byTable := map[int]int{}
	for _, r := range n.Routes {
		byTable[r.Table]++
		if r.Dst.Bits() == 0 && r.Table > 0 {
			nic := r.Table - 100
			assert.Equal(t, n.Addrs[nic], r.Src)
			assert.Equal(t, nic, r.NextHops[0].Port)
		}
	}
	assert.Equal(t, map[int]int{0: 5, 100: 5, 101: 5, 102: 5, 103: 5}, byTable, "a default and four NVLink routes each")
	paths := p.NICPaths(p.Prefill[0], p.Decode[0], 3, 2)
	require.Len(t, paths, 2)
	assert.Equal(t, "p0.3>tor0-0", p.LinkName(paths[0][0]))
	assert.Equal(t, "tor0-1>d0.2", p.LinkName(paths[0][3]))
	assert.Nil(t, p.NICPaths(p.Prefill[0], p.Decode[0], 4, 0))
}

func TestSlotVia(t *testing.T) {
	t.Parallel()
	p := mustPlan(t, fabrictest.Paper64(), scale(400, 1))
	src, dst := p.Prefill[0], p.Decode[7]
	slot, err := p.SlotVia(src, dst, []string{"tor0-0", "agg0-1", "core1-0", "agg3-1", "tor3-1"})
	require.NoError(t, err)
	path := p.EqualCostPaths(src, dst)[slot]
	assert.Equal(t, 2, slot, "slot 2 is aggregation switch 1, core 0")
	assert.Equal(t, "tor0-0>agg0-1", p.LinkName(path[1]))
	assert.Equal(t, "core1-0>agg3-1", p.LinkName(path[3]))
	_, err = p.SlotVia(src, dst, []string{"tor0-0", "agg0-1", "core0-0", "agg3-1", "tor3-1"})
	require.Error(t, err)
	assert.Contains(t, err.Error(), "no path from p0 to d7 via [tor0-0 agg0-1 core0-0 agg3-1 tor3-1]; there is [tor0-0 agg0-0 core0-0 agg3-0 tor3-1]")
	direct, err := p.SlotVia(src, p.Prefill[1], nil)
	require.NoError(t, err)
	assert.Equal(t, "p0>p1", p.LinkName(p.EqualCostPaths(src, p.Prefill[1])[direct][0]))
}
