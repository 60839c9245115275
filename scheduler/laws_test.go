package scheduler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/scheduler"
)

// Among equal instances every policy but rr draws uniformly by TieBreak.
func TestTiesFallOnAll(t *testing.T) {
	t.Parallel()
	for _, name := range scheduler.Names() {
		s := mustState(t, options(2, 2, 2, 2, 2))
		p := mustPolicy(t, name)
		got := map[int]int{}
		for i := range uint64(500) {
			d, ok := p.Pick(&scheduler.Request{PromptTokens: 100, TieBreak: i}, s)
			require.True(t, ok)
			got[d.Decode]++
		}
		assert.Equal(t, map[int]int{0: 100, 1: 100, 2: 100, 3: 100, 4: 100}, got, name)
	}
}

// 40 requests at one instant over 8 equal idle instances: assigned requests that
// have not arrived count at once, so load-aware rules spread them evenly.
func TestABurstDoesNotHerd(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"rr", "least-loaded", "cla", "llmd", "dynamo", "sglang"} {
		s := mustState(t, options(2, 2, 2, 2, 2, 2, 2, 2))
		p := mustPolicy(t, name)
		for i := range uint64(40) {
			r := &scheduler.Request{PromptTokens: 1000, TieBreak: i * 2654435761}
			d, ok := p.Pick(r, s)
			require.True(t, ok)
			s.Begin(r, d)
		}
		for d := range 8 {
			assert.Equal(t, 5, s.Queued(d), "%s, instance %d", name, d)
		}
	}
}

// permuted builds the same world with decode d renamed to names[d].
func (w *world) permuted(tb testing.TB, names []int) *scheduler.State {
	o := w.o
	o.Oracle.Tier = make([]uint8, len(w.o.Oracle.Tier))
	for p := range o.Prefills {
		for d, to := range names {
			o.Oracle.Tier[p*o.Decodes+to] = w.o.Oracle.Tier[p*o.Decodes+d]
		}
	}
	s := mustState(tb, o)
	s.SetCongestion(w.congestion)
	for key, n := range w.inFlight {
		for range n { // on any instance; then out of its queue again
			r := &scheduler.Request{Prefill: key[0], PromptTokens: 1}
			s.Begin(r, scheduler.Decision{Tier: key[1]})
			s.Abandoned(0, 1)
		}
	}
	for d, to := range names {
		// One request holds all context and blocks, the others none.
		for i := range w.queued[d] + w.batch[d] {
			s.Begin(&scheduler.Request{PromptTokens: max(1, (w.blocks[d]-w.queued[d]-w.batch[d]+1)*512*b2i(i == 0))}, scheduler.Decision{Decode: to})
			s.TransferEnded(0, to, 0)
		}
		for i := range w.batch[d] {
			s.Admitted(to, w.context[d]*b2i(i == 0))
		}
		for b := range w.held[d] {
			s.Stored(to, []uint64{b})
		}
		s.SetFree(to, w.free[d])
		s.SetAlive(to, !w.dead[d])
	}
	return s
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Renaming the candidates renames the choice, where there are no ties.
func TestPermutingCandidatesPermutesTheChoice(t *testing.T) {
	t.Parallel()
	for _, name := range scheduler.Names() {
		if name == "random" || name == "rr" {
			continue // these choose by name
		}
		p := mustPolicy(t, name)
		compared := 0
		for seed := range uint64(200) {
			w, rng := randomWorld(t, seed)
			names := rng.Perm(w.o.Decodes)
			s := w.permuted(t, names)
			for range 5 {
				r := w.request(rng)
				if len(w.ties(name, r)) != 1 {
					continue
				}
				a, _ := p.Pick(r, w.s)
				b, _ := p.Pick(r, s)
				require.Equal(t, names[a.Decode], b.Decode, "%s, seed %d", name, seed)
				compared++
			}
		}
		require.Greater(t, compared, 20, name)
	}
}

// Raising a tier's congestion never makes netkv-full choose that tier when it did not before.
func TestCongestionNeverAttracts(t *testing.T) {
	t.Parallel()
	p := mustPolicy(t, "netkv-full")
	moved := 0
	for seed := range uint64(200) {
		w, rng := randomWorld(t, seed)
		r := w.request(rng)
		before, ok := p.Pick(r, w.s)
		if !ok {
			continue
		}
		for tier := range scheduler.Tiers {
			c := w.congestion
			for c[tier] < 0.9 {
				c[tier] += 0.1
				w.s.SetCongestion(c)
				after, _ := p.Pick(r, w.s)
				if before.Tier != tier {
					require.NotEqual(t, tier, after.Tier, "seed %d: tier %d at %v", seed, tier, c[tier])
				} else if after.Tier != tier {
					moved++
				}
			}
		}
	}
	assert.Positive(t, moved, "congestion drives some away")
}

// Where only the transfer costs time, doubling all rates halves every cost and changes no choice.
func TestDoublingAllRatesMovesNoChoice(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"netkv-topo", "netkv-static", "netkv-full"} {
		p := mustPolicy(t, name)
		for seed := range uint64(150) {
			w, rng := randomWorld(t, seed)
			w.o.DecodeBase, w.o.DecodePerSequence, w.o.DecodePerContextTokenNs = 0, 0, 0
			w.o.Oracle.Latency = [scheduler.Tiers]time.Duration{}
			names := make([]int, w.o.Decodes)
			for d := range names {
				names[d] = d
			}
			slow := w.permuted(t, names)
			for i := range w.o.Oracle.BytesPerSecond {
				w.o.Oracle.BytesPerSecond[i] *= 2
			}
			fast := w.permuted(t, names)
			for range 5 {
				r := w.request(rng)
				a, ok := p.Pick(r, slow)
				b, _ := p.Pick(r, fast)
				require.Equal(t, a.Decode, b.Decode, "%s, seed %d", name, seed)
				if ok {
					require.InDelta(t, a.Cost/2, b.Cost, 1e-12)
				}
			}
		}
	}
}
