package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/netkvlab/netkvlab/nodes/docker"
	"github.com/netkvlab/netkvlab/scenarios"
)

// Containers is what this host's engine has of labs, whoever made them.
type Containers interface {
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
	n, err := o.Containers.Count(ctx, lab)
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

// removeContainers takes a lab's containers away. An engine that does not answer
// only matters to a lab that is known to have containers: their processes end all the
// same, being in the lab's namespaces, but the engine keeps a record of each.
func (o Options) removeContainers(ctx context.Context, name string, st *State) (int, error) {
	if o.Containers == nil {
		return 0, nil
	}
	known := st != nil && st.Runtime == scenarios.RuntimeDocker
	if st != nil {
		var cancel context.CancelFunc
		ctx, cancel = o.patience(ctx, st.Runtime)
		defer cancel()
	}
	n, err := o.Containers.Remove(ctx, name, known && st.Phase == PhaseBuilding)
	switch {
	case err == nil:
		return n, nil
	case known:
		return n, fmt.Errorf("its containers' processes have ended, but not their records: when the engine answers again, `netkvlab down %s` removes those too: %w", name, err)
	case st != nil || errors.Is(err, docker.ErrNoEngine):
		return n, nil // it has none, or nobody can say
	}
	return n, err
}
