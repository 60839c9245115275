package scheduler

import "math"

// chooser keeps the candidates of lowest cost while a policy walks the pool once.
type chooser struct {
	best float64
	ties []int32
}

// offer considers a candidate.
func (c *chooser) offer(decode int, cost float64) {
	if cost > c.best {
		return
	}
	if cost < c.best {
		c.best = cost
		c.ties = c.ties[:0]
	}
	c.ties = append(c.ties, int32(decode))
}

// open matches the prompt against the prefix index and clears the chooser.
// False: the request itself is out of range, and there is nothing to choose.
func (s *State) open(r *Request) bool {
	if !s.o.inRange(r) {
		return false
	}
	s.prefix.match(r.Blocks, s.depth)
	s.scratch.best, s.scratch.ties = math.Inf(1), s.scratch.ties[:0]
	return true
}

// feasible is line 1 of Algorithm 1, m_d >= s_eff(d) + m_min, with the output's KV cache added to
// s_eff, because an engine reserves both at once. hit is lambda. Held blocks count as present
// though they may be evictable and so part of m_d: the engine knows this and makes the final
// decision.
func (s *State) feasible(r *Request, d int) (hit int, ok bool) {
	l := &s.loads[d]
	hit = s.o.tokens(r, int(s.depth[d]))
	return hit, !l.dead && l.free >= s.o.need(r, hit)+s.o.MinFreeBytes
}

// costFunc is what a policy minimises. hit is lambda.
type costFunc func(s *State, r *Request, d, hit int) float64

// lowest walks the feasible instances once and takes the lowest cost.
func (s *State) lowest(r *Request, cost costFunc) (Decision, bool) {
	for d := range s.loads {
		if hit, ok := s.feasible(r, d); ok {
			s.scratch.offer(d, cost(s, r, d, hit))
		}
	}
	return s.decide(r)
}

// span returns the smallest and largest value, 0 or more, among the feasible.
func (s *State) span(r *Request, value func(l *load, hit int) int) (low, high int) {
	low = math.MaxInt
	for d := range s.loads {
		if hit, ok := s.feasible(r, d); ok {
			v := value(&s.loads[d], hit)
			low, high = min(low, v), max(high, v)
		}
	}
	return low, high
}

// decide picks uniformly among equal candidates by the request's own draw.
func (s *State) decide(r *Request) (Decision, bool) {
	k := uint64(len(s.scratch.ties))
	if k == 0 {
		return Decision{}, false
	}
	return s.decision(r, int(s.scratch.ties[r.TieBreak%k]), s.scratch.best), true
}

func (s *State) decision(r *Request, d int, cost float64) Decision {
	return Decision{Decode: d, Tier: s.o.tier(r.Prefill, d), HitTokens: s.o.tokens(r, int(s.depth[d])), Cost: cost}
}

// prefixScore returns matched blocks / blocks of the prompt, 0 without blocks.
func (s *State) prefixScore(r *Request, d int) float64 {
	if len(r.Blocks) == 0 {
		return 0
	}
	return float64(s.depth[d]) / float64(len(r.Blocks))
}

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

// roundRobin takes the feasible instances in turn. It is a Policy of its own, not a pickFunc: it is
// so cheap that one more indirect call shows.
type roundRobin struct{ next int }

func (p *roundRobin) Name() string { return "rr" }

func (p *roundRobin) Pick(r *Request, s *State) (Decision, bool) {
	if !s.open(r) {
		return Decision{}, false
	}
	for range s.o.Decodes {
		d := p.next
		if d >= s.o.Decodes {
			d = 0
		}
		p.next = d + 1
		if _, ok := s.feasible(r, d); ok {
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
