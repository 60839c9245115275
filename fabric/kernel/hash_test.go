//go:build linux

package kernel

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSipHashIsThatOfItsPaper(t *testing.T) {
	t.Parallel()
	// Appendix A of the paper: the key is 00 to 0f, the message 00 to 0e.
	var bytes [16]byte
	for i := range bytes {
		bytes[i] = byte(i)
	}
	k0, k1 := binary.LittleEndian.Uint64(bytes[:8]), binary.LittleEndian.Uint64(bytes[8:])
	assert.Equal(t, uint64(0xa129ca6149be45e5), sipHash(k0, k1, bytes[:15]))
}

func TestHashesAreSharedOutEvenlyAndInOrder(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 64; n++ {
		assert.Equal(t, 0, hopOf(0, n))
		assert.Equal(t, n-1, hopOf(1<<32-1, n))
		counts, last := make([]int, n), 0
		const steps = 1 << 12
		for i := range steps {
			hop := hopOf(uint32(i<<20), n)
			if hop < last {
				t.Fatalf("hash %#x of %d next hops goes to %d, a smaller one to %d", i<<20, n, hop, last)
			}
			last = hop
			counts[hop]++
		}
		for hop, count := range counts {
			assert.InDelta(t, steps/float64(n), count, 1, "next hop %d of %d", hop, n)
		}
	}
}

// Confirmed counts the routes whose choice is computed, and those where the kernel was
// found to choose otherwise.
func (f *Fabric) Confirmed() (confirmed, refutedRoutes int) {
	f.foresight.mu.Lock()
	defer f.foresight.mu.Unlock()
	for _, n := range f.foresight.agreed {
		switch {
		case n == refuted:
			refutedRoutes++
		case n >= confirmations:
			confirmed++
		}
	}
	return confirmed, refutedRoutes
}
