package main

import (
	"context"
	"strconv"
	"time"

	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/host/calibrate"
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
	c, err := calibrate.Measure(ctx, func(what string) { progress.Phase("%s", what) })
	progress.Close()
	if err != nil {
		return err
	}
	if err := c.Save(a.calibration); err != nil {
		return err
	}
	if a.output == "json" {
		return a.printJSON(c)
	}
	return c.Print(a.stdout)
}

// carries is what this host carries, by its calibration or by cautious constants. progress
// is told why it is the constants.
func (a *app) carries(progress *lab.Progress) host.Capacity {
	c, why := host.Carries(a.calibration, host.Proc, time.Now())
	if why != nil {
		progress.Note("%v", why)
	}
	return c
}

// chooseScale turns scale.rate: auto into a number for so many fabrics side by side on a host,
// and gives what a reader of the run should know of it.
func chooseScale(ctx context.Context, s *scenarios.Scenario, h host.Capacity, fabrics int, progress *lab.Progress) ([]string, error) {
	if s.Scale.Rate > 0 {
		return nil, nil
	}
	c, err := scaling.Choose(ctx, s, h, fabrics)
	if err != nil {
		return nil, err
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

// chooseFabrics is how many of them to make on a host: no more than there are trials.
func chooseFabrics(ctx context.Context, s *scenarios.Scenario, h host.Capacity, parallel string, progress *lab.Progress) (int, error) {
	trials := len(scaling.Trials(s))
	if n, err := strconv.Atoi(parallel); err == nil {
		return min(n, trials), nil
	}
	room, err := lab.RoomFor(s)
	if err != nil {
		return 0, err
	}
	n, err := scaling.Parallel(ctx, s, h, min(room, trials))
	if err == nil {
		progress.Note("--parallel auto: %d of %d trials at a time", n, trials)
	}
	return n, err
}
