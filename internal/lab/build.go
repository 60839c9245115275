// Package lab manages labs on this host: it builds the fabric, starts the agents, and leaves the
// lab running or removes it.
//
// Every lab has a folder under /run/netkvlab with its resolved scenario, its state, a journal of
// the namespaces to make, and its agents' private run directories. A process that works on a lab
// holds a lock on that folder, which the kernel releases when the process dies. Removal uses
// marks in the kernel and the processes in the lab's namespaces. The folder only helps, so
// removal also works when it is damaged or missing. Start reading at Build, then remove.go.
package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sync/errgroup"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/kvagent"
	"github.com/netkvlab/netkvlab/nodes"
	"github.com/netkvlab/netkvlab/nodes/docker"
	"github.com/netkvlab/netkvlab/scenarios"
)

// Options are common to all operations on labs.
type Options struct {
	Store    Store
	Runtime  nodes.Runtime
	Progress *Progress
	Version  string
	// Engine is this host's, for the containers of labs of any process. A lab may have been made
	// with another engine than this one (sudo drops DOCKER_HOST), which is then used as well.
	Engine *docker.Engine
	// Executable is the static binary of this program, which agents run.
	Executable string
	// Leash makes agents end with this process. Without it a lab can outlive the process.
	Leash bool

	group string // State.Group of the new lab
	asked asked  // processes that were asked to end
}

// Agent is one running agent and the connection to it.
type Agent struct {
	nodes.Agent
	ID     fabric.NodeID
	Client *kvagent.Client
}

// Lab is a lab that this process has locked.
type Lab struct {
	*trials.Cluster // the scenario as resolved, and its plan
	Fabric          *kernel.Fabric
	Agents          []Agent

	opt   Options
	lock  *os.File
	state *State
}

// Name is the lab's name.
func (l *Lab) Name() string { return l.Scenario.Name }

// Build builds a cluster's lab with an agent on each instance; packetworld configures the
// agents. If anything fails, or the context ends, Build removes what it has made before it
// returns.
func Build(ctx context.Context, c *trials.Cluster, opt Options) (_ *Lab, err error) {
	if err := preflight(ctx, c); err != nil {
		return nil, err
	}
	l := &Lab{Cluster: c, opt: opt}
	if err := l.claim(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, RemoveGroup(ctx, []*Lab{l}))
		}
	}()
	if err := l.raise(ctx); err != nil {
		return nil, err
	}
	if err := l.connect(ctx); err != nil {
		return nil, err
	}
	if err := l.record(PhaseReady, l.state.Owner); err != nil {
		return nil, err
	}
	return l, nil
}

// claim makes the lab's folder and locks it, unless such a lab exists already. A runtime with
// its own namespaces then checks that it can start agents. After an error nothing is left.
func (l *Lab) claim(ctx context.Context) (err error) {
	store, name := l.opt.Store, l.Name()
	if l.lock, err = store.tryLock(name, true); err != nil {
		return err
	}
	if _, err := os.Stat(store.state(name)); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(alreadyUp(ctx, name, l.opt), l.lock.Close())
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, store.removeDir(name), l.lock.Close())
		}
	}()
	if err := checkUnused(ctx, name, l.opt); err != nil {
		return err
	}
	if err := l.writeDown(); err != nil {
		return fmt.Errorf("write down lab %q: %w", name, err)
	}
	if housing, ok := l.opt.Runtime.(nodes.Housing); ok {
		l.opt.Progress.Phase("making sure of the engine and the agents' image")
		return housing.Prepare(ctx, l.specs(agentNodes(l.Cluster)))
	}
	return nil
}

