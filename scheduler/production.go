package scheduler

// llmd is a profile of llm-d's inference scheduler: a sum of weights times
// scores in [0,1], not normalised. The highest wins, and a draw decides among equal ones. The
// scorers are prefix-cache-scorer, queue-scorer, kv-cache-utilization-scorer
// and, from the later llm-d-router, topology-affinity-scorer.
type llmd struct {
	name                             string
	prefix, queue, memory, proximity float64
}

// affinity is topology-affinity-scorer's score of the same host, rack, zone
// and region; our pod corresponds to the zone.
var affinity = [Tiers]float64{1.00, 0.20, 0.05, 0.02}

func (p *llmd) Name() string { return p.name }

func (p *llmd) Pick(r *Request, s *State) (Decision, bool) {
	if !s.open(r) {
		return Decision{}, false
	}
	low, high, any := s.span(r, func(l *load) int { return l.queued })
	if !any {
		return Decision{}, false
	}
	for d := range s.loads {
		if _, ok := s.feasible(r, d); !ok {
			continue
		}
		queue := 1.0 // queue-scorer: (max-q)/(max-min), 1 for all when they are equal
		if high > low {
			queue = float64(high-s.loads[d].queued) / float64(high-low)
		}
		score := p.prefix*s.prefixScore(r, d) + p.queue*queue
		if p.memory != 0 { // 1 - KV usage
			score += p.memory * float64(s.loads[d].free) / float64(s.o.MemoryBytes)
		}
		if p.proximity != 0 {
			score += p.proximity * affinity[s.tier(r.Prefill, d)]
		}
		s.scratch.offer(d, -score)
	}
	return s.decide(r)
}

// span returns the smallest and largest value among the feasible.
func (s *State) span(r *Request, value func(*load) int) (low, high int, any bool) {
	for d := range s.loads {
		if _, ok := s.feasible(r, d); !ok {
			continue
		}
		v := value(&s.loads[d])
		if !any {
			low, high, any = v, v, true
		}
		low, high = min(low, v), max(high, v)
	}
	return low, high, any
}

// Thresholds of SGLang's model gateway as its command line sets them.
const (
	sglangMatch    = 0.3 // match rate above which the cache decides
	sglangAbsolute = 64  // requests between the most and the least loaded ...
	sglangRelative = 1.5 // ... and their ratio, above which load decides
)

// sglang is the cache_aware policy of SGLang's model gateway: when the pool is
// out of balance, or no instance holds more than 30% of the prompt, the fewest
// requests; otherwise the longest match. Its match rate is of characters, ours
// of tokens. It takes the first among equals; here the request's draw decides,
// as for every policy.
type sglang struct{}

func (*sglang) Name() string { return "sglang" }

func (*sglang) Pick(r *Request, s *State) (Decision, bool) {
	if !s.open(r) {
		return Decision{}, false
	}
	low, high, any := s.span(r, func(l *load) int { return l.queued + l.batch })
	if !any {
		return Decision{}, false
	}
	longest := 0
	for d := range s.loads {
		if hit, ok := s.feasible(r, d); ok {
			longest = max(longest, hit)
		}
	}
	imbalanced := high-low > sglangAbsolute && float64(high) > sglangRelative*float64(low)
	byCache := !imbalanced && float64(longest)/float64(r.PromptTokens) > sglangMatch
	for d := range s.loads {
		hit, ok := s.feasible(r, d)
		switch {
		case !ok:
		case byCache:
			s.scratch.offer(d, -float64(hit))
		default:
			s.scratch.offer(d, float64(s.active(d)))
		}
	}
	return s.decide(r)
}
