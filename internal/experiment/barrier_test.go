package experiment

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestLanesBeginTogetherAndNoneWaitsForOneThatHasLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		begun, ended := map[time.Duration]int{}, map[time.Duration]int{}
		start := time.Now()
		note := func(m map[time.Duration]int) {
			mu.Lock()
			defer mu.Unlock()
			m[time.Since(start)]++
		}
		b := newBarrier(3)
		var wg sync.WaitGroup
		for i, trials := range []int{1, 2, 2} {
			wg.Go(func() {
				defer b.leave()
				for n := range trials {
					time.Sleep(time.Duration(i+1) * time.Second) // to get ready
					b.wait()
					note(begun)
					time.Sleep(time.Duration(10*(i+1)) * time.Second) // the trial
					if i == 2 && n == 1 {
						return // fails in its second trial
					}
					b.wait()
					note(ended)
				}
			})
		}
		wg.Wait()
		// All are ready after 3 s, and the longest trial takes 30 s. Lane 0 has left by the second
		// time; lane 2 leaves after 30 s.
		assert.Equal(t, map[time.Duration]int{3 * time.Second: 3, 36 * time.Second: 2}, begun)
		assert.Equal(t, map[time.Duration]int{33 * time.Second: 3, 66 * time.Second: 1}, ended)
	})
}

func TestOneLaneWaitsForNone(t *testing.T) {
	t.Parallel()
	b := newBarrier(1)
	b.wait()
	b.wait()
	b.leave()
}