// checkUnused refuses to take over a lab that lost its folder: a later failure would remove it.
func checkUnused(ctx context.Context, name string, opt Options) error {
	standing, err := kernel.Namespaces(name)
	if err != nil {
		return err
	}
	if len(standing) > 0 {
		return fmt.Errorf("lab %q has no state, but %d namespaces: remove it with `netkvlab down %s`", name, len(standing), name)
	}
	n, err := opt.containers(ctx, name)
	if err == nil && n > 0 {
		err = fmt.Errorf("lab %q has no state, but %d containers: remove it with `netkvlab down %s`", name, n, name)
	}
	return err
}

// writeDown writes all that a later process needs to use or to remove the lab.
func (l *Lab) writeDown() error {
	store, name, rt := l.opt.Store, l.Name(), l.opt.Runtime.Name()
	text, err := l.Scenario.Marshal()
	if err == nil {
		err = renameio.WriteFile(store.scenario(name), text, 0o600)
	}
	if err == nil && rt == scenarios.RuntimeDocker {
		err = renameio.WriteFile(store.engine(name), []byte(l.opt.Engine.Host()+"\n"), 0o600)
	}
	if err != nil {
		return err
	}
	l.state = &State{
		Format: stateFormat, Lab: name, Version: l.opt.Version, Created: time.Now().UTC(),
		Phase: PhaseBuilding, Group: l.opt.group, Runtime: rt, Owner: self(), Agents: []nodes.Agent{},
	}
	return store.save(l.state)
}

// alreadyUp describes the lab that already exists, and what the user can do about it.
func alreadyUp(ctx context.Context, name string, opt Options) error {
	info, err := Look(ctx, name, opt)
	switch {
	case err != nil:
		return fmt.Errorf("there is a lab %q already: %w", name, err)
	case info.Status == statusDamaged:
		return damagedError(name, info.Damage)
	case len(info.Damage) > 0:
		return fmt.Errorf("there is a lab %q already, of no use: %s", name, strings.Join(info.Damage, "; "))
	}
	return fmt.Errorf("lab %q is already up (%s since %s): run its experiment with `netkvlab run %s`, look at it with `netkvlab inspect %s`, or remove it with `netkvlab down %s`",
		name, info.Status, info.Since(), name, name, name)
}

// raise makes fabric and agents: the fabric first, unless agents come with their namespaces.
func (l *Lab) raise(ctx context.Context) error {
	if _, ok := l.opt.Runtime.(nodes.Housing); !ok {
		if err := l.buildFabric(ctx, nil); err != nil {
			return err
		}
		return l.startAgents(ctx)
	}
	if err := l.startAgents(ctx); err != nil {
		return err
	}
	adopt := make(map[fabric.NodeID]string, len(l.Agents))
	for _, a := range l.Agents {
		adopt[a.ID] = a.Netns()
	}
	err := l.buildFabric(ctx, adopt)
	if dead := l.dead(); err != nil && len(dead) > 0 {
		err = errors.Join(err, l.agentError(ctx, dead[0], errDead)) // the cause
	}
	return err
}

func (l *Lab) buildFabric(ctx context.Context, adopt map[fabric.NodeID]string) (err error) {
	l.opt.Progress.Phase("building %s: %d namespaces, %d links", l.Name(), len(l.Plan.Nodes), len(l.Plan.Links))
	l.Fabric, err = kernel.Apply(ctx, l.Name(), l.Plan, kernel.Options{
		Journal: func(names []string) error { return l.opt.Store.writeJournal(l.Name(), names) },
		Adopt:   adopt,
	})
	if err != nil {
		return err
	}
	l.opt.Progress.Phase("verifying %s against its plan", l.Name())
	if err := l.Fabric.Verify(ctx); err != nil {
		return fmt.Errorf("the kernel does not hold what was planned for %s: %w", l.Name(), err)
	}
	return nil
}

