package scheduler_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/scheduler"
)

func TestNewStateNamesTheField(t *testing.T) {
	t.Parallel()
	tests := []struct {
		field string
		spoil func(*scheduler.Options)
	}{
		{"Prefills", func(o *scheduler.Options) { o.Prefills = 0 }},
		{"Decodes", func(o *scheduler.Options) { o.Decodes = -1 }},
		{"MaxBatch", func(o *scheduler.Options) { o.MaxBatch = 0 }},
		{"BlockTokens", func(o *scheduler.Options) { o.BlockTokens = 0 }},
		{"KVBytesPerToken", func(o *scheduler.Options) { o.KVBytesPerToken = 0 }},
		{"MinFreeBytes", func(o *scheduler.Options) { o.MinFreeBytes = -1 }},
		{"MemoryBytes", func(o *scheduler.Options) { o.MemoryBytes = 0 }},
		{"DecodeBase", func(o *scheduler.Options) { o.DecodeBase = -1 }},
		{"DecodePerSequence", func(o *scheduler.Options) { o.DecodePerSequence = 2 * time.Hour }},
		{"DecodePerContextTokenNs", func(o *scheduler.Options) { o.DecodePerContextTokenNs = math.NaN() }},
		{"InFlightCap", func(o *scheduler.Options) { o.InFlightCap = 0 }},
		{"Oracle.Tier", func(o *scheduler.Options) { o.Oracle.Tier = []uint8{1} }},
		{"Oracle.Tier of prefill 0 and decode 1", func(o *scheduler.Options) { o.Oracle.Tier = []uint8{1, 4} }},
		{"Oracle.BytesPerSecond of tier 3", func(o *scheduler.Options) { o.Oracle.BytesPerSecond[3] = 0 }},
		{"Oracle.Latency of tier 0", func(o *scheduler.Options) { o.Oracle.Latency[0] = -1 }},
		{"Oracle.Congestion of tier 2", func(o *scheduler.Options) { o.Oracle.Congestion[2] = math.Inf(1) }},
	}
	for _, tt := range tests {
		t.Run(tt.field, func(t *testing.T) {
			t.Parallel()
			o := options(2, 3)
			tt.spoil(&o)
			_, err := scheduler.NewState(o)
			require.ErrorContains(t, err, tt.field)
		})
	}
	o := options(2, 2)
	o.Oracle.BytesPerSecond = [scheduler.Tiers]float64{2: 1}
	_, err := scheduler.NewState(o)
	require.NoError(t, err, "tiers that no pair has need no bandwidth")
}

// Counters are never negative, for all reports, and return to their first values.
func TestCountersNeverNegative(t *testing.T) {
	t.Parallel()
	s := mustState(t, options(2, 3, 3))
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		d, p, tier, n := rng.IntN(5)-1, rng.IntN(3)-1, rng.IntN(6)-1, rng.IntN(10_000)-10
		switch rng.IntN(8) {
		case 0:
			s.Begin(&scheduler.Request{Prefill: p, PromptTokens: n, OutputTokens: n}, scheduler.Decision{Decode: d, Tier: tier, HitTokens: n / 2})
		case 1:
			s.TransferEnded(p, d, tier)
		case 2:
			s.Admitted(d, n)
		case 3:
			s.Finished(d, n)
		case 4:
			s.Abandoned(d, n)
		case 5:
			s.SetFree(d, int64(n)*1e8)
		case 6:
			s.SetAlive(d, n%2 == 0)
		case 7:
			s.Arrived(d, n)
		}
		for d := range 3 {
			require.GreaterOrEqual(t, s.Queued(d), 0)
			require.GreaterOrEqual(t, s.Batch(d), 0)
			require.GreaterOrEqual(t, s.Free(d), int64(0))
			require.LessOrEqual(t, s.Free(d), int64(100e9))
		}
		for tier := range scheduler.Tiers {
			require.GreaterOrEqual(t, s.InFlight(tier, 0), 0)
		}
	}
}

