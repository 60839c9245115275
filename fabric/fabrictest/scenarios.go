// Package fabrictest has the clusters that tests and benchmarks of the fabric
// build on, written out in full so that they depend on no default: KAry trees,
// the paper's cluster, and variants of it. The scenarios hold what a fabric
// needs (topology, placement, traffic classes) and nothing of engines or workloads.
package fabrictest

import "github.com/netkvlab/netkvlab/scenarios"

const gbps scenarios.BitsPerSecond = 1_000_000_000

// KAry is the classic fat tree of k-port switches without oversubscription:
// k pods of k/2 racks and k/2 aggregation switches, k/2 hosts per rack, (k/2)^2
// cores, every link 100 Gbps. k must be even and at least 2. KAry(8) has 128
// hosts, 80 switches and 384 links.
func KAry(k int) *scenarios.Scenario {
	half := k / 2
	return &scenarios.Scenario{
		Name: "kary",
		Topology: scenarios.Topology{
			Pods: k, RacksPerPod: half, ServersPerRack: half, GPUsPerServer: 1,
			AggsPerPod: half, CoresPerAgg: half, NICsPerInstance: 1,
			NICRate: 100 * gbps, NVLinkRate: 3600 * gbps,
			Oversubscription: scenarios.Oversubscription{Rack: 1, Pod: 1},
			LinkRates:        scenarios.LinkRates{RackUplink: 100 * gbps, CoreLink: 100 * gbps},
		},
		Model:    scenarios.Model{TensorParallel: 1},
		Workload: scenarios.Workload{Kind: "flows"},
	}
}

// Paper64 is the notes' 64-GPU cluster: 4 pods of 2 racks of one 8-GPU server
// with two instances of 4 GPUs; 100 Gbps NICs, 2:1 at the rack (2 x 50 Gbps),
// 4:1 at the pod (4 x 25 Gbps); prefill in rack 0, decode in rack 1 of each pod.
func Paper64() *scenarios.Scenario {
	return &scenarios.Scenario{
		Name: "paper-64gpu",
		Topology: scenarios.Topology{
			Pods: 4, RacksPerPod: 2, ServersPerRack: 1, GPUsPerServer: 8,
			AggsPerPod: 2, CoresPerAgg: 2, NICsPerInstance: 1,
			NICRate: 100 * gbps, NVLinkRate: 3600 * gbps,
			Oversubscription: scenarios.Oversubscription{Rack: 2, Pod: 4},
			LinkRates:        scenarios.LinkRates{RackUplink: 50 * gbps, CoreLink: 25 * gbps},
		},
		Placement: scenarios.Placement{Unit: "rack", Pattern: []string{"prefill", "decode"}},
		Model:     scenarios.Model{TensorParallel: 4},
		Workload:  scenarios.Workload{Kind: "synthetic"},
		Transfer:  scenarios.Transfer{DSCP: 10},
		Oracle:    scenarios.Oracle{Separation: "dscp"},
	}
}

// Paper64Background is Paper64 with a fifth of rack uplinks and core links
// taken by other tenants, DSCP 8, so that switch ports count in classes.
func Paper64Background() *scenarios.Scenario {
	s := Paper64()
	s.Background = scenarios.Background{
		Utilization: scenarios.TierUtilization{Tier2: 0.2, Tier3: 0.2}, Kind: "udp", DSCP: 8,
	}
	return s
}

// Rail64 is Paper64 with one NIC per GPU: four NICs of 25 Gbps per instance.
func Rail64() *scenarios.Scenario {
	s := Paper64()
	s.Name = "rail-64gpu"
	s.Topology.NICsPerInstance = 4
	s.Topology.NICRate = 25 * gbps
	return s
}
