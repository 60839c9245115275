package scheduler

// byCost is a policy that walks the feasible instances once and takes the lowest cost.
type byCost struct {
	name string
	cost func(s *State, r *Request, d, hit int) float64
}

func (p *byCost) Name() string { return p.name }

func (p *byCost) Pick(r *Request, s *State) (Decision, bool) {
	if !s.open(r) {
		return Decision{}, false
	}
	for d := range s.loads {
		if hit, ok := s.feasible(r, d); ok {
			s.scratch.offer(d, p.cost(s, r, d, hit))
		}
	}
	return s.decide(r)
}

// random gives all feasible instances the same cost, so the request's draw decides.
func random(*State, *Request, int, int) float64 { return 0 }

// leastLoaded counts the requests that an instance has, assigned or in its
// batch: the order of llm-d's active-request-scorer. It equals llm-d's
// queue-scorer where batches are equal.
func leastLoaded(s *State, _ *Request, d, _ int) float64 { return float64(s.active(d)) }

// cacheAware is llm-d's prefix-cache-scorer alone: matched blocks / blocks of the prompt.
func cacheAware(s *State, r *Request, d, _ int) float64 { return -s.prefixScore(r, d) }

// decodeBlocks is the decode router of Dynamo: the fewest active decode blocks,
// with no credit for prefixes. The request's own blocks are the same everywhere.
func decodeBlocks(s *State, _ *Request, d, _ int) float64 { return float64(s.loads[d].blocks) }

// cacheLoad weighs cache against load: the score is
// cacheWeight x lambda/l - loadWeight x (q_d + beta_d)/beta_max.
func cacheLoad(cacheWeight, loadWeight float64) func(*State, *Request, int, int) float64 {
	return func(s *State, r *Request, d, hit int) float64 {
		return loadWeight*float64(s.active(d))/float64(s.o.MaxBatch) - cacheWeight*float64(hit)/float64(r.PromptTokens)
	}
}

// active returns q_d + beta_d.
func (s *State) active(d int) int { return s.loads[d].queued + s.loads[d].batch }

// prefixScore returns matched blocks / blocks of the prompt, 0 without blocks.
func (s *State) prefixScore(r *Request, d int) float64 {
	if len(r.Blocks) == 0 {
		return 0
	}
	return float64(s.depth[d]) / float64(len(r.Blocks))
}

// roundRobin takes the feasible instances in turn.
type roundRobin struct{ next int }

func (*roundRobin) Name() string { return "rr" }

func (p *roundRobin) Pick(r *Request, s *State) (Decision, bool) {
	if !s.open(r) {
		return Decision{}, false
	}
	for i := range s.o.Decodes {
		d := (p.next + i) % s.o.Decodes
		if _, ok := s.feasible(r, d); ok {
			p.next = (d + 1) % s.o.Decodes
			return s.decision(r, d, 0), true
		}
	}
	return Decision{}, false
}
