//go:build linux

package kernel

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

// TestFlowsKeepTheirHash is not parallel, since it counts allocations. TestComputedPathsAreTheKernels shows that the kernel has the same.
func TestFlowsKeepTheirHash(t *testing.T) {
	there := fiveTuple{src: netip.MustParseAddr("10.0.1.2"), dst: netip.MustParseAddr("10.3.0.5"), proto: unix.IPPROTO_TCP, sport: 20001, dport: 7000}
	back := fiveTuple{src: there.dst, dst: there.src, proto: unix.IPPROTO_TCP, sport: there.dport, dport: there.sport}
	datagrams := there
	datagrams.proto = unix.IPPROTO_UDP
	const seed = 0x1234abcd
	assert.Equal(t, uint32(0x89a277be), multipathHash(seed, &there))
	assert.Equal(t, uint32(0x89a277be), multipathHash(seed, &back), "both directions have one hash")
	assert.Equal(t, uint32(0x0b5ae500), multipathHash(seed, &datagrams))
	assert.Zero(t, testing.AllocsPerRun(10, func() { multipathHash(seed, &there) }))
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
	f.hashing.mu.Lock()
	defer f.hashing.mu.Unlock()
	for _, n := range f.hashing.agreed {
		switch {
		case n == refuted:
			refutedRoutes++
		case n >= confirmations:
			confirmed++
		}
	}
	return confirmed, refutedRoutes
}
