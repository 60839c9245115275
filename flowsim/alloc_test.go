package flowsim_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/netkvlab/netkvlab/flowsim"
)

// Not parallel: allocations of other tests would count.
func TestEventsInSteadyStateAllocateNothing(t *testing.T) {
	top := tree{pods: 4}
	r := rand.New(rand.NewPCG(5, 6))
	n := mustNetwork(t, top.capacities()...)
	paths := make([][]flowsim.LinkIndex, 256)
	for i := range paths {
		paths[i] = top.path(r)
	}
	id := uint64(0)
	start := func(now flowsim.Instant) {
		id++
		assert.NoError(t, n.Start(now, flowsim.Flow{ID: id, Path: paths[r.IntN(len(paths))], Bytes: size(r)}))
	}
	for range 40 {
		start(flowsim.Instant{})
	}
	turn := func() {
		next, _ := n.Next()
		done, _ := n.Advance(next)
		for range done {
			start(next)
		}
	}
	for range 5000 { // until every slice has its size
		turn()
	}
	assert.Zero(t, testing.AllocsPerRun(2000, turn))
}
