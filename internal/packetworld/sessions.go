package packetworld

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/trials"
)

// sessions are the open sessions with all agents of a trial.
type sessions struct {
	epoch      int64
	members    []Member
	background []Session
}

// indices are the instances of a trial, in order.
type indices struct{ prefill, decode []fabric.NodeID }

// instances are those of the cluster's own trials.
func instances(c *trials.Cluster) indices {
	if c.Flows() {
		return endpoints(c)
	}
	return indices{c.Plan.Prefill, c.Plan.Decode}
}

// endpoints are all instances, as ends of explicit transfers.
func endpoints(c *trials.Cluster) indices {
	all := trials.Endpoints(c.Plan)
	return indices{all, all}
}

// open starts a session with every agent. Paper time begins far enough in the future to reach
// every one of them before it.
func (all *Agents) open(ctx context.Context, in indices) (_ *sessions, err error) {
	agents := all.lab.Agents
	s := &sessions{epoch: monotonic() + int64(100*time.Millisecond) + int64(len(agents))*int64(2*time.Millisecond)}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	for i := range agents {
		a := &agents[i]
		// The trial's context must not end the sessions: after an interruption they are
		// closed in order, after their last events.
		session, err := a.Client.Session(context.WithoutCancel(ctx), s.epoch)
		if err != nil {
			return s, fmt.Errorf("open a session with agent %s: %w", a.Node, err)
		}
		s.members = append(s.members, Member{
			Node: a.Node, Prefill: slices.Index(in.prefill, a.ID), Decode: slices.Index(in.decode, a.ID), Session: session,
		})
		if all.cluster.Plan.Nodes[a.ID].Kind == fabric.KindBackground {
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
