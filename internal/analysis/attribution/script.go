package attribution

import (
	"math/rand/v2"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/scheduler"
)

// script is a policy that repeats the decisions of another run. Requests that have
// none there are left to the policy in whose place it stands.
type script struct {
	plan   *fabric.Plan
	own    scheduler.Policy
	choice map[uint64]int // decode instance by the request's tie-break draw
}

// newScript reads the decisions out of one trial's records. A request is known by its
// own draw, the one thing in a decision's input that is its alone.
func newScript(plan *fabric.Plan, own scheduler.Policy, requests []workload.Request, records []results.Record) *script {
	index := make(map[string]int, len(plan.Decode))
	for i, id := range plan.Decode {
		index[plan.Nodes[id].Name] = i
	}
	s := &script{plan: plan, own: own, choice: make(map[uint64]int, len(records))}
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
func (s *script) Name() string { return s.own.Name() }

// Pick implements scheduler.Policy. Where nobody is feasible nobody is chosen, as in
// any run; a chosen one without room refuses the reservation, and the request waits.
func (s *script) Pick(r *scheduler.Request, st *scheduler.State) (scheduler.Decision, bool) {
	d, ok := s.own.Pick(r, st) // also where it is overruled: it may count its turns
	if !ok {
		return d, false
	}
	told, known := s.choice[r.TieBreak]
	if !known || told == d.Decode {
		return d, true
	}
	if !st.Alive(told) {
		return scheduler.Decision{}, false
	}
	return scheduler.Decision{
		Decode: told, Tier: s.plan.Tier(s.plan.Prefill[r.Prefill], s.plan.Decode[told]), HitTokens: st.HitTokens(r, told),
	}, true
}

// otherLuck is a policy with other tie-break draws than the requests' own: where it breaks
// ties, and everywhere that follows from the first one, it decides otherwise and as
// well. The prefill instance, which is chosen by the same draw, stays what it was.
type otherLuck struct {
	own  scheduler.Policy
	salt uint64
}

// Name implements scheduler.Policy.
func (l *otherLuck) Name() string { return l.own.Name() }

// Pick implements scheduler.Policy.
func (l *otherLuck) Pick(r *scheduler.Request, st *scheduler.State) (scheduler.Decision, bool) {
	other := *r
	other.TieBreak = rand.NewPCG(r.TieBreak, l.salt).Uint64()
	return l.own.Pick(&other, st)
}
