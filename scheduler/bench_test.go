package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/scheduler"
)

// pool is one prefill instance and n decode instances on tiers 1 to 3, with some load.
func pool(tb testing.TB, n int) *scheduler.State {
	tiers := make([]uint8, n)
	for d := range tiers {
		tiers[d] = uint8(1 + d%3)
	}
	o := options(tiers...)
	o.BlockTokens, o.KVBytesPerToken, o.MemoryBytes = 512, 327_680, 1e12
	o.DecodeBase, o.DecodePerSequence = 12_500*time.Microsecond, 100*time.Microsecond
	s := mustState(tb, o)
	for d := range n {
		for range d % 7 {
			r := &scheduler.Request{PromptTokens: 1000}
			s.Begin(r, scheduler.Decision{Decode: d, Tier: int(tiers[d])})
			s.TransferEnded(0, d, int(tiers[d]))
			s.Admitted(d, 1000)
		}
	}
	return s
}

// longPrompt is 1,000 blocks; every second instance holds leading blocks of it, each another number.
func longPrompt(s *scheduler.State, n int) *scheduler.Request {
	r := &scheduler.Request{PromptTokens: 512_000, Blocks: make([]uint64, 1000)}
	for i := range r.Blocks {
		r.Blocks[i] = uint64(i) * 0x9e3779b97f4a7c15
	}
	for d := 0; d < n; d += 2 {
		s.Stored(d, r.Blocks[:1+d*999/n])
	}
	return r
}

func BenchmarkPick(b *testing.B) {
	for _, name := range scheduler.Names() {
		for _, n := range []int{128, 1024, 16384} {
			if n > 128 && name != "netkv-full" && name != "cla" {
				continue
			}
			p := mustPolicy(b, name)
			s := pool(b, n)
			long := longPrompt(s, n)
			for _, c := range []struct {
				prompt string
				r      *scheduler.Request
			}{{"unshared", &scheduler.Request{PromptTokens: 8192, Blocks: blocks(16)}}, {"1000blocks", long}} {
				b.Run(fmt.Sprintf("policy=%s/candidates=%d/prompt=%s", name, n, c.prompt), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						c.r.TieBreak++
						p.Pick(c.r, s)
					}
				})
			}
		}
	}
}

// Not parallel: AllocsPerRun counts the allocations of the whole process.
func TestNoPolicyAllocates(t *testing.T) {
	s := pool(t, 128)
	long := longPrompt(s, 128)
	short := &scheduler.Request{PromptTokens: 8192}
	for _, name := range scheduler.Names() {
		p := mustPolicy(t, name)
		got := testing.AllocsPerRun(50, func() {
			for _, r := range []*scheduler.Request{long, short} {
				d, ok := p.Pick(r, s)
				if !ok {
					t.Error("nobody is feasible")
				}
				s.Begin(r, d)
				s.TransferEnded(0, d.Decode, d.Tier)
				s.Admitted(d.Decode, r.PromptTokens)
				s.Finished(d.Decode, r.PromptTokens)
				s.SetFree(d.Decode, 1e12)
				s.SetCongestion([scheduler.Tiers]float64{3: 0.2})
			}
		})
		require.Zero(t, got, name)
	}
	chain := blocks(100)
	s.Stored(3, chain)
	require.Zero(t, testing.AllocsPerRun(50, func() {
		s.Evicted(3, chain)
		s.Stored(3, chain)
	}), "the prefix index in steady state")
}
