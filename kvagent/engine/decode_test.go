package engine

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// step30 makes every iteration take 30 ms.
var step30 = Model{PrefillBase: 200 * ms, DecodeBase: 30 * ms}

// small is 16 blocks of 4 tokens at 10 bytes per token: 40 bytes per block.
func small(m Model, batch int) DecodeConfig {
	return DecodeConfig{Model: m, MaxBatch: batch, MemoryBytes: 640, KVBytesPerToken: 10, BlockTokens: 4}
}

func mustDecode(tb testing.TB, c DecodeConfig) *Decode {
	tb.Helper()
	d, err := NewDecode(c)
	require.NoError(tb, err)
	return d
}

// bring makes a reservation whose bytes arrive at once; it returns the hit.
func bring(tb testing.TB, d *Decode, now time.Duration, r Reservation) int {
	tb.Helper()
	hit, err := d.Reserve(now, r)
	require.NoError(tb, err)
	require.NoError(tb, d.Arrive(now, r.ID))
	return hit
}

type timed struct {
	id   uint64
	kind DecodeKind
	at   time.Duration
}

// timeline reduces events to request, kind and time, without those of the cache.
func timeline(events []DecodeEvent) []timed {
	var out []timed
	for _, e := range events {
		if e.Kind != CacheChanged {
			out = append(out, timed{e.ID, e.Kind, e.At})
		}
	}
	return out
}

