package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/netkvlab/netkvlab/nodes/docker"
	"github.com/netkvlab/netkvlab/scenarios"
)

// Containers is what this host's engine has of labs, whoever made them.
type Containers interface {
	// Host is the engine's address, as DOCKER_HOST has it.
	Host() string
	// Labs lists the labs that have containers.
	Labs(ctx context.Context) ([]string, error)
	// Count is how many containers a lab has.
	Count(ctx context.Context, lab string) (int, error)
	// Remove takes a lab's containers away and says how many. With unsure set, some may
	// still be on their way.
	Remove(ctx context.Context, lab string, unsure bool) (int, error)
	// RemoveImages deletes the agent images that no container uses and names them.
	RemoveImages(ctx context.Context) ([]string, error)
}

var _ Containers = (*docker.Engine)(nil)

// containers counts a lab's containers; where no engine answers there are none.
func (o Options) containers(ctx context.Context, lab string) (int, error) {
	if o.Containers == nil {
		return 0, nil
	}
	ctx, cancel := o.patience(ctx, o.Runtime.Name())
	defer cancel()
	n, err := o.ask(lab, func(c Containers) (int, error) { return c.Count(ctx, lab) })
	if err != nil && o.Runtime.Name() != scenarios.RuntimeDocker {
		return 0, nil // an engine that is ill is no matter of a lab that has no use for it
	}
	if errors.Is(err, docker.ErrNoEngine) {
		return 0, nil // whoever needs one will say so
	}
	return n, err
}

// strangerPatience is how long an engine may keep a lab waiting that has no use for it.
const strangerPatience = 2 * time.Second

// patience bounds a question to the engine by what the answer is worth.
func (o Options) patience(ctx context.Context, runtime string) (context.Context, context.CancelFunc) {
	if runtime == scenarios.RuntimeDocker {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, strangerPatience)
}

// Engine is the address of the engine that a lab's containers are with, as it was when
// the lab was made; empty for a lab without containers, and where nobody knows.
func (s Store) Engine(lab string) string {
	host, err := os.ReadFile(s.engine(lab))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(host))
}

// Engines are this host's engine and those that labs were made with.
func (o Options) Engines(labs []string) []Containers {
	if o.Containers == nil {
		return nil
	}
	engines := []Containers{o.Containers}
	for _, name := range labs {
		host := o.Store.Engine(name)
		known := slices.ContainsFunc(engines, func(c Containers) bool { return c.Host() == host })
		if host != "" && !known && o.ContainersOf != nil {
			engines = append(engines, o.ContainersOf(host))
		}
	}
	return engines
}

// ask puts a question about a lab to this host's engine and to the one that the lab was
// made with, which has the last word. That one may go by another address by now: it is
// no error that nobody answers at the old one when the other knew of the lab.
func (o Options) ask(lab string, question func(Containers) (int, error)) (n int, err error) {
	for _, engine := range o.Engines([]string{lab}) {
		var more int
		more, err = question(engine)
		n += more
	}
	if n > 0 && errors.Is(err, docker.ErrNoEngine) {
		return n, nil
	}
	return n, err
}

// removeContainers takes a lab's containers away. An engine that does not answer
// only matters to a lab that is known to have containers: their processes end all the
// same, being in the lab's namespaces, but the engine keeps a record of each.
func (o Options) removeContainers(ctx context.Context, name string, st *State) (int, error) {
	if o.Containers == nil {
		return 0, nil
	}
	known := o.Store.Engine(name) != "" || st != nil && st.Runtime == scenarios.RuntimeDocker
	if st != nil {
		var cancel context.CancelFunc
		ctx, cancel = o.patience(ctx, st.Runtime)
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
		return n, nil // it has none, or nobody can say
	}
	return n, err
}
