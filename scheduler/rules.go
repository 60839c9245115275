package scheduler

// cheapest is a policy that takes the lowest cost.
func cheapest(cost costFunc) pickFunc {
	return func(r *Request, s *State) (Decision, bool) { return s.lowest(r, cost) }
}

// random gives all feasible instances the same cost, so the request's draw decides.
func random(*State, *Request, int, int) float64 { return 0 }

// leastLoaded counts the requests that an instance has, assigned or in its batch: the order of
// llm-d's active-request-scorer. It equals llm-d's queue-scorer where batches are equal.
func leastLoaded(s *State, _ *Request, d, _ int) float64 { return float64(s.loads[d].active()) }

// cacheAware is llm-d's prefix-cache-scorer alone: matched blocks / blocks of the prompt.
func cacheAware(s *State, r *Request, d, _ int) float64 { return -s.prefixScore(r, d) }

// decodeBlocks is the decode router of Dynamo: the fewest active decode blocks, with no credit for
// prefixes. The request's own blocks are the same everywhere.
func decodeBlocks(s *State, _ *Request, d, _ int) float64 { return float64(s.loads[d].blocks) }

// cacheLoad weighs cache against load: the score is
// CacheWeight x lambda/l - LoadWeight x (q_d + beta_d)/beta_max.
func (o *PolicyOptions) cacheLoad(s *State, r *Request, d, hit int) float64 {
	return o.LoadWeight*float64(s.loads[d].active())/float64(s.o.MaxBatch) - o.CacheWeight*float64(hit)/float64(r.PromptTokens)
}

// roundRobin takes the feasible instances in turn.
type roundRobin struct{ next int }

func (p *roundRobin) pick(r *Request, s *State) (Decision, bool) {
	for i := range s.o.Decodes {
		d := (p.next + i) % s.o.Decodes
		if _, ok := s.feasible(r, d); ok {
			p.next = (d + 1) % s.o.Decodes
			return s.decision(r, d, 0), true
		}
	}
	return Decision{}, false
}

// llmd is a profile of llm-d's inference scheduler: a sum of weights times scores in [0,1], not
// normalised. The highest wins, and a draw decides among equal ones. The scorers are
// prefix-cache-scorer, queue-scorer, kv-cache-utilization-scorer and, from the later
// llm-d-router, topology-affinity-scorer.
type llmd struct{ prefix, queue, memory, proximity float64 }

// affinity is topology-affinity-scorer's score of the same host, rack, zone and region; our pod
// corresponds to the zone.
var affinity = [Tiers]float64{1.00, 0.20, 0.05, 0.02}

func (p llmd) pick(r *Request, s *State) (Decision, bool) {
	low, high := s.span(r, func(l *load, _ int) int { return l.queued })
	return s.lowest(r, func(s *State, r *Request, d, _ int) float64 {
		queue := 1.0 // queue-scorer: (max-q)/(max-min), 1 for all when they are equal
		if high > low {
			queue = float64(high-s.loads[d].queued) / float64(high-low)
		}
		score := p.prefix*s.prefixScore(r, d) + p.queue*queue
		if p.memory != 0 { // 1 - KV usage
			score += p.memory * float64(s.loads[d].free) / float64(s.o.MemoryBytes)
		}
		if p.proximity != 0 {
			score += p.proximity * affinity[s.o.tier(r.Prefill, d)]
		}
		return -score
	})
}

// Thresholds of SGLang's model gateway as its command line sets them.
const (
	sglangMatch    = 0.3 // match rate above which the cache decides
	sglangAbsolute = 64  // requests between the most and the least loaded ...
	sglangRelative = 1.5 // ... and their ratio, above which load decides
)

// sglang is the cache_aware policy of SGLang's model gateway: when the pool is out of balance, or
// no instance holds more than 30% of the prompt, the fewest requests; otherwise the longest match.
// Its match rate is of characters, ours of tokens. It takes the first among equals; here the
// request's draw decides, as for every policy.
func sglang(r *Request, s *State) (Decision, bool) {
	low, high := s.span(r, func(l *load, _ int) int { return l.active() })
	_, longest := s.span(r, func(_ *load, hit int) int { return hit })
	imbalanced := high-low > sglangAbsolute && float64(high) > sglangRelative*float64(low)
	if !imbalanced && float64(longest)/float64(r.PromptTokens) > sglangMatch {
		return s.lowest(r, func(_ *State, _ *Request, _, hit int) float64 { return -float64(hit) })
	}
	return s.lowest(r, leastLoaded)
}
