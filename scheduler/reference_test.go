package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/scheduler"
)

// world is a State and, beside it, the plain facts reported to it.
type world struct {
	o          scheduler.Options
	s          *scheduler.State
	queued     []int
	batch      []int
	context    []int // prompt tokens of the batch
	blocks     []int // prompt blocks of queue and batch
	free       []int64
	dead       []bool
	held       []map[uint64]bool
	inFlight   map[[2]int]int // prefill, tier
	congestion [scheduler.Tiers]float64
}

// randomWorld draws a cluster with few distinct values, so that ties are common.
func randomWorld(tb testing.TB, seed uint64) (*world, *rand.Rand) {
	tb.Helper()
	rng := rand.New(rand.NewPCG(seed, 4))
	prefills, decodes := 1+rng.IntN(4), 1+rng.IntN(150)
	o := scheduler.Options{
		Prefills: prefills, Decodes: decodes, MaxBatch: 1 + rng.IntN(8), BlockTokens: 512,
		KVBytesPerToken: 327_680, MinFreeBytes: 1e9, MemoryBytes: 20e9,
		DecodeBase: 12_500 * time.Microsecond, DecodePerSequence: 100 * time.Microsecond,
		InFlightCap: 1 + rng.IntN(4), Separation: rng.IntN(5) > 0,
		Oracle: scheduler.Oracle{
			BytesPerSecond: [scheduler.Tiers]float64{450e9, gbps(100), gbps(50), gbps(25)},
			Latency:        [scheduler.Tiers]time.Duration{1000, 3000, 8000, 15000},
		},
	}
	if rng.IntN(2) == 0 {
		o.DecodePerContextTokenNs = 25
	}
	for range prefills * decodes {
		o.Oracle.Tier = append(o.Oracle.Tier, uint8(rng.IntN(scheduler.Tiers)))
	}
	w := &world{
		o: o, s: mustState(tb, o), queued: make([]int, decodes), batch: make([]int, decodes), context: make([]int, decodes),
		blocks: make([]int, decodes), free: make([]int64, decodes), dead: make([]bool, decodes), inFlight: map[[2]int]int{},
	}
	for d := range decodes {
		w.held = append(w.held, map[uint64]bool{})
		w.furnish(rng, d)
	}
	for t := range w.congestion {
		w.congestion[t] = float64(rng.IntN(4)) / 4
	}
	w.s.SetCongestion(w.congestion)
	return w, rng
}

// furnish gives an instance load, memory and cache; sometimes it is lost.
func (w *world) furnish(rng *rand.Rand, d int) {
	busy := 4
	if rng.IntN(20) == 0 {
		busy = 150 // beyond SGLang's threshold
	}
	for range rng.IntN(busy) {
		r := scheduler.Request{Prefill: rng.IntN(w.o.Prefills), PromptTokens: 100 + 400*rng.IntN(4)}
		tier := int(w.o.Oracle.Tier[r.Prefill*w.o.Decodes+d])
		w.s.Begin(&r, scheduler.Decision{Decode: d, Tier: tier})
		w.inFlight[[2]int{r.Prefill, tier}]++
		w.queued[d]++
		w.blocks[d] += (r.PromptTokens + 511) / 512
		if rng.IntN(2) == 0 {
			w.s.TransferEnded(r.Prefill, d, tier)
			w.inFlight[[2]int{r.Prefill, tier}]--
			w.s.Admitted(d, r.PromptTokens)
			w.queued[d]--
			w.batch[d]++
			w.context[d] += r.PromptTokens
		}
	}
	w.free[d] = int64(rng.IntN(5)) * 5e9
	w.s.SetFree(d, w.free[d])
	if rng.IntN(20) == 0 {
		w.dead[d] = true
		w.s.SetAlive(d, false)
		return
	}
	for i := range rng.IntN(12) {
		if rng.IntN(8) > 0 {
			w.held[d][uint64(i)] = true
			w.s.Stored(d, []uint64{uint64(i)})
		}
	}
}

func (w *world) request(rng *rand.Rand) *scheduler.Request {
	r := &scheduler.Request{
		Prefill: rng.IntN(w.o.Prefills), PromptTokens: 1 + rng.IntN(6000), OutputTokens: rng.IntN(500), TieBreak: rng.Uint64(),
	}
	if rng.IntN(6) > 0 {
		for i := range (r.PromptTokens + 511) / 512 {
			r.Blocks = append(r.Blocks, uint64(i))
		}
	}
	return r
}

