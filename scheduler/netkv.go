package scheduler

// Awareness is how much of the network the NetKV cost uses: the steps of the notes' ablation
// (section 5, Table IV).
type Awareness uint8

// The steps, each with those before it.
const (
	// TierMap: static bandwidth and latency of the tier; c = 0, n = 0.
	TierMap Awareness = iota
	// SelfContention: also the prefill's own transfers in flight; c = 0.
	SelfContention
	// Congestion: also the measured congestion. This is Algorithm 1.
	Congestion
)

// Terms is the cost of Algorithm 1 for one candidate, term by term.
type Terms struct {
	Tier int
	// HitTokens is lambda (line 5), PayloadBytes s_eff = s_r (1 - lambda/l) (line 6).
	HitTokens    int
	PayloadBytes int64
	// BytesPerSecond is B_eff = B (1-c) / (1 + min(n, cap)) (line 4, Eq. 4).
	BytesPerSecond float64
	// Transfer, Queue and Decode are lines 7 to 9 in seconds; their sum is C(d).
	Transfer, Queue, Decode float64
}

// Cost is C(d) in seconds (line 10, Eq. 5).
func (t Terms) Cost() float64 { return t.Transfer + t.Queue + t.Decode }

// Estimate returns the terms for one candidate, to explain a decision. It does not check
// feasibility. False: an index or the request is out of range.
func (s *State) Estimate(r *Request, decode int, a Awareness) (Terms, bool) {
	if !s.has(decode) || !s.o.inRange(r) {
		return Terms{}, false
	}
	hit, tier := s.HitTokens(r, decode), s.o.tier(r.Prefill, decode)
	b := s.bandwidth(r.Prefill, tier, a)
	t := Terms{Tier: tier, HitTokens: hit, PayloadBytes: int64(r.PromptTokens-hit) * s.o.KVBytesPerToken, BytesPerSecond: b}
	t.Transfer, t.Queue, t.Decode = s.terms(r, decode, hit, b, s.o.Oracle.Latency[tier].Seconds())
	return t, true
}

// bandwidth is line 4.
func (s *State) bandwidth(prefill, tier int, a Awareness) float64 {
	b := s.o.Oracle.BytesPerSecond[tier]
	if a >= Congestion {
		b *= 1 - s.o.Oracle.Congestion[tier]
	}
	if a >= SelfContention && s.o.Separation {
		b /= float64(1 + min(int(s.inFlight[prefill*Tiers+tier]), s.o.InFlightCap))
	}
	return b
}

// terms are lines 7 to 9. The payload is integer arithmetic of the same s_r (1 - lambda/l), so that
// a full hit is exactly 0.
func (s *State) terms(r *Request, d, hit int, bandwidth, latency float64) (transfer, queue, decode float64) {
	l := &s.loads[d]
	transfer = float64(int64(r.PromptTokens-hit)*s.o.KVBytesPerToken)/bandwidth + latency
	if over := l.queued - (s.o.MaxBatch - l.batch); over > 0 {
		queue = float64(over) * s.o.iteration(l.batch, l.context)
	}
	decode = s.o.iteration(l.batch+1, l.context+int64(r.PromptTokens))
	return transfer, queue, decode
}

// pick is Algorithm 1 of the notes, or a step of its ablation.
func (a Awareness) pick(r *Request, s *State) (Decision, bool) {
	var bandwidth, latency [Tiers]float64 // the parts that depend on the tier alone
	for t := range Tiers {
		bandwidth[t] = s.bandwidth(r.Prefill, t, a)
		latency[t] = s.o.Oracle.Latency[t].Seconds()
	}
	tiers := s.o.Oracle.Tier[r.Prefill*s.o.Decodes:][:s.o.Decodes]
	for d, tier := range tiers {
		if hit, ok := s.feasible(r, d); ok {
			transfer, queue, decode := s.terms(r, d, hit, bandwidth[tier], latency[tier])
			s.scratch.offer(d, transfer+queue+decode)
		}
	}
	return s.decide(r)
}
