package scheduler

import "math"

// chooser keeps the candidates of lowest cost while a policy walks the pool once.
type chooser struct {
	best float64
	ties []int32
}

func (c *chooser) reset() {
	c.best = math.Inf(1)
	c.ties = c.ties[:0]
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

// maxTokens bounds the prompt and the output of a request, so
// no product of tokens and bytes wraps.
const maxTokens = math.MaxInt32 / 2

// open matches the prompt against the prefix index and clears the chooser.
// False: the request itself is out of range, and there is nothing to choose.
func (s *State) open(r *Request) bool {
	if !s.inRange(r) {
		return false
	}
	s.prefix.match(r.Blocks, s.depth)
	s.scratch.reset()
	return true
}

func (s *State) inRange(r *Request) bool {
	return s.hasPrefill(r.Prefill) && r.PromptTokens >= 1 && r.PromptTokens <= maxTokens && r.OutputTokens <= maxTokens
}

// feasible is line 1 of Algorithm 1, m_d >= s_eff(d) + m_min, with the output's
// KV cache added to s_eff, because an engine reserves both at once. hit is lambda.
// Held blocks count as present though they may be evictable and so part of
// m_d: the engine knows this and makes the final decision.
func (s *State) feasible(r *Request, d int) (hit int, ok bool) {
	l := &s.loads[d]
	hit = s.tokens(r, int(s.depth[d]))
	return hit, !l.dead && l.free >= s.need(r, hit)+s.o.MinFreeBytes
}

// decide picks uniformly among equal candidates by the request's own draw.
func (s *State) decide(r *Request) (Decision, bool) {
	k := uint64(len(s.scratch.ties))
	if k == 0 {
		return Decision{}, false
	}
	d := int(s.scratch.ties[r.TieBreak%k])
	return s.decision(r, d, s.scratch.best), true
}

func (s *State) decision(r *Request, d int, cost float64) Decision {
	return Decision{Decode: d, Tier: s.tier(r.Prefill, d), HitTokens: s.tokens(r, int(s.depth[d])), Cost: cost}
}

func (s *State) tier(prefill, decode int) int {
	return int(s.o.Oracle.Tier[prefill*s.o.Decodes+decode])
}
