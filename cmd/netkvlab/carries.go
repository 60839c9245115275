package main

import (
	"context"
	"errors"
	"os"
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