// Attach opens an existing lab: it locks it, finds its namespaces and connects to its agents. It
// refuses a damaged lab and names what is missing.
func Attach(ctx context.Context, name string, opt Options) (_ *Lab, err error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	// Lock before reading, since another process may be about to write.
	lock, err := opt.Store.tryLock(name, false)
	if errors.Is(err, ErrNotUp) {
		return nil, fmt.Errorf("%w: `netkvlab ps` lists the labs, `netkvlab up -d` makes one", err)
	}
	if err != nil {
		return nil, err
	}
	l := &Lab{opt: opt, lock: lock}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close(), lock.Close())
		}
	}()
	if l.state, l.Cluster, err = read(opt.Store, name); err != nil {
		return nil, err
	}
	if l.state.Phase != PhaseReady {
		return nil, fmt.Errorf("lab %q was left %s: remove it with `netkvlab down %s`", name, l.state.Phase, name)
	}
	// Sign before connecting to the agents, which takes seconds if there are many: `down` must know
	// which process to interrupt.
	if err := l.record(PhaseReady, self()); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.record(PhaseReady, Process{}))
		}
	}()
	if damage := damaged(ctx, l.state, l.Plan); len(damage) > 0 {
		return nil, damagedError(name, damage)
	}
	if l.Fabric, err = kernel.Open(ctx, name, l.Plan, kernel.Options{}); err != nil {
		return nil, err
	}
	for _, a := range l.state.Agents {
		id, ok := l.Plan.Lookup(a.Node)
		if !ok {
			return nil, fmt.Errorf("lab %q has an agent on %q, which its plan does not know", name, a.Node)
		}
		l.Agents = append(l.Agents, Agent{Agent: a, ID: id})
	}
	if err := l.connect(ctx); err != nil {
		return nil, err
	}
	return l, l.record(PhaseRunning, l.state.Owner)
}

// record writes the lab's phase and the process that works on it; the zero Process means none.
func (l *Lab) record(phase Phase, owner Process) error {
	l.state.Phase, l.state.Owner = phase, owner
	return l.opt.Store.save(l.state)
}

// Detach releases the lab and leaves it running.
func (l *Lab) Detach() error {
	return errors.Join(l.record(PhaseReady, Process{}), l.close(), l.lock.Close())
}

// close closes connections and handles; the lab itself stays, and stays locked.
func (l *Lab) close() error {
	var errs []error
	for i := range l.Agents {
		if c := l.Agents[i].Client; c != nil {
			errs = append(errs, c.Close())
		}
	}
	if l.Fabric != nil {
		errs = append(errs, l.Fabric.Close())
	}
	return errors.Join(errs...)
}

// A group is several labs of one scenario that one process builds, uses and removes together:
// NAME, NAME-2, NAME-3. Each but the first has the first one's name in its state, so that `down
// NAME` finds them all. Otherwise each is a normal lab.

// memberName is the name of the n-th lab of a group, from 1.
func memberName(name string, n int) string {
	if n == 1 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, n)
}

// BuildGroup builds n labs of a scenario. If one of them fails, all are removed.
func BuildGroup(ctx context.Context, c *trials.Cluster, n int, opt Options) ([]*Lab, error) {
	s := c.Scenario
	if last := memberName(s.Name, n); !kernel.ValidLab(last) {
		return nil, trials.Invalidf("%d fabrics: %q cannot be a lab's name: give the scenario a shorter one", n, last)
	}
	if n > 1 { // a single lab reports itself what it lacks
		if room, err := RoomFor(c); err != nil {
			return nil, err
		} else if room < n {
			return nil, fmt.Errorf("%d fabrics of %s do not fit on this host (its memory, or too many queues for flows), %d do", n, s.Name, room)
		}
	}
	labs := make([]*Lab, n)
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range labs {
		g.Go(func() (err error) {
			own := opt
			if i > 0 {
				own.group = s.Name
			}
			labs[i], err = Build(inner, c.Vary(func(s *scenarios.Scenario) { s.Name = memberName(s.Name, i+1) }), own)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		labs = slices.DeleteFunc(labs, func(l *Lab) bool { return l == nil })
		return nil, errors.Join(err, RemoveGroup(ctx, labs))
	}
	return labs, nil
}
