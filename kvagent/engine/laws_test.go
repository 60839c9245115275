package engine

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// script drives machines with the same random commands.
type script struct {
	rng     *rand.Rand
	now     time.Duration
	id      uint64
	pending []*walked // reserved, not arrived
	walker  walker
	jump    *Decode // never advanced until the end
	walk    *Decode // advanced at every Next and often in between
	walked  []DecodeEvent
	ended   map[uint64]bool // released or refused
	held    map[uint64]bool // blocks according to CacheChanged events of walk
}

// prefixes gives chains of a forest, where equal id means equal prefix.
func prefixes(rng *rand.Rand, blocks int) []uint64 {
	var out []uint64
	node := uint64(rng.IntN(3)) + 1
	for range blocks {
		out = append(out, node)
		node = node*4 + uint64(rng.IntN(2))
	}
	return out
}

func newScript(t *testing.T, seed uint64, m Model, batch int) *script {
	c := DecodeConfig{Model: m, MaxBatch: batch, MemoryBytes: 60 * 40, KVBytesPerToken: 10, BlockTokens: 4}
	return &script{
		rng: rand.New(rand.NewPCG(seed, 2)), walker: walker{model: m, max: batch},
		jump: mustDecode(t, c), walk: mustDecode(t, c), ended: map[uint64]bool{}, held: map[uint64]bool{},
	}
}

// follow advances the walking machine along Next and now and then in between.
func (s *script) follow(t *testing.T, to time.Duration) {
	for at, ok := s.walk.Next(); ok && at <= to; at, ok = s.walk.Next() {
		if now := s.walk.now; at > now && s.rng.IntN(2) == 0 {
			require.Empty(t, s.walk.Advance(now+(at-now)/2), "nothing happens before Next")
		}
		events := s.walk.Advance(at)
		require.NotEmpty(t, events, "Next promised an event at %v", at)
		s.take(t, events)
	}
	if s.rng.IntN(2) == 0 {
		s.take(t, s.walk.Advance(to))
	}
}

func (s *script) take(t *testing.T, events []DecodeEvent) {
	for _, e := range events {
		for _, id := range e.Stored {
			require.False(t, s.held[id], "stored twice")
			s.held[id] = true
		}
		for _, id := range e.Evicted {
			require.True(t, s.held[id], "evicted what was not there")
			delete(s.held, id)
		}
	}
	s.walked = append(s.walked, events...)
	require.Len(t, s.held, s.walk.Cached(), "events tell the whole cache")
	for id := range s.held {
		if id >= 4 {
			require.True(t, s.held[id/4], "the cached set is prefix-closed: %d without %d", id, id/4)
		}
	}
	for _, d := range []*Decode{s.walk, s.jump} {
		c := d.cache
		pinned := int64(0)
		for _, b := range c.entries {
			if b.pins > 0 {
				pinned++
			}
		}
		require.Equal(t, c.capacity, c.free()+c.private+pinned+c.evictable)
		require.GreaterOrEqual(t, c.free(), int64(0))
		require.GreaterOrEqual(t, c.private, int64(0))
		require.GreaterOrEqual(t, d.FreeBytes(), int64(0))
	}
}

func (s *script) reserve(t *testing.T) {
	s.id++
	tokens := 1 + s.rng.IntN(40)
	r := Reservation{ID: s.id, PromptTokens: tokens, OutputTokens: 1 + s.rng.IntN(30), Blocks: prefixes(s.rng, (tokens+3)/4)}
	hit, err := s.walk.Reserve(s.now, r)
	hit2, err2 := s.jump.Reserve(s.now, r)
	require.Equal(t, hit2, hit)
	require.Equal(t, err2, err)
	if err != nil {
		require.ErrorIs(t, err, ErrNoMemory)
		s.ended[s.id] = true
		return
	}
	s.pending = append(s.pending, &walked{id: s.id, prompt: r.PromptTokens, output: r.OutputTokens})
}

func (s *script) arrive(t *testing.T) {
	if len(s.pending) == 0 {
		return
	}
	i := s.rng.IntN(len(s.pending))
	q := s.pending[i]
	s.pending = append(s.pending[:i], s.pending[i+1:]...)
	require.NoError(t, s.walk.Arrive(s.now, q.id))
	require.NoError(t, s.jump.Arrive(s.now, q.id))
	s.walker.arrive(s.now, q)
}

func (s *script) release(t *testing.T) {
	victim := s.id - uint64(s.rng.IntN(6))
	was := s.walk.Release(s.now, victim)
	require.Equal(t, was, s.jump.Release(s.now, victim))
	if !was {
		return
	}
	s.ended[victim] = true
	s.walker.release(s.now, victim)
	for i, q := range s.pending {
		if q.id == victim {
			s.pending = append(s.pending[:i], s.pending[i+1:]...)
			break
		}
	}
}

