//go:build linux

package kernel_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/fabrictest"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/fabric/kernel/ktest"
)

// requireKernelAgrees compares every port of a table with the kernel's route lookup.
func requireKernelAgrees(t *testing.T, f *kernel.Fabric, proto uint8, src, dst fabric.NodeID, want int) {
	t.Helper()
	table, err := f.PathPorts(kernel.Flow{Src: src, Dst: dst, Proto: proto, SrcPort: 20_000, DstPort: dataPort}, want)
	require.NoError(t, err)
	paths := f.Plan().EqualCostPaths(src, dst)
	for slot, ports := range table {
		for _, port := range ports {
			path, err := f.Path(kernel.Flow{Src: src, Dst: dst, Proto: proto, SrcPort: port, DstPort: dataPort})
			require.NoError(t, err)
			require.Equal(t, paths[slot], path, "%s to %s from port %d", f.Plan().Nodes[src].Name, f.Plan().Nodes[dst].Name, port)
		}
	}
}

func TestComputedPathsAreTheKernels(t *testing.T) {
	ktest.Need(t, "hash-seed")
	for _, tc := range []struct {
		name        string
		aggs, cores int
	}{
		{"two and two next hops", 2, 2},
		{"three and five, which do not divide the hash evenly", 3, 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := smallTree()
			s.Topology.AggsPerPod, s.Topology.CoresPerAgg = tc.aggs, tc.cores
			plan := mustPlan(t, s, 400)
			f := mustUp(t, lab(t, "foresee"), plan)
			for _, src := range plan.Prefill {
				for _, dst := range plan.Decode {
					requireKernelAgrees(t, f, unix.IPPROTO_TCP, src, dst, 6)
					requireKernelAgrees(t, f, unix.IPPROTO_UDP, src, dst, 3)
				}
			}
			confirmed, refuted := f.Confirmed()
			assert.Equal(t, 2*(1+tc.aggs), confirmed, "the default routes of the prefill racks and what is above them")
			assert.Zero(t, refuted)
		})
	}
}

func TestASwitchThatChoosesOtherwiseIsAsked(t *testing.T) {
	ktest.Need(t, "hash-seed")
	plan := mustPlan(t, smallTree(), 400)
	f := mustUp(t, lab(t, "refute"), plan)
	src, dst := plan.Prefill[0], plan.Decode[2]
	rack := plan.Ingress(plan.EqualCostPaths(src, dst)[0][0]).Node
	require.NoError(t, f.Do(rack, func() error {
		return os.WriteFile("/proc/sys/net/ipv4/fib_multipath_hash_seed", []byte("1"), 0)
	}))
	requireKernelAgrees(t, f, unix.IPPROTO_TCP, src, dst, 16)
	confirmed, refuted := f.Confirmed()
	assert.Equal(t, 2, confirmed, "those above the rack")
	assert.Equal(t, 1, refuted)
}

// mustApply is mustUp on a kernel with or without hash seeds.
func mustApply(tb testing.TB, name string, plan *fabric.Plan, seeds bool) *kernel.Fabric {
	tb.Helper()
	ktest.NeedFabric(tb)
	if seeds {
		ktest.Need(tb, "hash-seed")
	}
	f, err := kernel.Apply(tb.Context(), name, plan, kernel.Options{NoHashSeed: !seeds})
	require.NoError(tb, err)
	tb.Cleanup(func() {
		assert.NoError(tb, f.Close())
		mustRemove(tb, name)
	})
	return f
}

func TestTheWayBackIsTheKernels(t *testing.T) {
	for _, seeds := range []bool{true, false} {
		t.Run(fmt.Sprintf("seeds %v", seeds), func(t *testing.T) {
			plan := mustPlan(t, smallTree(), 400)
			f := mustApply(t, lab(t, "back"), plan, seeds)
			back := kernel.Flow{Src: plan.Decode[2], Dst: plan.Prefill[0], SrcPort: dataPort}
			var ports []uint16
			for port := uint16(20_000); port < 20_080; port++ {
				ports = append(ports, port)
			}
			slots, err := f.Slots(back, ports)
			require.NoError(t, err)
			paths, used := plan.EqualCostPaths(back.Src, back.Dst), map[int]bool{}
			for i, port := range ports {
				back.DstPort = port
				path, err := f.Path(back)
				require.NoError(t, err)
				require.Equal(t, paths[slots[i]], path, "port %d", port)
				used[slots[i]] = true
			}
			assert.Len(t, used, len(paths), "ports lead over every path")
			back.DstNIC = 9
			_, err = f.Slots(back, ports)
			require.ErrorContains(t, err, "no path")
		})
	}
}

func TestWithoutSeedsTheKernelIsAsked(t *testing.T) {
	plan := mustPlan(t, smallTree(), 400)
	f := mustApply(t, lab(t, "unseeded"), plan, false)
	requireKernelAgrees(t, f, unix.IPPROTO_TCP, plan.Prefill[0], plan.Decode[2], 8)
	confirmed, refuted := f.Confirmed()
	assert.Zero(t, confirmed+refuted)
}

// BenchmarkPathPortsTree1024 fills the pools of one instance of the 1024-GPU cluster:
// eight ports on each of four paths to 128 others.
func BenchmarkPathPortsTree1024(b *testing.B) {
	ktest.NeedFabric(b)
	s := fabrictest.Paper64()
	s.Topology.Pods = 64
	plan := mustPlan(b, s, 400)
	f := mustUp(b, lab(b, "ports1024"), plan)
	for b.Loop() {
		for _, dst := range plan.Decode {
			_, err := f.PathPorts(kernel.Flow{Src: plan.Prefill[0], Dst: dst, SrcPort: 20_000, DstPort: dataPort}, 8)
			require.NoError(b, err)
		}
	}
}

// BenchmarkWaysBack finds the acknowledgements' paths of 12,000 connections of the paper's cluster.
func BenchmarkWaysBack(b *testing.B) {
	for _, seeds := range []bool{true, false} {
		b.Run(fmt.Sprintf("seeds %v", seeds), func(b *testing.B) {
			plan := mustPlan(b, fabrictest.Paper64(), 400)
			f := mustApply(b, lab(b, "ways"), plan, seeds)
			ports := make([]uint16, 12_000/(len(plan.Prefill)*len(plan.Decode)))
			for i := range ports {
				ports[i] = uint16(10_000 + i)
			}
			for b.Loop() {
				for _, src := range plan.Prefill {
					for _, dst := range plan.Decode {
						_, err := f.Slots(kernel.Flow{Src: dst, Dst: src, SrcPort: dataPort}, ports)
						require.NoError(b, err)
					}
				}
			}
		})
	}
}
