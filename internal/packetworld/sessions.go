package packetworld

import (
	"context"
	"fmt"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/trials"
)

// sessions are the open sessions with all agents of a trial.
type sessions struct {
	epoch      int64
	members    []Member
	background []Session
}

// indices are the instances of a trial by node.
type indices struct{ prefill, decode map[fabric.NodeID]int }

// instances are those of the cluster's own trials.
func (w *World) instances() indices {
	if w.cluster.Flows() {
		return w.endpoints()
	}
	return indices{index(w.cluster.Plan.Prefill), index(w.cluster.Plan.Decode)}
}

// endpoints are all instances, as ends of explicit transfers.
func (w *World) endpoints() indices {
	all := index(trials.Endpoints(w.cluster.Plan))
	return indices{all, all}
}

// open starts a session with every agent.
func (w *World) open(ctx context.Context, in indices) (_ *sessions, err error) {
	s := &sessions{epoch: Epoch(len(w.lab.Agents))}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	for i := range w.lab.Agents {
		a := &w.lab.Agents[i]
		// The trial's context must not end the sessions: after an interruption they are
		// closed in order, after their last events.
		session, err := a.Client.Session(context.WithoutCancel(ctx), s.epoch)
		if err != nil {
			return s, fmt.Errorf("open a session with agent %s: %w", a.Node, err)
		}
		m := Member{Node: a.Node, Prefill: at(in.prefill, a.ID), Decode: at(in.decode, a.ID), Session: session}
		s.members = append(s.members, m)
		if w.cluster.Plan.Nodes[a.ID].Kind == fabric.KindBackground {
			s.background = append(s.background, session)
		}
	}
	return s, nil
}

// close ends all sessions and names the agents that did not end theirs in order: these are
// dead or hang.
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
