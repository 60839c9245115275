package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/netkvlab/netkvlab/internal/calibration"
	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/internal/scaling"
	"github.com/netkvlab/netkvlab/scenarios"
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
func (a *app) chooseScale(ctx context.Context, s *scenarios.Scenario, fabrics int, progress *lab.Progress) ([]string, error) {
	if s.Scale.Rate > 0 {
		return nil, nil
	}
	h, unused := a.carries()
	if h.Cores == 0 {
		return nil, unused
	}
	c, err := scaling.Choose(ctx, s, h, fabrics)
	if err != nil {
		return nil, err
	}
	if unused != nil {
		progress.Note("%v", unused)
	}
	s.Scale.Rate = c.Rate
	progress.Note("%s", c)
	return []string{c.String()}, nil
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
func (a *app) fabrics(ctx context.Context, s *scenarios.Scenario, parallel string, progress *lab.Progress) (int, error) {
	trials := len(scaling.Trials(s))
	if n, err := strconv.Atoi(parallel); err == nil {
		return min(n, trials), nil
	}
	h, unused := a.carries()
	if h.Cores == 0 {
		return 0, unused
	}
	room, err := lab.RoomFor(s)
	if err != nil {
		return 0, err
	}
	n, err := scaling.Parallel(ctx, s, h, min(room, trials))
	if err == nil {
		progress.Note("--parallel auto: %d fabrics side by side for %d trials", n, trials)
	}
	return n, err
}
