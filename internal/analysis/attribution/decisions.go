package attribution

import (
	"math/rand/v2"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/scheduler"
)

// repeated is a policy that repeats the decisions of another run. Requests without a decision
// there are decided by the policy that it replaces.
type repeated struct {
	plan   *fabric.Plan
	own    scheduler.Policy
	choice map[uint64]int // decode instance by the request's tie-break draw
}

// newRepeated reads the decisions from one trial's records. It identifies a request by its own
// draw, the only part of a decision's input that no other request has.
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

// Pick implements scheduler.Policy. Where no instance is feasible none is chosen, as in any run.
// An instance without room refuses the reservation, and the request waits.
func (s *repeated) Pick(r *scheduler.Request, st *scheduler.State) (scheduler.Decision, bool) {
	d, ok := s.own.Pick(r, st) // called even if its choice is not used: it may count its decisions
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

// otherDraws is a policy with other tie-break draws than the requests' own. So ties, and all
// that follows from them, are decided differently but equally well. The prefill instance, which
// is chosen by the same draw, does not change.
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
