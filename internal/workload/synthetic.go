package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/netkvlab/netkvlab/scenarios"
)

// synthesize generates the requests of a synthetic workload.
func synthesize(s *scenarios.Scenario, seed uint64) ([]Request, Report, error) {
	w := s.Workload.Synthetic
	var (
		reqs    = make([]Request, w.Requests)
		gap     = newGaps(w, seed)
		prompts = newLengths(w.Prompt, seed, streamPrompts)
		outputs = newLengths(w.Output, seed, streamOutputs)
		blocks  = newPrefixer(w.Prefix, s.Engine.BlockTokens, seed)
		at      float64 // seconds
	)
	for i := range reqs {
		at += gap()
		if at > math.MaxInt64/1e9 {
			return nil, Report{}, fmt.Errorf("workload.synthetic.rate %g: request %d of %d would arrive after 292 years; raise the rate", w.Rate, i, w.Requests)
		}
		r := &reqs[i]
		r.Arrival = time.Duration(at * 1e9)
		r.PromptTokens = prompts.draw()
		r.OutputTokens = outputs.draw()
		r.Blocks = blocks.draw(r.PromptTokens)
	}
	return reqs, Report{}, nil
}

// newGaps returns a source of gaps between arrivals, in seconds. The mean is 1/Rate. It only
// scales the draws, so doubling the rate halves every arrival time. Poisson arrivals have
// exponential gaps; bursty ones gamma gaps whose squared coefficient of variation is Burstiness
// (shape 1/Burstiness).
func newGaps(w *scenarios.Synthetic, seed uint64) func() float64 {
	src := stream(seed, streamArrivals)
	mean := 1 / w.Rate
	if w.Arrivals == "bursty" {
		shape := 1 / w.Burstiness
		g := distuv.Gamma{Alpha: shape, Beta: shape, Src: src}
		return func() float64 { return mean * g.Rand() }
	}
	r := rand.New(src)
	return func() float64 { return mean * r.ExpFloat64() }
}

// lengths draws log-normal token counts. Each request takes one draw, for any parameters.
type lengths struct {
	mu, sigma float64
	min, max  int
	rng       *rand.Rand
}

// newLengths: exp(mu + sigma Z) has mean exp(mu + sigma^2/2), hence mu = ln(mean) - sigma^2/2.
// The later cut to [min, max] changes the mean a little.
func newLengths(l scenarios.LengthTokens, seed uint64, name string) *lengths {
	return &lengths{
		mu: math.Log(l.Mean) - l.Sigma*l.Sigma/2, sigma: l.Sigma,
		min: l.Min, max: l.Max, rng: rand.New(stream(seed, name)),
	}
}

// draw returns the next length, at least 1.
func (l *lengths) draw() int {
	x := math.Round(math.Exp(l.mu + l.sigma*l.rng.NormFloat64()))
	return int(max(float64(l.min), min(x, float64(l.max)))) // cut as a float: an extreme draw does not fit an int
}

// prefixer gives requests their prefix blocks. Block ids count up from 0 in
// order of first appearance, as in Mooncake's traces.
type prefixer struct {
	scenarios.Prefix
	blockTokens int
	rng         *rand.Rand
	groups      map[int][]uint64 // ids of each group's prefix, as far as needed so far
	next        uint64
}

func newPrefixer(p scenarios.Prefix, blockTokens int, seed uint64) *prefixer {
	return &prefixer{
		Prefix: p, blockTokens: blockTokens,
		rng: rand.New(stream(seed, streamPrefixes)), groups: map[int][]uint64{},
	}
}

// draw returns the ids of a prompt's blocks. Membership and group are drawn for every request, so
// that changing the share does not change the groups. The shared part is rounded to whole blocks
// and stays within the prompt's full blocks: a block that other prompts extend cannot be partial.
func (p *prefixer) draw(tokens int) []uint64 {
	member := p.rng.Float64() < p.Share
	group := p.rng.Float64()
	ids, shared := make([]uint64, ceilDiv(tokens, p.blockTokens)), 0
	if member && p.Groups > 0 {
		g := min(int(group*float64(p.Groups)), p.Groups-1)
		shared = int(math.Round(p.Fraction * float64(tokens) / float64(p.blockTokens)))
		shared = min(shared, tokens/p.blockTokens)
		copy(ids, p.prefix(g, shared))
	}
	for i := shared; i < len(ids); i++ {
		ids[i] = p.next
		p.next++
	}
	return ids
}

// prefix returns the first n block ids of group g. Ids depend only on group and depth, so equal
// ids always have equal predecessors.
func (p *prefixer) prefix(g, n int) []uint64 {
	ids := p.groups[g]
	for len(ids) < n {
		ids = append(ids, p.next)
		p.next++
	}
	p.groups[g] = ids
	return ids[:n]
}

// ceilDiv returns a/b rounded up, for a >= 0 and b > 0.
func ceilDiv(a, b int) int { return (a + b - 1) / b }