func TestDecodeTimelines(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		batch int
		do    func(*testing.T, *Decode)
		want  []timed
	}{
		{"three at one instant with a batch of one wait their turn", 1, func(t *testing.T, d *Decode) {
			for id := range uint64(3) {
				bring(t, d, 0, Reservation{ID: id, PromptTokens: 1, OutputTokens: 1})
			}
		}, []timed{
			{0, Admitted, 0}, {0, FirstToken, 30 * ms}, {0, Finished, 30 * ms},
			{1, Admitted, 30 * ms}, {1, FirstToken, 60 * ms}, {1, Finished, 60 * ms},
			{2, Admitted, 60 * ms}, {2, FirstToken, 90 * ms}, {2, Finished, 90 * ms},
		}},
		{"three at one instant with room share the first iteration", 8, func(t *testing.T, d *Decode) {
			for id := range uint64(3) {
				bring(t, d, 0, Reservation{ID: id, PromptTokens: 1, OutputTokens: int(id) + 1})
			}
		}, []timed{
			{0, Admitted, 0}, {1, Admitted, 0}, {2, Admitted, 0},
			{0, FirstToken, 30 * ms}, {0, Finished, 30 * ms}, {1, FirstToken, 30 * ms}, {2, FirstToken, 30 * ms},
			{1, Finished, 60 * ms}, {2, Finished, 90 * ms},
		}},
		{"who comes during an iteration joins at its end", 8, func(t *testing.T, d *Decode) {
			bring(t, d, 0, Reservation{ID: 0, PromptTokens: 1, OutputTokens: 3})
			bring(t, d, 31*ms, Reservation{ID: 1, PromptTokens: 1, OutputTokens: 1})
		}, []timed{
			{0, Admitted, 0}, {0, FirstToken, 30 * ms}, {1, Admitted, 60 * ms},
			{0, Finished, 90 * ms}, {1, FirstToken, 90 * ms}, {1, Finished, 90 * ms},
		}},
		{"who comes exactly at a boundary joins there", 8, func(t *testing.T, d *Decode) {
			bring(t, d, 0, Reservation{ID: 0, PromptTokens: 1, OutputTokens: 4})
			bring(t, d, 60*ms, Reservation{ID: 1, PromptTokens: 1, OutputTokens: 1})
		}, []timed{
			{0, Admitted, 0}, {0, FirstToken, 30 * ms}, {1, Admitted, 60 * ms},
			{1, FirstToken, 90 * ms}, {1, Finished, 90 * ms}, {0, Finished, 120 * ms},
		}},
		{"a cancelled sequence keeps its place to the iteration's end", 1, func(t *testing.T, d *Decode) {
			bring(t, d, 0, Reservation{ID: 0, PromptTokens: 1, OutputTokens: 9})
			bring(t, d, 0, Reservation{ID: 1, PromptTokens: 1, OutputTokens: 1})
			assert.True(t, d.Release(40*ms, 0))
			assert.Equal(t, 0, d.Batch())
			assert.Equal(t, 1, d.Queue())
		}, []timed{{0, Admitted, 0}, {0, FirstToken, 30 * ms}, {1, Admitted, 60 * ms}, {1, FirstToken, 90 * ms}, {1, Finished, 90 * ms}}},
		{"cancelled at a boundary its place is free at once", 1, func(t *testing.T, d *Decode) {
			bring(t, d, 0, Reservation{ID: 0, PromptTokens: 1, OutputTokens: 9})
			bring(t, d, 0, Reservation{ID: 1, PromptTokens: 1, OutputTokens: 1})
			assert.True(t, d.Release(60*ms, 0))
		}, []timed{{0, Admitted, 0}, {0, FirstToken, 30 * ms}, {1, Admitted, 60 * ms}, {1, FirstToken, 90 * ms}, {1, Finished, 90 * ms}}},
		{"the only sequence cancelled, a newcomer waits for the running iteration", 1, func(t *testing.T, d *Decode) {
			bring(t, d, 0, Reservation{ID: 0, PromptTokens: 1, OutputTokens: 9})
			assert.True(t, d.Release(10*ms, 0))
			_, ok := d.Next()
			require.True(t, ok, "the events of the commands are due")
		}, []timed{{0, Admitted, 0}}},
		{"a waiting request can be cancelled", 1, func(t *testing.T, d *Decode) {
			bring(t, d, 0, Reservation{ID: 0, PromptTokens: 1, OutputTokens: 1})
			bring(t, d, 0, Reservation{ID: 1, PromptTokens: 1, OutputTokens: 1})
			assert.True(t, d.Release(1*ms, 1))
			assert.False(t, d.Release(1*ms, 1))
		}, []timed{{0, Admitted, 0}, {0, FirstToken, 30 * ms}, {0, Finished, 30 * ms}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := mustDecode(t, small(step30, tt.batch))
			tt.do(t, d)
			assert.Equal(t, tt.want, timeline(d.Advance(time.Hour)))
			assert.Zero(t, d.Batch()+d.Queue()+d.Reservations())
			assert.Equal(t, d.MemoryBytes(), d.FreeBytes())
			_, ok := d.Next()
			assert.False(t, ok)
		})
	}
}

// Three requests meet: prefill takes 200 ms each, the transfer of 12.5 MB over
// 100 Mbit/s with framing 1.046 s, an iteration 30 ms, the batch holds one.
// TTFT is prefill wait + prefill + transfer + decode wait + first step, each once.
func TestTTFTIsTheSumOfItsParts(t *testing.T) {
	t.Parallel()
	const transfer = 1046 * ms
	p, err := NewPrefill(PrefillConfig{Model: step30, Mode: Delay})
	require.NoError(t, err)
	d := mustDecode(t, small(step30, 1))
	for id := range uint64(3) {
		require.NoError(t, p.Submit(0, id, 1))
	}
	for _, e := range p.Advance(time.Second) {
		if e.Kind == PrefillDone {
			_, err := d.Reserve(e.At, Reservation{ID: e.ID, PromptTokens: 1, OutputTokens: 1})
			require.NoError(t, err)
		}
	}
	for id := range uint64(3) {
		require.NoError(t, d.Arrive(200*ms+transfer, id))
	}
	ttft := map[uint64]time.Duration{}
	for _, e := range d.Advance(time.Hour) {
		if e.Kind == FirstToken {
			ttft[e.ID] = e.At
			assert.Equal(t, 30*ms, e.At-e.AdmittedAt, "the first step alone")
		}
	}
	assert.Equal(t, map[uint64]time.Duration{0: 1276 * ms, 1: 1306 * ms, 2: 1336 * ms}, ttft)
}

