package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/scheduler"
)

// gbps converts Gbit/s to bytes per second.
func gbps(v float64) float64 { return v * 1e9 / 8 }

// options is one prefill instance that meets one decode instance on each of the
// given tiers, the notes' bandwidths, and nothing but the network costing time.
func options(tiers ...uint8) scheduler.Options {
	return scheduler.Options{
		Prefills: 1, Decodes: len(tiers), MaxBatch: 64, BlockTokens: 1000,
		KVBytesPerToken: 1_000_000, MemoryBytes: 100e9, InFlightCap: 16, Separation: true,
		Oracle: scheduler.Oracle{
			Tier:           tiers,
			BytesPerSecond: [scheduler.Tiers]float64{450e9, gbps(100), gbps(50), gbps(25)},
		},
	}
}

func mustState(tb testing.TB, o scheduler.Options) *scheduler.State {
	tb.Helper()
	s, err := scheduler.NewState(o)
	require.NoError(tb, err)
	return s
}

func mustPolicy(tb testing.TB, name string) scheduler.Policy {
	tb.Helper()
	p, err := scheduler.New(name, scheduler.PolicyOptions{CacheWeight: 1, LoadWeight: 1})
	require.NoError(tb, err)
	return p
}

func mustPick(tb testing.TB, name string, s *scheduler.State, r *scheduler.Request) scheduler.Decision {
	tb.Helper()
	d, ok := mustPolicy(tb, name).Pick(r, s)
	require.True(tb, ok)
	return d
}

func blocks(n int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = uint64(i) + 1
	}
	return out
}

// hold begins n transfers from prefill 0 on the tier of a decode instance, and
// takes them out of its queue so that only n remains.
func hold(tb testing.TB, s *scheduler.State, decode, tier, n int) {
	tb.Helper()
	for range n {
		require.True(tb, s.Begin(&scheduler.Request{PromptTokens: 1}, scheduler.Decision{Decode: decode, Tier: tier}))
		require.True(tb, s.Abandoned(decode, 1))
	}
}

// Check 1 of the notes' section 4: 2 x 80 layers x 8 KV heads x 128 x 2 bytes = 327,680 bytes per token.
func TestMinimumCheck1Dimension(t *testing.T) {
	t.Parallel()
	const layers, heads, dim, width = 80, 8, 128, 2
	o := options(2)
	o.KVBytesPerToken = 2 * layers * heads * dim * width
	e, ok := mustState(t, o).Estimate(&scheduler.Request{PromptTokens: 1}, 0, scheduler.Congestion)
	require.True(t, ok)
	assert.Equal(t, int64(327_680), e.PayloadBytes)
	e, _ = mustState(t, o).Estimate(&scheduler.Request{PromptTokens: 4096}, 0, scheduler.Congestion)
	assert.Equal(t, int64(1_342_177_280), e.PayloadBytes, "linear in the prompt: 1.25 GiB for 4096 tokens")
}

// Check 2: 10 GB; d1 in the pod holds half and shares with one transfer: 2.0 s;
// d2 across pods holds 90%: 0.4 s; 20% congestion on both.
func TestMinimumCheck2WorkedExample(t *testing.T) {
	t.Parallel()
	s := mustState(t, options(2, 3))
	s.SetCongestion([scheduler.Tiers]float64{2: 0.2, 3: 0.2})
	hold(t, s, 0, 2, 1)
	r := &scheduler.Request{PromptTokens: 10_000, Blocks: blocks(10)}
	s.Stored(0, r.Blocks[:5])
	s.Stored(1, r.Blocks[:9])

	d1, _ := s.Estimate(r, 0, scheduler.Congestion)
	d2, _ := s.Estimate(r, 1, scheduler.Congestion)
	assert.Equal(t, []int64{5e9, 1e9}, []int64{d1.PayloadBytes, d2.PayloadBytes})
	assert.InDelta(t, 2.5e9, d1.BytesPerSecond, 1)
	assert.InDelta(t, 2.5e9, d2.BytesPerSecond, 1)
	assert.InDelta(t, 2.0, d1.Cost(), 1e-9)
	assert.InDelta(t, 0.4, d2.Cost(), 1e-9)
	got := mustPick(t, "netkv-full", s, r)
	assert.Equal(t, 1, got.Decode)
	assert.InDelta(t, 0.4, got.Cost, 1e-9)
}

// Check 3: with equal congestion and queues d1 wins exactly while 1-rho1 < k (1-rho2).
func TestMinimumCheck3Proposition1(t *testing.T) {
	t.Parallel()
	tests := []struct {
		rho1, rho2 int // percent held
		want       int
	}{
		{0, 50, 0}, // 1 < 4 x 0.5: the notes' numbers
		{0, 74, 0}, // 1 < 1.04
		{0, 76, 1}, // 1 > 0.96
		{90, 98, 1},
		{90, 97, 0},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("holds %d and %d percent", tt.rho1, tt.rho2), func(t *testing.T) {
			t.Parallel()
			o := options(1, 3) // 100 and 25 Gbps: k = 4
			o.BlockTokens = 100
			s := mustState(t, o)
			s.SetCongestion([scheduler.Tiers]float64{0.3, 0.3, 0.3, 0.3})
			r := &scheduler.Request{PromptTokens: 10_000, Blocks: blocks(100)}
			s.Stored(0, r.Blocks[:tt.rho1])
			s.Stored(1, r.Blocks[:tt.rho2])
			assert.Equal(t, tt.want, mustPick(t, "netkv-full", s, r).Decode)
		})
	}
}

