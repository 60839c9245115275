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

// Options are what every operation on labs needs.
type Options struct {
	Store    Store
	Runtime  nodes.Runtime
	Progress *Progress
	Version  string
	// Containers are those of this host's engine, for removing and listing labs whoever
	// made them; nil: there are none.
	Containers Containers
	// ContainersOf gives those of another engine, by its address: a lab may have been made
	// with another one than is named now (sudo drops DOCKER_HOST). Nil: there is no other.
	ContainersOf func(host string) Containers
	// Executable is the static binary that agents run: this program.
	Executable string
	// Leash makes agents end with this process; without it a lab can stand by itself.
	Leash bool

	group string  // of the lab to be built (State.Group)
	asked *asking // processes that were asked to end; nil: nobody yet
}

// Agent is one running agent and the connection to it.
type Agent struct {
	nodes.Agent
	ID     fabric.NodeID
	Client *kvagent.Client
}

// Lab is a lab that this process holds.
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

// Build makes a cluster real, with an agent on each instance; packetworld configures them.
// If anything fails, or the context ends, what was made is removed again before Build returns.
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

// raise makes fabric and agents: the fabric first, unless agents bring the namespaces
// that it is to adopt.
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

// firstDead says which agent has ended, which explains what went wrong with the rest.
func (l *Lab) firstDead(ctx context.Context) error {
	for _, a := range l.Agents {
		if alive, err := l.opt.Runtime.Alive(a.Agent); err == nil && !alive {
			return fmt.Errorf("agent %s: %w; the end of its log: %s", a.Node, errDead, l.lastWords(ctx, a.Agent))
		}
	}
	return nil
}

// undo removes a half-built lab, also when the context is what ended it.
func (l *Lab) undo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), teardownTimeout)
	defer cancel()
	_, err := l.Remove(ctx)
	return err
}

// claim makes the lab's folder and takes its lock, unless there is such a lab already.
func (l *Lab) claim(ctx context.Context) error {
	store, name := l.opt.Store, l.Name()
	lk, err := store.tryLock(name, true)
	if err != nil {
		return err
	}
	if _, err := os.Stat(store.state(name)); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(alreadyUp(ctx, name, l.opt), lk.release())
	}
	// A lab that lost its folder is not ours to remove, which a failure further on would do.
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

// prepare asks a runtime that houses its agents whether it can. If not, there is
// nothing but the claim to give back.
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

// alreadyUp says what stands in a new lab's place, and what can be done with it.
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

// Detach leaves the lab standing and lets go of it.
func (l *Lab) Detach() error {
	l.state.Owner = Process{}
	err := l.setPhase(PhaseReady)
	return errors.Join(err, l.close())
}

// close drops connections and handles; the lab itself stays.
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