// hit returns held leading blocks and lambda.
func (w *world) hit(r *scheduler.Request, d int) (n, tokens int) {
	for n < len(r.Blocks) && w.held[d][r.Blocks[n]] {
		n++
	}
	return n, min(n*512, r.PromptTokens)
}

func (w *world) feasible(r *scheduler.Request) []int {
	var out []int
	for d := range w.o.Decodes {
		_, hit := w.hit(r, d)
		need := int64(r.PromptTokens-hit)*w.o.KVBytesPerToken + int64(r.OutputTokens)*w.o.KVBytesPerToken
		if !w.dead[d] && w.free[d] >= need+w.o.MinFreeBytes {
			out = append(out, d)
		}
	}
	return out
}

func (w *world) seconds(batch, context int) float64 {
	return (float64(w.o.DecodeBase) + float64(w.o.DecodePerSequence)*float64(batch) + w.o.DecodePerContextTokenNs*float64(context)) / 1e9
}

// algorithm1 is the notes' pseudocode, line by line, for one candidate.
func (w *world) algorithm1(r *scheduler.Request, d int, useN, useC bool) float64 {
	tau := int(w.o.Oracle.Tier[r.Prefill*w.o.Decodes+d])
	c, n := 0.0, 0
	if useC {
		c = w.congestion[tau]
	}
	if useN && w.o.Separation {
		n = min(w.inFlight[[2]int{r.Prefill, tau}], w.o.InFlightCap)
	}
	beff := w.o.Oracle.BytesPerSecond[tau] * (1 - c) / float64(1+n)
	_, lambda := w.hit(r, d)
	seff := float64(int64(r.PromptTokens-lambda) * w.o.KVBytesPerToken)
	xfer := seff/beff + w.o.Oracle.Latency[tau].Seconds()
	queue := float64(max(0, w.queued[d]-(w.o.MaxBatch-w.batch[d]))) * w.seconds(w.batch[d], w.context[d])
	return xfer + queue + w.seconds(w.batch[d]+1, w.context[d]+r.PromptTokens)
}

// view is what a request can choose from: the feasible instances and their figures.
type view struct {
	r                   *scheduler.Request
	among               []int
	queues, loads, hits []int // of among
}

func (w *world) view(r *scheduler.Request) view {
	v := view{r: r, among: w.feasible(r)}
	for _, d := range v.among {
		_, hit := w.hit(r, d)
		v.queues, v.loads, v.hits = append(v.queues, w.queued[d]), append(v.loads, w.queued[d]+w.batch[d]), append(v.hits, hit)
	}
	return v
}

// score is the simple form of each policy: lower is better.
func (w *world) score(name string, v view, d int) float64 {
	r := v.r
	n, hit := w.hit(r, d)
	prefix := 0.0
	if len(r.Blocks) > 0 {
		prefix = float64(n) / float64(len(r.Blocks))
	}
	load := w.queued[d] + w.batch[d]
	queue := 1.0
	if most, least := slices.Max(v.queues), slices.Min(v.queues); most > least {
		queue = float64(most-w.queued[d]) / float64(most-least)
	}
	switch name {
	case "random":
		return 0
	case "least-loaded":
		return float64(load)
	case "ca":
		return -prefix
	case "cla", "cla*":
		return float64(load)/float64(w.o.MaxBatch) - float64(hit)/float64(r.PromptTokens)
	case "llmd":
		return -(2*prefix + queue)
	case "llmd-default":
		return -(3*prefix + 2*queue + 2*float64(w.free[d])/float64(w.o.MemoryBytes))
	case "llmd-topology":
		near := []float64{1, 0.2, 0.05, 0.02}[w.o.Oracle.Tier[r.Prefill*w.o.Decodes+d]]
		return -(2*prefix + queue + near)
	case "sglang":
		most, least := slices.Max(v.loads), slices.Min(v.loads)
		balanced := most-least <= 64 || float64(most) <= 1.5*float64(least)
		if balanced && float64(slices.Max(v.hits))/float64(r.PromptTokens) > 0.3 {
			return -float64(hit)
		}
		return float64(load)
	case "dynamo":
		return float64(w.blocks[d])
	case "netkv-topo":
		return w.algorithm1(r, d, false, false)
	case "netkv-static":
		return w.algorithm1(r, d, true, false)
	case "netkv-full":
		return w.algorithm1(r, d, true, true)
	}
	panic("no reference for " + name)
}