func TestFinishedTellsTokensAndPace(t *testing.T) {
	t.Parallel()
	d := mustDecode(t, DecodeConfig{Model: measured, MaxBatch: 2, MemoryBytes: 1 << 40, KVBytesPerToken: 327_680, BlockTokens: 512})
	bring(t, d, 0, Reservation{ID: 1, PromptTokens: 1000, OutputTokens: 101})
	var last DecodeEvent
	for _, e := range d.Advance(time.Hour) {
		last = e
	}
	// 101 iterations: 17.815 ms each, and 25 ns x (1000 + i) for the context.
	total := 101*(17_815*time.Microsecond) + 25*(101*1000+101*100/2)
	first := 17_815*time.Microsecond + 25*1000
	assert.Equal(t, DecodeEvent{
		ID: 1, Kind: Finished, At: total, FreeBytes: d.MemoryBytes(), Tokens: 101, MeanTBT: (total - first) / 100,
	}, last)

	bring(t, d, time.Hour, Reservation{ID: 2, PromptTokens: 1, OutputTokens: 1})
	for _, e := range d.Advance(2 * time.Hour) {
		assert.Zero(t, e.MeanTBT, "one token has no time between tokens")
	}
}

func TestDecodeRefusesBadInput(t *testing.T) {
	t.Parallel()
	d := mustDecode(t, small(step30, 1))
	_, err := d.Reserve(0, Reservation{ID: 1, PromptTokens: 9, OutputTokens: 1})
	require.NoError(t, err)
	tests := []struct {
		name string
		do   func() error
		want error
	}{
		{"no prompt", func() error { _, err := d.Reserve(0, Reservation{ID: 2, OutputTokens: 1}); return err }, ErrInvalid},
		{"no output", func() error { _, err := d.Reserve(0, Reservation{ID: 2, PromptTokens: 1}); return err }, ErrInvalid},
		{"a prompt beyond all bounds", func() error {
			_, err := d.Reserve(0, Reservation{ID: 2, PromptTokens: math.MaxInt, OutputTokens: 1})
			return err
		}, ErrInvalid},
		{"more blocks than the prompt has", func() error {
			_, err := d.Reserve(0, Reservation{ID: 2, PromptTokens: 4, OutputTokens: 1, Blocks: []uint64{1, 2}})
			return err
		}, ErrInvalid},
		{"the same request again", func() error { _, err := d.Reserve(0, Reservation{ID: 1, PromptTokens: 1, OutputTokens: 1}); return err }, ErrDuplicate},
		{"too large for the memory", func() error {
			_, err := d.Reserve(0, Reservation{ID: 2, PromptTokens: 1 << 30, OutputTokens: 1 << 30})
			return err
		}, ErrNoMemory},
		{"arrival of a stranger", func() error { return d.Arrive(0, 7) }, ErrUnknown},
		{"second arrival", func() error { require.NoError(t, d.Arrive(0, 1)); return d.Arrive(0, 1) }, ErrArrived},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.ErrorIs(t, tt.do(), tt.want) })
	}
	for _, c := range []DecodeConfig{
		{},
		{Model: Model{DecodeBase: -1}},
		{Model: step30, MaxBatch: 1, MemoryBytes: 39, KVBytesPerToken: 10, BlockTokens: 4},
		{Model: step30, MaxBatch: 0, MemoryBytes: 40, KVBytesPerToken: 10, BlockTokens: 4},
		{Model: step30, MaxBatch: 1, MemoryBytes: 40, KVBytesPerToken: -10, BlockTokens: 4},
		{Model: step30, MaxBatch: 1, MemoryBytes: 40, KVBytesPerToken: 10, BlockTokens: math.MaxInt},
	} {
		_, err := NewDecode(c)
		require.ErrorIs(t, err, ErrInvalid, "%+v", c)
	}
}
