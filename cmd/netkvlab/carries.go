package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/netkvlab/netkvlab/internal/calibration"
	"github.com/netkvlab/netkvlab/internal/experiment"
	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/internal/scaling"
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

// fabrics makes the fabrics of a command that was given --parallel.
func (a *app) fabrics(parallel string, opt lab.Options) *experiment.Fabrics {
	n, _ := strconv.Atoi(parallel) // auto: 0
	return &experiment.Fabrics{Lab: opt, Parallel: n, Carries: func() (scaling.Host, error) {
		h, unused := a.carries()
		if h.Cores == 0 {
			return h, unused
		}
		if unused != nil {
			opt.Progress.Note("%v", unused)
		}
		return h, nil
	}}
}

// checkParallel refuses what is no number of fabrics.
func checkParallel(parallel string) error {
	if n, err := strconv.Atoi(parallel); parallel != parallelAuto && (err != nil || n < 1) {
		return usagef("--parallel: must be %s or 1 and more, got %q", parallelAuto, parallel)
	}
	return nil
}

// parallelAuto lets the host decide how many fabrics run side by side.
const parallelAuto = "auto"
