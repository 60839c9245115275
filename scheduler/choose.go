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