func TestALifeOfARequest(t *testing.T) {
	t.Parallel()
	s := mustState(t, options(2, 3))
	r := &scheduler.Request{PromptTokens: 4000, OutputTokens: 500, Blocks: blocks(4)}
	s.Stored(0, r.Blocks[:1])
	d := mustPick(t, "netkv-full", s, r)
	assert.Equal(t, scheduler.Decision{Decode: 0, Tier: 2, HitTokens: 1000, Cost: d.Cost}, d)

	require.True(t, s.Begin(r, d))
	assert.Equal(t, []int{1, 0, 1}, []int{s.Queued(0), s.Batch(0), s.InFlight(2, 0)})
	assert.Equal(t, int64(100e9-3500e6), s.Free(0), "s_eff and the output are booked")
	require.True(t, s.TransferEnded(0, 0, 2))
	assert.False(t, s.TransferEnded(0, 0, 2), "once only")
	require.True(t, s.Admitted(0, 4000))
	assert.Equal(t, []int{0, 1, 0}, []int{s.Queued(0), s.Batch(0), s.InFlight(2, 0)})
	require.True(t, s.Finished(0, 4000))
	assert.False(t, s.Finished(0, 4000))
	require.True(t, s.SetFree(0, 100e9))
	assert.Equal(t, int64(100e9), s.Free(0))

	require.True(t, s.SetAlive(0, false))
	assert.False(t, s.Alive(0))
	assert.Zero(t, s.HitTokens(r, 0), "a lost instance holds nothing")
	assert.Equal(t, 1, mustPick(t, "netkv-full", s, r).Decode)
	s.SetAlive(0, true)
	assert.Equal(t, 0, mustPick(t, "netkv-full", s, r).Decode)
}

func TestARequestOfAnotherSchedulerCountsFromItsArrival(t *testing.T) {
	t.Parallel()
	s := mustState(t, options(2, 3))
	require.True(t, s.Arrived(1, 4000))
	assert.False(t, s.Arrived(2, 4000), "no such instance")
	assert.Equal(t, []int{1, 0, 0}, []int{s.Queued(1), s.Batch(1), s.InFlight(3, 0)}, "its transfer was never in flight here")
	assert.Equal(t, int64(100e9), s.Free(1), "memory is the instance's to report")
	r := &scheduler.Request{PromptTokens: 4000}
	for _, name := range []string{"least-loaded", "dynamo", "cla", "llmd"} {
		assert.Equal(t, 0, mustPick(t, name, s, r).Decode, name)
	}
	require.True(t, s.Admitted(1, 4000))
	assert.Equal(t, []int{0, 1}, []int{s.Queued(1), s.Batch(1)})
	require.True(t, s.Finished(1, 4000))
	require.True(t, s.Arrived(1, 4000))
	require.True(t, s.Abandoned(1, 4000))
	assert.Equal(t, []int{0, 0}, []int{s.Queued(1), s.Batch(1)})
}

func TestMemoryFilter(t *testing.T) {
	t.Parallel()
	o := options(2, 3)
	o.MinFreeBytes = 1e9
	tests := []struct {
		name   string
		free   int64
		output int
		held   int
		want   int
	}{
		{"exactly s_eff + m_min is enough", 5e9, 0, 0, 0},
		{"a byte less is not", 5e9 - 1, 0, 0, 1},
		{"held blocks need no memory", 3e9, 0, 2, 0},
		{"output needs memory", 5e9, 1, 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := mustState(t, o)
			r := &scheduler.Request{PromptTokens: 4000, OutputTokens: tt.output, Blocks: blocks(4)}
			s.Stored(0, r.Blocks[:tt.held])
			s.SetFree(0, tt.free)
			assert.Equal(t, tt.want, mustPick(t, "netkv-full", s, r).Decode)
		})
	}
}

func TestHitTokens(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		prompt int
		held   int
		want   int
	}{
		{"nothing held", 3500, 0, 0},
		{"whole blocks", 3500, 2, 2000},
		{"the last partial block counts when its id is held", 3500, 4, 3500},
		{"never more than the prompt", 500, 1, 500},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := mustState(t, options(2, 3))
			r := &scheduler.Request{PromptTokens: tt.prompt, Blocks: blocks((tt.prompt + 999) / 1000)}
			s.Stored(1, r.Blocks[:tt.held])
			assert.Equal(t, tt.want, s.HitTokens(r, 1))
			assert.Zero(t, s.HitTokens(r, 0))
			s.Evicted(1, r.Blocks[:min(1, tt.held)])
			assert.Zero(t, s.HitTokens(r, 1), "without its first block a prompt has no prefix")
		})
	}
}
