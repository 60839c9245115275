package experiment

import (
	"context"
	"fmt"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/packet"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
)

// sessions are the open ends to all agents of a trial.
type sessions struct {
	epoch      int64
	members    []packet.Member
	background []packet.Session
}

// open starts a session with every agent; prefill and decode are the indices of those
// that take part as one or the other.
func (r *run) open(ctx context.Context, prefill, decode map[fabric.NodeID]int) (_ *sessions, err error) {
	s := &sessions{epoch: packet.Epoch(len(r.lab.Agents))}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	for i := range r.lab.Agents {
		a := &r.lab.Agents[i]
		// The trial's context must not end the sessions: after an interruption they
		// are closed in order, with what they still have to say.
		session, err := a.Client.Session(context.WithoutCancel(ctx), s.epoch)
		if err != nil {
			return s, fmt.Errorf("open a session with agent %s: %w", a.Node, err)
		}
		m := packet.Member{Node: a.Node, Prefill: at(prefill, a.ID), Decode: at(decode, a.ID), Session: session}
		s.members = append(s.members, m)
		if r.plan.Nodes[a.ID].Kind == fabric.KindBackground {
			s.background = append(s.background, session)
		}
	}
	return s, nil
}

// members are the indices of a trial's instances.
func (r *run) members() (prefill, decode map[fabric.NodeID]int) {
	if r.flows() {
		all := index(trials.Endpoints(r.plan))
		return all, all
	}
	return index(r.plan.Prefill), index(r.plan.Decode)
}

// close ends all sessions and names the agents that did not end theirs in order:
// they are dead or hang.
func (s *sessions) close() (lost []string) {
	for _, m := range s.members {
		if err := m.Session.Close(); err != nil {
			lost = append(lost, fmt.Sprintf("agent %s (%v)", m.Node, err))
		}
	}
	return lost
}

func index(ids []fabric.NodeID) map[fabric.NodeID]int {
	m := make(map[fabric.NodeID]int, len(ids))
	for i, id := range ids {
		m[id] = i
	}
	return m
}

func at(m map[fabric.NodeID]int, id fabric.NodeID) int {
	if i, ok := m[id]; ok {
		return i
	}
	return -1
}

// received sums the payload bytes that all agents have counted in.
func (r *run) received(ctx context.Context) (map[string]int64, error) {
	in := map[string]int64{}
	for i := range r.lab.Agents {
		a := &r.lab.Agents[i]
		st, err := a.Client.Status(ctx)
		if err != nil {
			return nil, fmt.Errorf("ask agent %s for its status: %w", a.Node, err)
		}
		in[a.Node] = st.GetBytesIn()
	}
	return in, nil
}

// audit compares a finished trial with what the agents say is left of it: bytes in
// must be bytes recorded, and nothing may still be held.
func (r *run) audit(ctx context.Context, name string, records []results.Record, before map[string]int64) error {
	want := map[string]int64{}
	failed := false
	for i := range records {
		want[records[i].Decode] += records[i].MovedBytesEmulated
		failed = failed || records[i].Status != results.Completed || records[i].WastedBytesEmulated > 0
	}
	for i := range r.lab.Agents {
		a := &r.lab.Agents[i]
		st, err := a.Client.Status(ctx)
		if err != nil {
			// An agent that died was reported by its trial; the others go on.
			r.fault("%s: agent %s did not answer afterwards: %v", name, a.Node, err)
			continue
		}
		if got := st.GetBytesIn() - before[a.Node]; !failed && got != want[a.Node] {
			r.fault("%s: %s counted %d bytes in, the records say %d", name, a.Node, got, want[a.Node])
		}
		if n := st.GetTransfersIn() + st.GetTransfersOut() + st.GetReservations(); n != 0 {
			r.fault("%s: %s still holds %d transfers and reservations", name, a.Node, n)
		}
		r.agent(a.Node, st)
	}
	return nil
}
