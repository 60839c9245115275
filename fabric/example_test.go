package fabric_test

import (
	"fmt"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/fabrictest"
	"github.com/netkvlab/netkvlab/scenarios"
)

// The paper's cluster at a four-hundredth of its rates: what a path slot means.
func ExampleNew() {
	plan, err := fabric.New(fabrictest.Paper64(), scenarios.Scale{Rate: 400, Time: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	src, dst := plan.Prefill[0], plan.Decode[7]
	fmt.Println("tier", plan.Tier(src, dst))
	for slot, path := range plan.EqualCostPaths(src, dst) {
		narrow := plan.Egress(path[2]).Shape
		fmt.Println(slot, plan.PathNodes(path), int64(narrow.Rate), "bit/s")
	}
	// Output:
	// tier 3
	// 0 [p0 tor0-0 agg0-0 core0-0 agg3-0 tor3-1 d7] 62500000 bit/s
	// 1 [p0 tor0-0 agg0-0 core0-1 agg3-0 tor3-1 d7] 62500000 bit/s
	// 2 [p0 tor0-0 agg0-1 core1-0 agg3-1 tor3-1 d7] 62500000 bit/s
	// 3 [p0 tor0-0 agg0-1 core1-1 agg3-1 tor3-1 d7] 62500000 bit/s
}