// Check 4: at 4:1 and c = 0.3 the ranking tolerates an error of up to 0.42 in each value and no more.
func TestMinimumCheck4Proposition2(t *testing.T) {
	t.Parallel()
	const b1, b3, c = 4.0, 1.0, 0.3
	bound := (b1*(1-c) - b3*(1-c)) / (b1 + b3)
	require.InDelta(t, 0.42, bound, 1e-12)
	for _, tt := range []struct {
		epsilon float64
		want    int
	}{{0, 0}, {0.2, 0}, {bound - 0.001, 0}, {bound + 0.001, 1}} {
		// The worst error: the near tier looks worse, the far one better. Where c
		// would leave [0,1) take the same error as bandwidth, as the proposition does.
		o := options(1, 3)
		o.Oracle.BytesPerSecond = [scheduler.Tiers]float64{1: b1 * (1 - c - tt.epsilon), 3: b3 * (1 - c + tt.epsilon)}
		s := mustState(t, o)
		assert.Equal(t, tt.want, mustPick(t, "netkv-full", s, &scheduler.Request{PromptTokens: 1000}).Decode, "epsilon %v", tt.epsilon)
	}
	// Through the congestion map, as far as it reaches: 0.3 +- 0.29.
	s := mustState(t, options(1, 3))
	s.SetCongestion([scheduler.Tiers]float64{1: 0.59, 3: 0.01})
	assert.Equal(t, 0, mustPick(t, "netkv-full", s, &scheduler.Request{PromptTokens: 1000}).Decode)
}

// Check 5: a decision's work is linear in the pool. Counted, not timed: a
// policy of the same form sees each candidate once. (BenchmarkPick times it.)
func TestMinimumCheck5EachCandidateOnce(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 63, 64, 65, 128, 1000} {
		s := mustState(t, options(make([]uint8, n)...))
		visits := make([]int, n)
		scheduler.VisitAll(s, &scheduler.Request{PromptTokens: 1}, func(d int) { visits[d]++ })
		for d, v := range visits {
			require.Equal(t, 1, v, "candidate %d of %d", d, n)
		}
	}
}

// Check 6: 5 GB on tier 2 with one transfer in flight and no congestion: 1.6 s.
func TestMinimumCheck6BandwidthBudget(t *testing.T) {
	t.Parallel()
	s := mustState(t, options(2))
	hold(t, s, 0, 2, 1)
	r := &scheduler.Request{PromptTokens: 5000}
	assert.InDelta(t, 1.6, mustPick(t, "netkv-full", s, r).Cost, 1e-9)
	assert.InDelta(t, 1.6, mustPick(t, "netkv-static", s, r).Cost, 1e-9)
	assert.InDelta(t, 0.8, mustPick(t, "netkv-topo", s, r).Cost, 1e-9, "the tier map alone does not see the transfer")
}

func TestAlgorithmTerms(t *testing.T) {
	t.Parallel()
	o := options(3)
	o.MaxBatch = 4
	o.DecodeBase, o.DecodePerSequence = 10*time.Millisecond, time.Millisecond
	o.Oracle.Latency[3] = 15 * time.Microsecond
	s := mustState(t, o)
	r := &scheduler.Request{PromptTokens: 1000, Blocks: blocks(1)}
	terms := func() scheduler.Terms {
		e, ok := s.Estimate(r, 0, scheduler.Congestion)
		require.True(t, ok)
		return e
	}
	assert.InDelta(t, 0.32+15e-6, terms().Transfer, 1e-12)
	assert.InDelta(t, 0.011, terms().Decode, 1e-12, "t_iter(beta+1)")

	for range 7 {
		s.Begin(r, scheduler.Decision{Tier: 2})
	}
	assert.InDelta(t, 3*0.010, terms().Queue, 1e-12, "7 assigned, 4 free places: 3 iterations of t_iter(0)")
	for range 3 {
		s.Admitted(0, 1000)
	}
	assert.InDelta(t, 3*0.013, terms().Queue, 1e-12, "max(0, 4-(4-3)) x t_iter(3)")
	assert.InDelta(t, 0.014, terms().Decode, 1e-12)

	s.SetCongestion([scheduler.Tiers]float64{3: 7})
	assert.InDelta(t, gbps(25)*0.01, terms().BytesPerSecond, 1, "clamped to 0.99")
	s.SetCongestion([scheduler.Tiers]float64{3: -1})
	assert.InDelta(t, gbps(25), terms().BytesPerSecond, 1)
	for range 40 {
		s.Begin(r, scheduler.Decision{Tier: 3})
	}
	assert.Equal(t, 40, s.InFlight(3, 0))
	assert.InDelta(t, gbps(25)/17, terms().BytesPerSecond, 1, "n is capped at 16 in the formula only")

	s.Stored(0, r.Blocks)
	assert.Zero(t, terms().PayloadBytes)
	assert.InDelta(t, 15e-6, terms().Transfer, 1e-15, "a full hit costs the latency alone")
}

func TestWithoutSeparationNIsZero(t *testing.T) {
	t.Parallel()
	o := options(2)
	o.Separation = false
	s := mustState(t, o)
	hold(t, s, 0, 2, 5)
	e, _ := s.Estimate(&scheduler.Request{PromptTokens: 1}, 0, scheduler.Congestion)
	assert.InDelta(t, gbps(50), e.BytesPerSecond, 1)
	assert.Equal(t, 5, s.InFlight(2, 0), "still counted")
}