// ties returns the instances of lowest cost.
func (w *world) ties(name string, r *scheduler.Request) []int {
	best, ties := 0.0, []int(nil)
	v := w.view(r)
	for _, d := range v.among {
		c := w.score(name, v, d)
		if ties == nil || c < best {
			best, ties = c, nil
		}
		if c == best {
			ties = append(ties, d)
		}
	}
	return ties
}

// pick takes the k-th of the equal instances, k = TieBreak mod their number.
func (w *world) pick(name string, r *scheduler.Request) (int, bool) {
	ties := w.ties(name, r)
	if len(ties) == 0 {
		return 0, false
	}
	return ties[r.TieBreak%uint64(len(ties))], true
}

// Every policy chooses what its simple form chooses, in 200 random clusters.
func TestPoliciesEqualTheirObviousForm(t *testing.T) {
	t.Parallel()
	for _, name := range scheduler.Names() {
		if name == "rr" {
			continue // has memory: TestRoundRobinTakesTheFeasibleInTurn
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := mustPolicy(t, name)
			chosen := 0
			for seed := range uint64(200) {
				w, rng := randomWorld(t, seed)
				for range 10 {
					r := w.request(rng)
					want, wantOK := w.pick(name, r)
					got, ok := p.Pick(r, w.s)
					require.Equal(t, wantOK, ok, "seed %d", seed)
					if !ok {
						continue
					}
					chosen++
					require.Equal(t, want, got.Decode, "seed %d, request %+v", seed, *r)
					_, hit := w.hit(r, want)
					require.Equal(t, hit, got.HitTokens)
					require.Equal(t, int(w.o.Oracle.Tier[r.Prefill*w.o.Decodes+want]), got.Tier)
				}
			}
			require.Greater(t, chosen, 1000, "the clusters leave something to choose")
		})
	}
}

func TestRoundRobinTakesTheFeasibleInTurn(t *testing.T) {
	t.Parallel()
	s := mustState(t, options(2, 2, 2, 2))
	s.SetAlive(2, false)
	p := mustPolicy(t, "rr")
	var got []int
	for range 7 {
		d, ok := p.Pick(&scheduler.Request{PromptTokens: 1}, s)
		require.True(t, ok)
		got = append(got, d.Decode)
	}
	require.Equal(t, []int{0, 1, 3, 0, 1, 3, 0}, got)
	require.Equal(t, 0, mustPick(t, "rr", s, &scheduler.Request{PromptTokens: 1}).Decode, "a new policy starts anew")
	for d := range 4 {
		s.SetAlive(d, false)
	}
	_, ok := p.Pick(&scheduler.Request{PromptTokens: 1}, s)
	require.False(t, ok)
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	_, err := scheduler.New("netkv", scheduler.PolicyOptions{})
	for _, name := range scheduler.Names() {
		require.ErrorContains(t, err, name, "an unknown name lists the known")
		p, err := scheduler.New(name, scheduler.PolicyOptions{CacheWeight: 3})
		require.NoError(t, err)
		require.Equal(t, name, p.Name())
	}
	_, err = scheduler.New("cla", scheduler.PolicyOptions{})
	require.NoError(t, err, "cla has default weights")
	_, err = scheduler.New("cla*", scheduler.PolicyOptions{})
	require.ErrorContains(t, err, "tune", "cla* without weights is not tuned")
	_, err = scheduler.New("cla", scheduler.PolicyOptions{LoadWeight: -1})
	require.ErrorContains(t, err, "LoadWeight")
}

func TestBadRequestsFindNobody(t *testing.T) {
	t.Parallel()
	s := mustState(t, options(2))
	for _, r := range []scheduler.Request{{}, {PromptTokens: -1}, {PromptTokens: 1, Prefill: 1}, {PromptTokens: 1, Prefill: -1}, {PromptTokens: 1 << 40}} {
		for _, name := range scheduler.Names() {
			_, ok := mustPolicy(t, name).Pick(&r, s)
			require.False(t, ok, fmt.Sprintf("%s %+v", name, r))
		}
		_, ok := s.Estimate(&r, 0, scheduler.Congestion)
		require.False(t, ok)
	}
}
