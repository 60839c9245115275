package engine

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// perToken makes a prompt of n tokens take n milliseconds.
var perToken = Model{PrefillPerTokenNs: 1e6}

func mustPrefill(tb testing.TB, mode Mode) *Prefill {
	tb.Helper()
	p, err := NewPrefill(PrefillConfig{Model: perToken, Mode: mode})
	require.NoError(tb, err)
	return p
}

func TestPrefillTimelines(t *testing.T) {
	t.Parallel()
	submitThree := func(t *testing.T, p *Prefill) {
		for id, tokens := range []int{10, 20, 5} {
			require.NoError(t, p.Submit(time.Duration(id)*ms, uint64(id), tokens))
		}
	}
	tests := []struct {
		name string
		mode Mode
		do   func(*testing.T, *Prefill)
		want []PrefillEvent
	}{
		{"a queue serves one at a time in order", Queue, submitThree, []PrefillEvent{
			{0, PrefillStarted, 0}, {0, PrefillDone, 10 * ms}, {1, PrefillStarted, 10 * ms},
			{1, PrefillDone, 30 * ms}, {2, PrefillStarted, 30 * ms}, {2, PrefillDone, 35 * ms},
		}},
		{"a delay serves all at once", Delay, submitThree, []PrefillEvent{
			{0, PrefillStarted, 0}, {1, PrefillStarted, 1 * ms}, {2, PrefillStarted, 2 * ms},
			{2, PrefillDone, 7 * ms}, {0, PrefillDone, 10 * ms}, {1, PrefillDone, 21 * ms},
		}},
		{"equal completions keep the order of submission", Delay, func(t *testing.T, p *Prefill) {
			require.NoError(t, p.Submit(0, 9, 4))
			require.NoError(t, p.Submit(1*ms, 3, 3))
		}, []PrefillEvent{{9, PrefillStarted, 0}, {3, PrefillStarted, 1 * ms}, {9, PrefillDone, 4 * ms}, {3, PrefillDone, 4 * ms}}},
		{"cancelling the running prompt starts the next at once", Queue, func(t *testing.T, p *Prefill) {
			submitThree(t, p)
			assert.True(t, p.Cancel(4*ms, 0))
			assert.False(t, p.Cancel(4*ms, 0))
		}, []PrefillEvent{
			{0, PrefillStarted, 0}, {1, PrefillStarted, 4 * ms}, {1, PrefillDone, 24 * ms}, {2, PrefillStarted, 24 * ms}, {2, PrefillDone, 29 * ms},
		}},
		{"cancelling a waiting prompt skips it", Queue, func(t *testing.T, p *Prefill) {
			submitThree(t, p)
			assert.True(t, p.Cancel(4*ms, 1))
		}, []PrefillEvent{{0, PrefillStarted, 0}, {0, PrefillDone, 10 * ms}, {2, PrefillStarted, 10 * ms}, {2, PrefillDone, 15 * ms}}},
		{"a done prompt cannot be cancelled, though nobody has looked", Queue, func(t *testing.T, p *Prefill) {
			require.NoError(t, p.Submit(0, 1, 1))
			assert.False(t, p.Cancel(5*ms, 1))
			require.NoError(t, p.Submit(5*ms, 1, 1), "its id is free again")
		}, []PrefillEvent{{1, PrefillStarted, 0}, {1, PrefillDone, 1 * ms}, {1, PrefillStarted, 5 * ms}, {1, PrefillDone, 6 * ms}}},
		{"no tokens are done at once", Queue, func(t *testing.T, p *Prefill) {
			require.NoError(t, p.Submit(3*ms, 1, 0))
		}, []PrefillEvent{{1, PrefillStarted, 3 * ms}, {1, PrefillDone, 3 * ms}}},
		{"time never runs backwards", Queue, func(t *testing.T, p *Prefill) {
			p.Advance(10 * ms)
			require.NoError(t, p.Submit(2*ms, 1, 1))
		}, []PrefillEvent{{1, PrefillStarted, 10 * ms}, {1, PrefillDone, 11 * ms}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := mustPrefill(t, tt.mode)
			tt.do(t, p)
			assert.Equal(t, tt.want, p.Advance(time.Hour))
			assert.Zero(t, p.Waiting()+p.Running())
			_, ok := p.Next()
			assert.False(t, ok)
		})
	}
}

func TestPrefillRefusesBadInput(t *testing.T) {
	t.Parallel()
	_, err := NewPrefill(PrefillConfig{Mode: "warp"})
	require.ErrorIs(t, err, ErrInvalid)
	_, err = NewPrefill(PrefillConfig{Model: Model{PrefillBase: -1}})
	require.ErrorIs(t, err, ErrInvalid)
	p := mustPrefill(t, "")
	require.ErrorIs(t, p.Submit(0, 1, -1), ErrInvalid)
	require.NoError(t, p.Submit(0, 1, 5))
	require.ErrorIs(t, p.Submit(0, 1, 5), ErrDuplicate)
	require.NoError(t, p.Submit(0, 2, 5))
	assert.Equal(t, 1, p.Running())
	assert.Equal(t, 1, p.Waiting())
}

// One jump to the end and single steps along Next must give the same events, and every
// prompt that is not cancelled is done exactly once.
func TestPrefillJumpEqualsWalk(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		mode := []Mode{Queue, Delay}[seed%2]
		jump, walk := mustPrefill(t, mode), mustPrefill(t, mode)
		rng := rand.New(rand.NewPCG(seed, 1))
		var walked []PrefillEvent
		now, submitted, cancelled := time.Duration(0), 0, 0
		for id := range uint64(60) {
			now += time.Duration(rng.IntN(12)) * ms
			for at, ok := walk.Next(); ok && at <= now; at, ok = walk.Next() {
				events := walk.Advance(at)
				require.NotEmpty(t, events, "seed %d: Next promised an event at %v", seed, at)
				walked = append(walked, events...)
			}
			if rng.IntN(5) == 0 {
				victim := rng.Uint64N(id + 1)
				was := walk.Cancel(now, victim)
				require.Equal(t, was, jump.Cancel(now, victim))
				if was {
					cancelled++
				}
			}
			tokens := rng.IntN(20)
			require.NoError(t, walk.Submit(now, id, tokens))
			require.NoError(t, jump.Submit(now, id, tokens))
			submitted++
		}
		walked = append(walked, walk.Advance(time.Hour)...)
		jumped := jump.Advance(time.Hour)
		require.Equal(t, jumped, walked, "seed %d", seed)
		done := 0
		for i, e := range jumped {
			if e.Kind == PrefillDone {
				done++
			}
			if i > 0 {
				require.GreaterOrEqual(t, e.At, jumped[i-1].At, "seed %d: events are in order of time", seed)
			}
		}
		require.Equal(t, submitted, done+cancelled, "seed %d", seed)
	}
}
