package controller

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/kvagent/engine"
)

// Among instances with equally many outstanding tokens the request's own draw chooses. An
// instance with fewer is chosen for any draw.
func TestPrefillInstanceIsChosenByLoadThenByTheRequestsDraw(t *testing.T) {
	t.Parallel()
	chosen := map[int]bool{}
	for id := range 20 {
		pool, err := newPrefillPool(3, engine.PrefillConfig{Model: engine.Model{PrefillPerTokenNs: 1e6}})
		require.NoError(t, err)
		r := workload.Request{ID: id, PromptTokens: 100, TieBreak: uint64(id)}
		first, ok := pool.choose(0, &r)
		require.True(t, ok)
		assert.Equal(t, int(prefillDraw(&r)%3), first)
		chosen[first] = true

		// The other two are equal now, and the next request's draw decides between them.
		next := workload.Request{ID: id + 1, PromptTokens: 50, TieBreak: uint64(id + 1)}
		idle := []int{0, 1, 2}
		idle = append(idle[:first], idle[first+1:]...)
		second, ok := pool.choose(0, &next)
		require.True(t, ok)
		assert.Equal(t, idle[prefillDraw(&next)%2], second)

		last := workload.Request{ID: id + 2, PromptTokens: 10, TieBreak: uint64(id)}
		third, ok := pool.choose(0, &last)
		require.True(t, ok)
		assert.Equal(t, 3-first-second, third, "the one with nothing to do")
	}
	assert.Len(t, chosen, 3, "no instance is preferred")
}
