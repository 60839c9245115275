package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/kvagent"
	"github.com/netkvlab/netkvlab/nodes"
	"github.com/netkvlab/netkvlab/scenarios"
)

// Options are common to all operations on labs.
type Options struct {
	Store    Store
	Runtime  nodes.Runtime
	Progress *Progress
	Version  string
	// Containers are those of this host's engine, for labs of any process; nil means none.
	Containers Containers
	// ContainersOf returns those of the engine at an address: a lab may have been made with another
	// engine than the current one (sudo drops DOCKER_HOST). Nil means that there is no other.
	ContainersOf func(host string) Containers
	// Executable is the static binary of this program, which agents run.
	Executable string
	// Leash makes agents end with this process. Without it a lab can outlive the process.
	Leash bool

	group string  // State.Group of the new lab
	asked *asking // processes that were asked to end; nil: none yet
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
	lock  *lock
	state *State
}

// Name is the lab's name.
func (l *Lab) Name() string { return l.Scenario.Name }

// teardownTimeout bounds the clean-up after a failure or an interruption.
const teardownTimeout = 30 * time.Second

// Build builds a cluster's lab with an agent on each instance; packetworld configures the
// agents. If anything fails, or the context ends, Build removes what it has made before it
// returns.
func Build(ctx context.Context, c *trials.Cluster, opt Options) (_ *Lab, err error) {
	if err := Preflight(ctx, c, opt); err != nil {
		return nil, err
	}
	if err := kernel.CheckMounts(); err != nil {
		return nil, err
	}
	l := &Lab{Cluster: c, opt: opt}
	if err := l.claim(ctx); err != nil {
		return nil, err
	}
	if err := l.prepare(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.undo(ctx))
		}
	}()
	if err := l.raise(ctx); err != nil {
		return nil, err
	}
	if err := l.connect(ctx); err != nil {
		return nil, err
	}
	return l, l.setPhase(PhaseReady)
}

// raise makes fabric and agents: the fabric first, unless agents come with their namespaces.
func (l *Lab) raise(ctx context.Context) error {
	housing, ok := l.opt.Runtime.(nodes.Housing)
	if !ok {
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
		adopt[a.ID] = housing.NetnsOf(a.Agent)
	}
	if err := l.buildFabric(ctx, adopt); err != nil {
		return errors.Join(err, l.firstDead(ctx))
	}
	return nil
}

// firstDead returns an error that names an agent that has ended, as the cause of other failures.
func (l *Lab) firstDead(ctx context.Context) error {
	for _, a := range l.Agents {
		if alive, err := l.opt.Runtime.Alive(a.Agent); err == nil && !alive {
			return fmt.Errorf("agent %s: %w; the end of its log: %s", a.Node, errDead, l.lastWords(ctx, a.Agent))
		}
	}
	return nil
}

// undo removes a partly built lab, also when the context has ended.
func (l *Lab) undo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), teardownTimeout)
	defer cancel()
	_, err := l.Remove(ctx)
	return err
}

// claim makes the lab's folder and locks it, unless such a lab exists already.
func (l *Lab) claim(ctx context.Context) error {
	store, name := l.opt.Store, l.Name()
	lk, err := store.tryLock(name, true)
	if err != nil {
		return err
	}
	if _, err := os.Stat(store.state(name)); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(alreadyUp(ctx, name, l.opt), lk.release())
	}
	// Do not take over a lab that lost its folder: a later failure here would remove it.
	if standing, err := kernel.Namespaces(name); err != nil || len(standing) > 0 {
		if err == nil {
			err = fmt.Errorf("lab %q has no state, but %d namespaces: remove it with `netkvlab down %s`", name, len(standing), name)
		}
		return errors.Join(err, store.removeDir(name), lk.release())
	}
	if n, err := l.opt.containers(ctx, name); err != nil || n > 0 {
		if err == nil {
			err = fmt.Errorf("lab %q has no state, but %d containers: remove it with `netkvlab down %s`", name, n, name)
		}
		return errors.Join(err, store.removeDir(name), lk.release())
	}
	l.lock = lk
	text, err := l.Scenario.Marshal()
	if err == nil {
		err = renameio.WriteFile(store.scenario(name), text, 0o600)
	}
	if err == nil && l.opt.Runtime.Name() == scenarios.RuntimeDocker && l.opt.Containers != nil {
		err = renameio.WriteFile(store.engine(name), []byte(l.opt.Containers.Host()+"\n"), 0o600)
	}
	if err == nil {
		l.state = &State{
			Format: stateFormat, Lab: name, Version: l.opt.Version, Created: time.Now().UTC(),
			Phase: PhaseBuilding, Group: l.opt.group, Runtime: l.opt.Runtime.Name(), Owner: self(), Agents: []nodes.Agent{},
		}
		err = store.save(l.state)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write down lab %q: %w", name, err), store.removeDir(name), lk.release())
	}
	return nil
}

// prepare checks that a runtime with its own namespaces can start agents. If it cannot, only the
// claim has to be undone.
func (l *Lab) prepare(ctx context.Context) error {
	housing, ok := l.opt.Runtime.(nodes.Housing)
	if !ok {
		return nil
	}
	l.opt.Progress.Phase("making sure of the engine and the agents' image")
	err := housing.Prepare(ctx, l.specs(l.agentNodes()))
	if err != nil {
		err = errors.Join(err, l.opt.Store.removeDir(l.Name()), l.lock.release())
	}
	return err
}

// alreadyUp describes the lab that already exists, and what the user can do about it.
func alreadyUp(ctx context.Context, name string, opt Options) error {
	info, err := Look(ctx, name, opt)
	switch {
	case err != nil:
		return fmt.Errorf("there is a lab %q already: %w", name, err)
	case info.Status == statusDamaged:
		return &DamagedError{Lab: name, Parts: info.Damage}
	case len(info.Damage) > 0:
		return fmt.Errorf("there is a lab %q already, of no use: %s", name, strings.Join(info.Damage, "; "))
	}
	return fmt.Errorf("lab %q is already up (%s since %s): run its experiment with `netkvlab run %s`, look at it with `netkvlab inspect %s`, or remove it with `netkvlab down %s`",
		name, info.Status, info.Since(), name, name, name)
}

func (l *Lab) setPhase(p Phase) error {
	l.state.Phase = p
	return l.opt.Store.save(l.state)
}

func (l *Lab) buildFabric(ctx context.Context, adopt map[fabric.NodeID]string) error {
	l.opt.Progress.Phase("building %s: %d namespaces, %d links", l.Name(), len(l.Plan.Nodes), len(l.Plan.Links))
	fab, err := kernel.Apply(ctx, l.Name(), l.Plan, kernel.Options{
		Journal: func(names []string) error { return l.opt.Store.writeJournal(l.Name(), names) },
		Adopt:   adopt,
	})
	if err != nil {
		return err
	}
	l.Fabric = fab
	l.opt.Progress.Phase("verifying %s against its plan", l.Name())
	if err := fab.Verify(ctx); err != nil {
		return fmt.Errorf("the kernel does not hold what was planned for %s: %w", l.Name(), err)
	}
	return nil
}

// Detach releases the lab and leaves it running.
func (l *Lab) Detach() error {
	l.state.Owner = Process{}
	err := l.setPhase(PhaseReady)
	return errors.Join(err, l.close())
}

// close closes connections and handles; the lab itself stays.
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
	l.Agents, l.Fabric = nil, nil
	if l.lock != nil {
		errs = append(errs, l.lock.release())
		l.lock = nil
	}
	return errors.Join(errs...)
}
