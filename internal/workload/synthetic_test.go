package workload

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/scenarios"
)

// ragLike is a scenario in the shape of the RAG profile.
func ragLike() *scenarios.Scenario {
	return &scenarios.Scenario{
		Engine:   scenarios.Engine{BlockTokens: 512},
		Transfer: scenarios.Transfer{Streams: 4},
		Workload: scenarios.Workload{Kind: "synthetic", Synthetic: &scenarios.Synthetic{
			Requests: 4000, Rate: 2, Arrivals: "poisson",
			Prompt: scenarios.LengthTokens{Mean: 8192, Sigma: 0.6, Min: 256, Max: 131072},
			Output: scenarios.LengthTokens{Mean: 256, Sigma: 0.5, Min: 1, Max: 2048},
			Prefix: scenarios.Prefix{Share: 0.5, Groups: 200, Fraction: 0.5},
		}},
	}
}

func generate(t *testing.T, s *scenarios.Scenario, seed uint64) ([]Request, Report) {
	t.Helper()
	reqs, report, err := Generate(s, seed)
	require.NoError(t, err)
	return reqs, report
}

// digest is a fingerprint of every field of every request.
func digest(reqs []Request) string {
	h := sha256.New()
	put := func(v uint64) { _ = binary.Write(h, binary.LittleEndian, v) }
	for i := range reqs {
		r := &reqs[i]
		put(uint64(r.ID))
		put(uint64(r.Arrival))
		put(uint64(r.PromptTokens))
		put(uint64(r.OutputTokens))
		for _, list := range [][]uint64{r.Blocks, {r.TieBreak}, r.PathDraws} {
			put(uint64(len(list)))
			for _, v := range list {
				put(v)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// TestSameSeedSameBytes fails when a change of code or library changes the draws: results of the
// two versions are then not comparable, and the changelog must say so.
func TestSameSeedSameBytes(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skipf("the fingerprints are of amd64; math.Exp may round its last bit otherwise on %s", runtime.GOARCH)
	}
	bursty := ragLike()
	bursty.Workload.Synthetic.Arrivals, bursty.Workload.Synthetic.Burstiness = "bursty", 4
	tests := []struct {
		name string
		s    *scenarios.Scenario
		seed uint64
		want string
	}{
		{"poisson, seed 1", ragLike(), 1, "1deb28cad6ba351d"},
		{"poisson, seed 2", ragLike(), 2, "e3bac9319eade6bf"},
		{"bursty, seed 1", bursty, 1, "98b9428fde34aa55"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			first, _ := generate(t, tt.s, tt.seed)
			second, _ := generate(t, tt.s, tt.seed)
			require.Equal(t, first, second)
			assert.Equal(t, tt.want, digest(first))
		})
	}
}

func TestRequestLaws(t *testing.T) {
	t.Parallel()
	s := ragLike()
	s.Engine.BlockTokens = 16
	s.Workload.Synthetic.Requests = 1000
	reqs, report := generate(t, s, 7)
	require.Len(t, reqs, 1000)
	parent := map[uint64]uint64{}
	for i, r := range reqs {
		require.Equal(t, i, r.ID)
		require.GreaterOrEqual(t, r.PromptTokens, 256)
		require.LessOrEqual(t, r.PromptTokens, 131072)
		require.GreaterOrEqual(t, r.OutputTokens, 1)
		require.Len(t, r.Blocks, (r.PromptTokens+15)/16)
		require.Len(t, r.PathDraws, 4)
		if i > 0 {
			require.GreaterOrEqual(t, r.Arrival, reqs[i-1].Arrival)
		}
		before := uint64(math.MaxUint64) // stands for the root
		for _, id := range r.Blocks {
			// require.Equal on every block would take seconds under the race detector.
			if p, ok := parent[id]; ok && p != before {
				require.Failf(t, "equal ids mean equal prefixes", "block %d follows %d and %d", id, p, before)
			}
			parent[id] = before
			before = id
		}
	}
	assert.Equal(t, 1000, report.Requests)
}

func TestMomentsAreThoseAskedFor(t *testing.T) {
	t.Parallel()
	s := ragLike()
	w := s.Workload.Synthetic
	w.Requests = 200_000
	w.Prompt.Min, w.Prompt.Max = 1, maxTokens // uncut
	reqs, _ := generate(t, s, 3)
	prompt, output := meanTokens(reqs)
	assert.InEpsilon(t, 8192, prompt, 0.01)
	assert.InEpsilon(t, 256, output, 0.01)
	assert.InEpsilon(t, 100_000, reqs[len(reqs)-1].Arrival.Seconds(), 0.01, "200 000 requests at 2 a second")
	first := map[uint64]int{} // requests by their first block
	for _, r := range reqs {
		first[r.Blocks[0]]++
	}
	alone := 0
	for _, n := range first {
		if n == 1 {
			alone++
		}
	}
	assert.InDelta(t, 0.5, 1-float64(alone)/200_000, 0.01, "the share with a common prefix")
	mean, cv2 := gapMoments(reqs)
	assert.InEpsilon(t, 0.5, mean, 0.01)
	assert.InEpsilon(t, 1, cv2, 0.03)

	w.Arrivals, w.Burstiness = "bursty", 4
	reqs, _ = generate(t, s, 3)
	mean, cv2 = gapMoments(reqs)
	assert.InEpsilon(t, 0.5, mean, 0.03)
	assert.InEpsilon(t, 4, cv2, 0.05)
}

func meanTokens(reqs []Request) (prompt, output float64) {
	for _, r := range reqs {
		prompt += float64(r.PromptTokens) / float64(len(reqs))
		output += float64(r.OutputTokens) / float64(len(reqs))
	}
	return prompt, output
}

// gapMoments returns the mean gap in seconds and its squared coefficient of variation.
func gapMoments(reqs []Request) (mean, cv2 float64) {
	var sum, squares float64
	last := time.Duration(0)
	for _, r := range reqs {
		g := (r.Arrival - last).Seconds()
		last = r.Arrival
		sum += g
		squares += g * g
	}
	n := float64(len(reqs))
	mean = sum / n
	return mean, squares/n/(mean*mean) - 1
}

func TestOneKnobLeavesTheOtherDrawsAlone(t *testing.T) {
	t.Parallel()
	base, _ := generate(t, ragLike(), 5)
	arrivals := func(r Request) any { return r.Arrival }
	prompts := func(r Request) any { return r.PromptTokens }
	outputs := func(r Request) any { return r.OutputTokens }
	draws := func(r Request) any { return []any{r.TieBreak, r.PathDraws[0]} }
	tests := []struct {
		name   string
		change func(*scenarios.Scenario)
		same   []func(Request) any
	}{
		{"the rate moves arrivals only", func(s *scenarios.Scenario) { s.Workload.Synthetic.Rate = 7 }, []func(Request) any{prompts, outputs, draws}},
		{"burstiness moves arrivals only", func(s *scenarios.Scenario) {
			s.Workload.Synthetic.Arrivals, s.Workload.Synthetic.Burstiness = "bursty", 3
		}, []func(Request) any{prompts, outputs, draws}},
		{"prompt lengths leave outputs", func(s *scenarios.Scenario) { s.Workload.Synthetic.Prompt.Sigma = 1 }, []func(Request) any{arrivals, outputs, draws}},
		{"sharing leaves lengths", func(s *scenarios.Scenario) { s.Workload.Synthetic.Prefix.Share = 0.9 }, []func(Request) any{arrivals, prompts, outputs, draws}},
		{"more streams leave the first draw", func(s *scenarios.Scenario) { s.Transfer.Streams = 8 }, []func(Request) any{arrivals, prompts, outputs, draws}},
		{"more requests leave the first ones", func(s *scenarios.Scenario) { s.Workload.Synthetic.Requests = 5000 }, []func(Request) any{arrivals, prompts, outputs, draws}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := ragLike()
			tt.change(s)
			got, _ := generate(t, s, 5)
			for i := range base {
				for _, field := range tt.same {
					require.Equal(t, field(base[i]), field(got[i]), "request %d", i)
				}
			}
		})
	}
}

func TestTwiceTheRateHalvesEveryArrival(t *testing.T) {
	t.Parallel()
	slow, _ := generate(t, ragLike(), 1)
	s := ragLike()
	s.Workload.Synthetic.Rate = 4
	fast, _ := generate(t, s, 1)
	for i := range slow {
		require.InDelta(t, float64(slow[i].Arrival)/2, float64(fast[i].Arrival), 1)
	}
}

func TestSharedPartIsWholeBlocksOfTheFraction(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name             string
		tokens           int
		fraction         float64
		blocks, sharedBy int
	}{
		{"half of four blocks", 2048, 0.5, 4, 2},
		{"rounds to the nearest block", 2048, 0.4, 4, 2},
		{"rounds down to none", 2048, 0.1, 4, 0},
		{"a partial block is never shared", 2050, 1, 5, 4},
		{"a prompt below one block shares nothing", 300, 1, 1, 0},
		{"fraction 0 shares nothing", 2048, 0, 4, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPrefixer(scenarios.Prefix{Share: 1, Groups: 1, Fraction: tt.fraction}, 512, 1)
			a, b := p.draw(tt.tokens), p.draw(tt.tokens)
			assert.Len(t, a, tt.blocks)
			assert.Equal(t, a[:tt.sharedBy], b[:tt.sharedBy])
			for _, id := range a[tt.sharedBy:] {
				assert.NotContains(t, b, id)
			}
		})
	}
}

