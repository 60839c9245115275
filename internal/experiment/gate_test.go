package experiment

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestLanesBeginTogetherAndNobodyWaitsForOneThatHasLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var begun, ended []time.Duration
		start := time.Now()
		g := newGate(3, func() { begun = append(begun, time.Since(start)) }, func() { ended = append(ended, time.Since(start)) })
		var wg sync.WaitGroup
		for i, trials := range []int{1, 2, 2} {
			wg.Go(func() {
				defer g.leave()
				for range trials {
					time.Sleep(time.Duration(i+1) * time.Second) // to get ready
					g.wait()
					time.Sleep(time.Duration(10*(i+1)) * time.Second) // the trial
					if i == 2 && len(begun) == 2 {
						return // fails in its second
					}
					g.wait()
				}
			})
		}
		wg.Wait()
		// Ready after 3 s, the longest trial 30; the second time lane 0 has left, and lane 2 does so after 30.
		assert.Equal(t, []time.Duration{3 * time.Second, 36 * time.Second}, begun)
		assert.Equal(t, []time.Duration{33 * time.Second, 66 * time.Second}, ended)
	})
}

func TestTheLastLaneThatLeavesInItsTrialEndsIt(t *testing.T) {
	t.Parallel()
	n := 0
	g := newGate(1, func() { n++ }, func() { n-- })
	g.wait()
	assert.Equal(t, 1, n)
	g.leave()
	assert.Zero(t, n)
	var none *gate
	none.wait()
	none.leave()
}