func (s *script) finish(t *testing.T) {
	for len(s.pending) > 0 {
		s.arrive(t)
	}
	end := s.now + time.Hour
	s.follow(t, end)
	s.take(t, s.walk.Advance(end))
	s.walker.to(end)
	require.Equal(t, s.jump.Advance(end), s.walked, "one jump equals many steps")
	require.Equal(t, s.walker.timeline, timeline(s.walked), "the machine equals the walk through every iteration")

	finished := 0
	for i, e := range s.walked {
		if e.Kind == Finished {
			finished++
			require.False(t, s.ended[e.ID])
		}
		if i > 0 {
			require.GreaterOrEqual(t, e.At, s.walked[i-1].At, "events are in order of time")
		}
	}
	require.Equal(t, int(s.id), finished+len(s.ended), "no request is lost")
	require.Equal(t, s.walk.MemoryBytes(), s.walk.FreeBytes(), "all memory comes back")
	require.Zero(t, s.walk.Reservations()+s.walk.Queue()+s.walk.Batch())
}

// Random commands obey the laws: memory is conserved, every change of the cache is
// reported, the cache is prefix-closed, nothing is lost, and neither stepping through
// iterations nor skipping them changes any time.
func TestDecodeLaws(t *testing.T) {
	t.Parallel()
	models := []Model{step30, paperFit, {DecodeBase: 7, DecodePerSequence: 3, DecodePerContextTokenNs: 2}, {DecodeBase: 20 * ms, DecodePerContextTokenNs: 1000}}
	for seed := range uint64(200) {
		m := models[seed%uint64(len(models))]
		s := newScript(t, seed, m, 1+int(seed/4%5))
		unit := iteration(m, 1, 0)
		for range 150 {
			// Often the same instant or a whole number of iterations, so that commands meet boundaries.
			switch s.rng.IntN(4) {
			case 0:
				s.now += time.Duration(s.rng.Int64N(int64(3 * unit)))
			case 1:
				s.now += unit
			case 2:
				if at, ok := s.walk.Next(); ok {
					s.now = max(s.now, at)
				}
			}
			s.follow(t, s.now)
			switch s.rng.IntN(7) {
			case 0, 1, 2:
				s.reserve(t)
			case 3, 4, 5:
				s.arrive(t)
			case 6:
				s.release(t)
			}
		}
		s.finish(t)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// With a fractional cost of context the walker rounds every iteration and the
// machine once per segment: they differ by at most one nanosecond per token.
func TestContextRoundingStaysBelowANanosecondAToken(t *testing.T) {
	t.Parallel()
	m := Model{DecodeBase: ms, DecodePerContextTokenNs: 24.7}
	d := mustDecode(t, DecodeConfig{Model: m, MaxBatch: 1, MemoryBytes: 1 << 40, KVBytesPerToken: 1, BlockTokens: 16})
	bring(t, d, 0, Reservation{ID: 1, PromptTokens: 777, OutputTokens: 5000})
	w := walker{model: m, max: 1}
	w.arrive(0, &walked{id: 1, prompt: 777, output: 5000})
	w.to(time.Hour)
	got := timeline(d.Advance(time.Hour))
	require.Len(t, got, 3)
	require.InDelta(t, float64(w.timeline[2].at), float64(got[2].at), 5000)
	require.Equal(t, w.timeline[1], got[1], "the first token is exact")
}

// FuzzDecode gives arbitrary commands, also with block ids without any structure,
// and checks the laws that hold for every caller.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{0, 1, 8, 3, 1, 2, 1, 1, 0, 0, 0, 0, 3, 0, 40, 0, 0, 0})
	f.Add([]byte{0, 1, 200, 3, 9, 9, 0, 2, 200, 3, 9, 9, 1, 1, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		d := mustDecode(t, DecodeConfig{Model: step30, MaxBatch: 2, MemoryBytes: 40 * 40, KVBytesPerToken: 10, BlockTokens: 4})
		now := time.Duration(0)
		for ; len(in) >= 6; in = in[6:] {
			id := uint64(in[1] % 8)
			switch in[0] % 4 {
			case 0:
				r := Reservation{ID: id, PromptTokens: int(in[2]), OutputTokens: int(in[3])}
				for i := range (r.PromptTokens + 3) / 4 {
					r.Blocks = append(r.Blocks, uint64(in[4])*uint64(i)%uint64(in[5]%16+1))
				}
				_, _ = d.Reserve(now, r)
			case 1:
				_ = d.Arrive(now, id)
			case 2:
				d.Release(now, id)
			case 3:
				now += time.Duration(in[2]) * ms
				d.Advance(now)
			}
			c := d.cache
			if c.free() < 0 || c.private < 0 || c.evictable < 0 || d.FreeBytes() > d.MemoryBytes() {
				t.Fatalf("memory: %+v", c)
			}
		}
		for id := range uint64(8) {
			d.Release(now, id)
		}
		if d.FreeBytes() != d.MemoryBytes() || d.Batch()+d.Queue()+d.Reservations() != 0 {
			t.Fatalf("something stayed: free %d of %d", d.FreeBytes(), d.MemoryBytes())
		}
	})
}
