package engine

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkDecodeHour serves one hour of 8 instances, 12,000 requests in all
// with 340 output tokens each (the mean of a public production trace), prefix
// blocks included, jumping from command to command.
func BenchmarkDecodeHour(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		finished := 0
		for i := range uint64(8) {
			d := mustDecode(b, DecodeConfig{Model: measured, MaxBatch: 64, MemoryBytes: 100e9, KVBytesPerToken: 327_680, BlockTokens: 512})
			rng := rand.New(rand.NewPCG(i, 3))
			for id := range uint64(1500) {
				now := time.Duration(id) * 2400 * ms
				blocks := make([]uint64, 16)
				for k := range blocks {
					blocks[k] = uint64(rng.IntN(20))<<32 | uint64(k)
					if k > 8 {
						blocks[k] = id<<32 | uint64(k)<<16
					}
				}
				_, err := d.Reserve(now, Reservation{ID: id, PromptTokens: 8192, OutputTokens: 340, Blocks: blocks})
				require.NoError(b, err)
				require.NoError(b, d.Arrive(now+time.Second, id))
			}
			for _, e := range d.Advance(2 * time.Hour) {
				if e.Kind == Finished {
					finished++
				}
			}
		}
		require.Equal(b, 12_000, finished)
	}
}
