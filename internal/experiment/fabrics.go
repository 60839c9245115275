package experiment

import (
	"context"
	"errors"
	"fmt"

	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/internal/scaling"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

// Fabrics decides how many fabrics a cluster's trials run in and at which scale, and makes and removes them.
type Fabrics struct {
	Lab lab.Options
	// Carries returns what this host carries. It is called only when that matters.
	Carries  func() host.Capacity
	Parallel int // the largest number of fabrics side by side; 0 means as many as the host carries
	// Name is the lab's name; "" means the scenario's name. A lab that an earlier process left
	// under this name is removed, so use only names that the program itself chose.
	Name string
}

// Resolve chooses how many fabrics run the given number of trials (work) side by side, and turns
// a scale of auto into a number for them. The notes are for the reader of the results.
func (f *Fabrics) Resolve(ctx context.Context, c *trials.Cluster, work int) (scaled *trials.Cluster, fabrics int, notes []string, err error) {
	if f.Name != "" {
		c = c.Vary(func(s *scenarios.Scenario) { s.Name = f.Name })
	}
	fabrics = min(f.Parallel, work)
	if f.Parallel > 0 && c.Scenario.Scale.Rate > 0 {
		return c, fabrics, nil, nil
	}
	h := f.Carries()
	if f.Parallel == 0 {
		room, err := lab.RoomFor(c)
		if err != nil {
			return nil, 0, nil, err
		}
		if fabrics, err = scaling.Parallel(ctx, c, h, min(room, work)); err != nil {
			return nil, 0, nil, err
		}
		fabrics = fewest(work, fabrics)
		f.Lab.Progress.Note("--parallel auto: %d fabrics side by side for %d trials", fabrics, work)
	}
	c, choice, err := scaling.Resolve(ctx, c, h, fabrics)
	if err != nil {
		return nil, 0, nil, err
	}
	if choice.Auto {
		notes = append(notes, choice.String())
		f.Lab.Progress.Note("%s", choice)
	}
	return c, fabrics, notes, nil
}

// fewest returns the smallest number of fabrics that plays the work in as few sets, one after the
// other, as the given number does: nine trials take three sets in four fabrics and in three.
func fewest(work, fabrics int) int {
	divide := func(n, by int) int { return (n + by - 1) / by } // rounded up
	sets := max(1, divide(work, fabrics))
	return max(1, divide(work, sets))
}

// With builds fabrics of a cluster's plan, calls work with them and removes them, also when the context ends.
func (f *Fabrics) With(ctx context.Context, c *trials.Cluster, fabrics int, work func([]*lab.Lab) error) error {
	if f.Name != "" {
		if err := f.clear(ctx); err != nil {
			return err
		}
	}
	labs, err := lab.BuildGroup(ctx, c, fabrics, f.Lab)
	if err != nil {
		return err
	}
	workErr := work(labs)
	return errors.Join(workErr, lab.RemoveGroup(ctx, labs))
}

// clear removes a lab of this name that an ended process left behind.
func (f *Fabrics) clear(ctx context.Context) error {
	if pid, working := lab.Worker(f.Name, f.Lab); working {
		return fmt.Errorf("lab %q is in use by process %d: wait for it, or stop it", f.Name, pid)
	}
	removed, err := lab.DownAll(ctx, []string{f.Name}, f.Lab)
	for _, r := range removed {
		if !r.Nothing {
			f.Lab.Progress.Note("removed lab %s, which an earlier process had left", r.Lab)
		}
	}
	if errors.Is(err, lab.ErrNotUp) {
		return nil
	}
	return err
}
