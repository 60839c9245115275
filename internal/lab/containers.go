package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/netkvlab/netkvlab/nodes/docker"
	"github.com/netkvlab/netkvlab/scenarios"
)

// Containers manages the containers that an engine of this host has for labs of any process.
type Containers interface {
	// Host is the engine's address, in the form of DOCKER_HOST.
	Host() string
	// Labs lists the labs that have containers.
	Labs(ctx context.Context) ([]string, error)
	// Count returns the number of a lab's containers.
	Count(ctx context.Context, lab string) (int, error)
	// Remove removes a lab's containers and returns how many. With unsure set, some may still be
	// starting.
	Remove(ctx context.Context, lab string, unsure bool) (int, error)
	// RemoveImages deletes the agent images that no container uses and returns their names.
	RemoveImages(ctx context.Context) ([]string, error)
}

var _ Containers = (*docker.Engine)(nil)

// containers counts a lab's containers; 0 if no engine answers.
func (o Options) containers(ctx context.Context, lab string) (int, error) {
	ctx, cancel := patience(ctx, o.Runtime.Name())
	defer cancel()
	n, err := o.ask(lab, func(c Containers) (int, error) { return c.Count(ctx, lab) })
	// A broken engine does not matter to a lab that does not use it, and operations that need an
	// engine report that none answers.
	if err != nil && (o.Runtime.Name() != scenarios.RuntimeDocker || errors.Is(err, docker.ErrNoEngine)) {
		return 0, nil
	}
	return n, err
}

// strangerPatience is how long a lab waits for an engine that it does not use.
const strangerPatience = 2 * time.Second

// patience bounds a call to the engine: shorter if the lab does not use one.
func patience(ctx context.Context, runtime string) (context.Context, context.CancelFunc) {
	if runtime == scenarios.RuntimeDocker {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, strangerPatience)
}

// Engines returns this host's engine and the engines of the given labs.
func (o Options) Engines(labs []string) []Containers {
	engines := []Containers{o.Containers}
	for _, name := range labs {
		host := o.Store.Engine(name)
		known := slices.ContainsFunc(engines, func(c Containers) bool { return c.Host() == host })
		if host != "" && !known {
			engines = append(engines, docker.EngineAt(host))
		}
	}
	return engines
}

// ask calls question with this host's engine and with the one that the lab was made with, whose
// answer decides. The lab's engine may have a new address by now: if nothing answers at the old
// one, but the host's engine knows the lab, that is no error.
func (o Options) ask(lab string, question func(Containers) (int, error)) (n int, err error) {
	more := 0
	for _, engine := range o.Engines([]string{lab}) {
		more, err = question(engine)
		n += more
	}
	if n > 0 && errors.Is(err, docker.ErrNoEngine) {
		return n, nil
	}
	return n, err
}

// removeContainers removes a lab's containers. An engine that does not answer is an error only
// if the lab is known to have containers: their processes end in any case, since they are in the
// lab's namespaces, but the engine keeps a record of each container.
func (o Options) removeContainers(ctx context.Context, name string, st *State) (int, error) {
	known := o.Store.Engine(name) != "" || st != nil && st.Runtime == scenarios.RuntimeDocker
	if st != nil {
		var cancel context.CancelFunc
		ctx, cancel = patience(ctx, st.Runtime)
		defer cancel()
	}
	unsure := known && (st == nil || st.Phase == PhaseBuilding)
	n, err := o.ask(name, func(c Containers) (int, error) { return c.Remove(ctx, name, unsure) })
	switch {
	case err == nil:
		return n, nil
	case known:
		return n, fmt.Errorf("its containers' processes have ended, but not their records: when the engine answers again, `netkvlab down %s` removes those too; if it never will, delete %s: %w",
			name, o.Store.dir(name), err)
	case st != nil || errors.Is(err, docker.ErrNoEngine):
		return n, nil // it has none, or it is not known
	}
	return n, err
}
