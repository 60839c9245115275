package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"golang.org/x/sync/errgroup"
)

const (
	// removeWorkers bounds how many containers are removed at once.
	removeWorkers = 4
	// removeRounds bounds the search for containers that appear while others are removed.
	removeRounds = 10
	// settle is how long a container may take to appear if its maker was killed while
	// making it.
	settle = 500 * time.Millisecond
)

// absent treats an engine that does not answer like one without containers.
func absent(err error) error {
	if errors.Is(err, ErrNoEngine) {
		return nil
	}
	return err
}

// Labs lists the labs that have containers, running or not. Without an engine there are none.
func (e *Engine) Labs(ctx context.Context) ([]string, error) {
	if err := e.reach(ctx); err != nil {
		return nil, absent(err)
	}
	all, err := e.list(ctx, labelLab)
	if err != nil {
		return nil, err
	}
	labs := []string{}
	for i := range all {
		labs = append(labs, all[i].Labels[labelLab])
	}
	slices.Sort(labs)
	return slices.Compact(labs), nil
}

// Count is how many containers a lab has, running or not. The error matches
// ErrNoEngine when no engine answers.
func (e *Engine) Count(ctx context.Context, lab string) (int, error) {
	if err := e.reach(ctx); err != nil {
		return 0, err
	}
	all, err := e.list(ctx, labelLab+"="+lab)
	return len(all), err
}

// Remove removes every container with a lab's label and returns how many. Set unsure when
// the maker of containers was killed: then more may still appear, and Remove
// waits for them. The error matches ErrNoEngine when no engine answers.
func (e *Engine) Remove(ctx context.Context, lab string, unsure bool) (int, error) {
	if err := e.reach(ctx); err != nil {
		return 0, err
	}
	removed := 0
	for round := range removeRounds {
		all, err := e.list(ctx, labelLab+"="+lab)
		if err != nil {
			return removed, err
		}
		if len(all) == 0 && (!unsure || round > 0) {
			return removed, nil
		}
		if err := e.removeAll(ctx, all); err != nil {
			return removed, err
		}
		removed += len(all)
		if unsure {
			select {
			case <-time.After(settle):
			case <-ctx.Done():
				return removed, ctx.Err()
			}
		}
	}
	return removed, fmt.Errorf("containers of lab %q keep appearing", lab)
}

func (e *Engine) list(ctx context.Context, label string) ([]container.Summary, error) {
	all, err := e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", label))})
	if err != nil {
		return nil, fmt.Errorf("list containers labelled %s: %w", label, err)
	}
	return all, nil
}

// removeAll tries to remove each container, and returns all errors.
func (e *Engine) removeAll(ctx context.Context, all []container.Summary) error {
	var g errgroup.Group
	g.SetLimit(removeWorkers)
	errs := make([]error, len(all))
	for i := range all {
		g.Go(func() error {
			errs[i] = e.removeOne(ctx, all[i].ID)
			return nil
		})
	}
	_ = g.Wait()
	return errors.Join(errs...)
}

// removeOne ends and removes a container. One that is gone, or going, is no error.
func (e *Engine) removeOne(ctx context.Context, id string) error {
	err := e.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if err == nil || errdefs.IsNotFound(err) {
		return nil
	}
	if errdefs.IsConflict(err) { // another program is removing it
		stopped, errs := e.api.ContainerWait(ctx, id, container.WaitConditionRemoved)
		select {
		case <-stopped:
			return nil
		case err := <-errs:
			if errdefs.IsNotFound(err) {
				return nil
			}
		}
	}
	return fmt.Errorf("remove container %.12s: %w", id, err)
}
