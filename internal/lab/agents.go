package lab

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/kvagent"
	"github.com/netkvlab/netkvlab/nodes"
)

// answerWithin bounds how long a new agent may take to answer.
const answerWithin = 10 * time.Second

// fewAgents is the largest number of agents in a lab that get a second thread. With more agents,
// each moves little and waits much, and waking the second thread costs: 256 agents, woken ten
// times per second, took 0.15 cores with one thread each and 0.23 with two.
const fewAgents = 32

// agentNodes lists the nodes that run an agent: everything that is not a switch.
// Idle instances only matter to explicit flows.
func agentNodes(c *trials.Cluster) []*fabric.Node {
	var out []*fabric.Node
	for i := range c.Plan.Nodes {
		n := &c.Plan.Nodes[i]
		instance := n.Kind == fabric.KindInstance && (n.Role != fabric.RoleNone || c.Flows())
		if instance || n.Kind == fabric.KindBackground {
			out = append(out, n)
		}
	}
	return out
}

func (l *Lab) startAgents(ctx context.Context) error {
	members := agentNodes(l.Cluster)
	l.opt.Progress.Phase("starting %d agents (%s)", len(members), l.opt.Runtime.Name())
	l.Agents = make([]Agent, len(members))
	specs := l.specs(members)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, n := range members {
		g.Go(func() error {
			a, err := l.opt.Runtime.Start(ctx, specs[i])
			if err != nil {
				return fmt.Errorf("start the agent of %s: %w", n.Name, err)
			}
			l.Agents[i] = Agent{Agent: a, ID: n.ID}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, a := range l.Agents {
		l.state.Agents = append(l.state.Agents, a.Agent)
	}
	return l.opt.Store.save(l.state)
}

// specs returns how the agents of the given nodes are started.
func (l *Lab) specs(members []*fabric.Node) []nodes.Spec {
	common := nodes.Spec{
		Lab: l.Name(), Executable: l.opt.Executable, Leash: l.opt.Leash,
		NetAdmin: !host.AnyUsersCongestionControl(l.Scenario.Transfer.CongestionControl),
	}
	if len(members) > fewAgents {
		common.Threads = 1
	}
	out := make([]nodes.Spec, len(members))
	for i, n := range members {
		s := common
		s.Node, s.Dir = n.Name, l.opt.Store.agentDir(l.Name(), n.Name)
		if l.Fabric != nil {
			s.Netns = l.Fabric.NetnsPath(n.ID)
		}
		if n.Kind != fabric.KindBackground { // background traffic comes from our own agent, not from the user's
			s.Image = l.Scenario.Nodes.Image
		}
		out[i] = s
	}
	return out
}

// connect dials every agent and checks that it speaks our protocol.
func (l *Lab) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for i := range l.Agents {
		g.Go(func() (err error) {
			l.Agents[i].Client, err = l.dial(ctx, l.Agents[i].Agent)
			return err
		})
	}
	return g.Wait()
}

// errDead means that an agent ended before it answered.
var errDead = errors.New("it ended before it answered")

// dial connects to one agent, and gives up as soon as the agent has died.
func (l *Lab) dial(ctx context.Context, a nodes.Agent) (*kvagent.Client, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { cancelWhenDead(ctx, cancel, a) })
	c, err := kvagent.Dial(ctx, a.Socket)
	cause := context.Cause(ctx)
	cancel(nil)
	watch.Wait()
	if err == nil {
		return c, nil
	}
	if errors.Is(cause, errDead) {
		err = cause
	}
	return nil, l.agentError(ctx, a, err)
}

func cancelWhenDead(ctx context.Context, cancel context.CancelCauseFunc, a nodes.Agent) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if isDead(a) {
				cancel(errDead)
				return
			}
		}
	}
}

// isDead reports whether an agent was started and has ended.
func isDead(a nodes.Agent) bool {
	alive, err := nodes.Alive(a)
	return a.PID != 0 && err == nil && !alive
}

// dead lists the agents that have ended.
func (l *Lab) dead() (dead []nodes.Agent) {
	for _, a := range l.Agents {
		if isDead(a.Agent) {
			dead = append(dead, a.Agent)
		}
	}
	return dead
}

func (l *Lab) agentError(ctx context.Context, a nodes.Agent, err error) error {
	return fmt.Errorf("agent %s: %w; the end of its log: %s", a.Node, err, l.logTail(ctx, a))
}

// logTail is the end of an agent's log, also when the context has ended.
func (l *Lab) logTail(ctx context.Context, a nodes.Agent) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return l.opt.Runtime.LogTail(ctx, a)
}