func TestConstantLengths(t *testing.T) {
	t.Parallel()
	s := ragLike()
	s.Workload.Synthetic.Prompt = scenarios.LengthTokens{Mean: 16384, Sigma: 0, Min: 1, Max: 131072}
	reqs, _ := generate(t, s, 1)
	assert.False(t, slices.ContainsFunc(reqs, func(r Request) bool { return r.PromptTokens != 16384 }))
}

func TestDrawsAreSpreadEvenly(t *testing.T) {
	t.Parallel()
	s := ragLike()
	s.Workload.Synthetic.Requests = 20_000
	for _, paths := range []uint64{2, 3, 16} {
		counts := make([]int, paths)
		reqs, _ := generate(t, s, 1)
		for _, r := range reqs {
			for _, d := range r.PathDraws {
				counts[d%paths]++
			}
		}
		for _, c := range counts {
			assert.InEpsilon(t, 80_000/float64(paths), c, 0.05)
		}
	}
}

func TestTenantsAreDrawnEvenlyFromAStreamOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := ragLike()
	s.Workload.Synthetic.Requests = 20_000
	whole, _ := generate(t, s, 1)
	assert.False(t, slices.ContainsFunc(whole, func(r Request) bool { return r.Tenant != 0 }), "without the key there is one")
	halves := make([]int, len(whole))
	for _, tenants := range []int{1, 2, 4, 8, 3, 64} {
		s.Workload.Tenants = tenants
		reqs, _ := generate(t, s, 1)
		assert.Equal(t, digest(whole), digest(reqs), "all else stays as it was")
		counts := make([]int, tenants)
		for i, r := range reqs {
			counts[r.Tenant]++
			switch tenants {
			case 2:
				halves[i] = r.Tenant
			case 4, 8:
				assert.Equal(t, halves[i], r.Tenant%2, "a half is split, not dealt anew")
			}
		}
		for i, c := range counts {
			assert.InDelta(t, 20_000/tenants, c, 5*math.Sqrt(20_000/float64(tenants)), "tenant %d of %d", i, tenants)
		}
	}
	s.Workload.Tenants = 2
	other, _ := generate(t, s, 2)
	same := 0
	for i := range other {
		if other[i].Tenant == halves[i] {
			same++
		}
	}
	assert.InDelta(t, 10_000, same, 500, "another seed draws anew")
}

func TestArrivalsBeyondTheClockAreAnError(t *testing.T) {
	t.Parallel()
	s := ragLike()
	s.Workload.Synthetic.Rate = 1e-9
	_, _, err := Generate(s, 1)
	require.ErrorContains(t, err, "292 years")
}
