package attribution

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAfford(t *testing.T) {
	t.Parallel()
	var packet []trial // three policies on two seeds
	for _, p := range []string{"rr", "cla", "netkv-full"} {
		packet = append(packet, trial{policy: p, seed: 1}, trial{policy: p, seed: 7})
	}
	wide := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for _, tt := range []struct {
		name     string
		requests int
		seeds    []uint64
		draws    int
	}{
		{"everything for a few hundred requests", 200, []uint64{1, 7, 2, 3, 4, 5, 6, 8, 9, 10}, 20},
		{"a part of it for a long trace", 8000, []uint64{1, 7, 2, 3, 4}, 7},
		{"the packet run's seeds in any case", 1_000_000, []uint64{1, 7}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			seeds, draws := afford(packet, wide, 3, tt.requests)
			assert.Equal(t, tt.seeds, seeds)
			assert.Equal(t, tt.draws, draws)
		})
	}
}
