package flowsim_test

import (
	"fmt"
	"time"

	"github.com/netkvlab/netkvlab/flowsim"
)

// Two flows of 100 MB on 1 Gbps, the second 0.4 s later.
func Example() {
	const gbps = 1e9 / 8
	n, err := flowsim.New([]float64{gbps}, flowsim.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for id, at := range []time.Duration{0, 400 * time.Millisecond} {
		err := n.Start(flowsim.At(at), flowsim.Flow{ID: uint64(id), Path: []flowsim.LinkIndex{0}, Bytes: 100e6})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	for next, ok := n.Next(); ok; next, ok = n.Next() {
		done, err := n.Advance(next)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, c := range done {
			fmt.Println("flow", c.ID, "ended at", c.At.Duration())
		}
	}
	// Output:
	// flow 0 ended at 1.2s
	// flow 1 ended at 1.6s
}
