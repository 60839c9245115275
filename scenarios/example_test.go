package scenarios_test

import (
	"fmt"

	"github.com/netkvlab/netkvlab/scenarios"
)

func ExampleLoad() {
	s, err := scenarios.Load("paper-64gpu", "topology.oversubscription.pod=8")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Instances(), "instances, core links of", s.Topology.LinkRates.CoreLink)
	fmt.Println(4096*s.Model.KVBytesPerToken(), "of KV cache for 4096 tokens")
	// Output:
	// 16 instances, core links of 12.5Gbps
	// 1.25GiB of KV cache for 4096 tokens
}

func ExampleParse() {
	_, err := scenarios.Parse("lab.yaml", []byte("topology:\n  podz: 2\n  nicRate: 100gbps\n  pods: 0\n"))
	fmt.Println(err)
	// Output:
	// lab.yaml:2: topology: unknown key "podz"; did you mean "pods"? (valid: pods, racksPerPod, serversPerRack, gpusPerServer, aggsPerPod, coresPerAgg, nicsPerInstance, nicRate, nvlinkRate, oversubscription, linkRates, latency, buffers)
	// lab.yaml:3: topology.nicRate: unit "gbps" is ambiguous: tc reads it as bytes; write 100Gbps (bits) or 100GB/s (bytes), got 100gbps
	// lab.yaml:4: topology.pods: must be 1..64, got 0
}
