package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/netkvlab/netkvlab/internal/calibration"
	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/scaling"
	"github.com/netkvlab/netkvlab/internal/trials"
)

// calibrate measures what this host carries, prints and saves it.
func (a *app) calibrate(ctx context.Context) error {
	if err := lab.NeedRoot(); err != nil {
		return err
	}
	progress := lab.NewProgress(a.stderr)
	defer progress.Close()
	c, err := calibration.Measure(ctx, func(what string) { progress.Phase("%s", what) })
	progress.Close()
	if err != nil {
		return err
	}
	if err := c.Save(a.store.Root); err != nil {
		return err
	}
	if a.output == "json" {
		return a.printJSON(c)
	}
	return c.Print(a.stdout)
}

// carries is what this host carries, by its calibration or by cautious constants. The error
// says why a calibration that exists is not used; the host is good all the same.
func (a *app) carries() (scaling.Host, error) {
	h, err := calibration.Host(a.store.Root, os.DirFS("/"), time.Now())
	if errors.Is(err, calibration.ErrNone) {
		err = nil
	}
	return h, err
}

// chooseScale turns scale.rate: auto into a number for so many fabrics side by side, and
// gives what a reader of the run should know of it.
func (a *app) chooseScale(ctx context.Context, c *trials.Cluster, fabrics int, progress *lab.Progress) (*trials.Cluster, []string, error) {
	if c.Scenario.Scale.Rate > 0 {
		return c, nil, nil
	}
	h, unused := a.carries()
	if h.Cores == 0 {
		return nil, nil, unused
	}
	c, choice, err := scaling.Resolve(ctx, c, h, fabrics)
	if err != nil {
		return nil, nil, err
	}
	if unused != nil {
		progress.Note("%v", unused)
	}
	progress.Note("%s", choice)
	return c, []string{choice.String()}, nil
}

// checkParallel refuses what is no number of fabrics, and several that are to stay.
func (f *runFlags) checkParallel(detach bool) error {
	n, err := strconv.Atoi(f.parallel)
	switch {
	case f.parallel != parallelAuto && (err != nil || n < 1):
		return usagef("--parallel: must be %s or 1 and more, got %q", parallelAuto, f.parallel)
	case detach && f.parallel != "1":
		return usagef("--parallel: a lab that is left standing (-d) is one")
	}
	return nil
}

// parallelAuto lets the host decide how many fabrics run side by side.
const parallelAuto = "auto"

// fabrics is how many of them to make: no more than there are trials.
func (a *app) fabrics(ctx context.Context, c *trials.Cluster, parallel string, progress *lab.Progress) (int, error) {
	work := len(c.Trials(results.WorldPacket, c.Scenario.Seeds))
	if n, err := strconv.Atoi(parallel); err == nil {
		return min(n, work), nil
	}
	h, unused := a.carries()
	if h.Cores == 0 {
		return 0, unused
	}
	room, err := lab.RoomFor(c)
	if err != nil {
		return 0, err
	}
	n, err := scaling.Parallel(ctx, c, h, min(room, work))
	if err == nil {
		progress.Note("--parallel auto: %d fabrics side by side for %d trials", n, work)
	}
	return n, err
}
