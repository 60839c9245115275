package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/netkvlab/netkvlab/internal/experiment"
	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/host/calibrate"
	"github.com/netkvlab/netkvlab/internal/lab"
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

// carries returns what this host carries, by its calibration or by cautious constants. It
// reports to progress why it uses the constants.
func (a *app) carries(progress *lab.Progress) host.Capacity {
	c, why := host.Carries(a.calibration, host.Proc, time.Now())
	if why != nil {
		progress.Note("%v", why)
	}
	return c
}

// fabrics returns the Fabrics of a command for its --parallel flag.
func (a *app) fabrics(parallel string, opt lab.Options) *experiment.Fabrics {
	n, _ := strconv.Atoi(parallel) // auto: 0
	return &experiment.Fabrics{Lab: opt, Parallel: n, Carries: sync.OnceValue(func() host.Capacity { return a.carries(opt.Progress) })}
}

// checkParallel refuses an invalid number of fabrics.
func checkParallel(parallel string) error {
	if n, err := strconv.Atoi(parallel); parallel != parallelAuto && (err != nil || n < 1) {
		return usagef("--parallel: must be %s or 1 and more, got %q", parallelAuto, parallel)
	}
	return nil
}

// parallelAuto lets the host decide how many fabrics run side by side.
const parallelAuto = "auto"
