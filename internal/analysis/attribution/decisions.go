package attribution

import (
	"math/rand/v2"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/scheduler"
)

// repeated is a policy that repeats the decisions of another run. Requests that have
// none there are left to the policy in whose place it stands.
type repeated struct {
	plan   *fabric.Plan
	own    scheduler.Policy
	choice map[uint64]int // decode instance by the request's tie-break draw
}

// newRepeated reads the decisions out of one trial's records. A request is known by its
// own draw, the one thing in a decision's input that is its alone.
func newRepeated(plan *fabric.Plan, own scheduler.Policy, requests []workload.Request, records []results.Record) *repeated {
	index := make(map[string]int, len(plan.Decode))
	for i, id := range plan.Decode {
		index[plan.Nodes[id].Name] = i
	}
	s := &repeated{plan: plan, own: own, choice: make(map[uint64]int, len(records))}
	for i := range records {
		r := &records[i]
		d, ok := index[r.Decode]
		if ok && r.ID >= 0 && r.ID < len(requests) {
			s.choice[requests[r.ID].TieBreak] = d
		}
	}
	return s
}

// Name implements scheduler.Policy.
func (s *repeated) Name() string { return s.own.Name() }

// Pick implements scheduler.Policy. Where nobody is feasible nobody is chosen, as in
// any run; an instance without room refuses the reservation, and the request waits.
func (s *repeated) Pick(r *scheduler.Request, st *scheduler.State) (scheduler.Decision, bool) {
	d, ok := s.own.Pick(r, st) // also where its choice is not taken: it may count its decisions
	if !ok {
		return d, false
	}
	chosen, known := s.choice[r.TieBreak]
	if !known || chosen == d.Decode {
		return d, true
	}
	if !st.Alive(chosen) {
		return scheduler.Decision{}, false
	}
	return scheduler.Decision{
		Decode: chosen, Tier: s.plan.Tier(s.plan.Prefill[r.Prefill], s.plan.Decode[chosen]), HitTokens: st.HitTokens(r, chosen),
	}, true
}

// otherDraws is a policy with other tie-break draws than the requests' own: where it breaks
// ties, and everywhere that follows from the first one, it decides otherwise and as
// well. The prefill instance, which is chosen by the same draw, stays what it was.
type otherDraws struct {
	own  scheduler.Policy
	salt uint64
}

// Name implements scheduler.Policy.
func (o *otherDraws) Name() string { return o.own.Name() }

// Pick implements scheduler.Policy.
func (o *otherDraws) Pick(r *scheduler.Request, st *scheduler.State) (scheduler.Decision, bool) {
	other := *r
	other.TieBreak = rand.NewPCG(r.TieBreak, o.salt).Uint64()
	return o.own.Pick(&other, st)
}
