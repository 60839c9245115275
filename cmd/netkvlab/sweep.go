package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/internal/sweep"
	"github.com/netkvlab/netkvlab/internal/sweep/tune"
	"github.com/netkvlab/netkvlab/scenarios"
)

// sweepFlags say how a sweep runs.
type sweepFlags struct {
	out      string
	jobs     int
	worlds   []string
	parallel string
}

func sweepCommand(p *printer, l *labs) *cobra.Command {
	var f sweepFlags
	cmd := &cobra.Command{
		Use:   "sweep FILE",
		Short: "Run a grid of scenarios, on all cores, and go on where it was stopped",
		Long: `FILE is a sweep file (docs/sweep.md) or the name of an embedded sweep:
` + strings.Join(scenarios.SweepNames(), ", ") + `.

Trials run in the flow world, which needs no root. With worlds: [packet, flow] in the file, or
--worlds packet,flow, they run in labs of their own as well, as root.
Every finished trial is kept at once. After Ctrl-C, or a crash, the same command does what is
missing. The folder gets table.csv, one row per trial, and a heat map of the sweep's figure.`,
		Example: `  netkvlab sweep paper-table2
  netkvlab sweep my-sweep.yaml --worlds packet,flow`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := sweep.Load(args[0])
			if err != nil {
				return err
			}
			if err := f.check(); err != nil {
				return err
			}
			if len(f.worlds) > 0 {
				s.File.Worlds = f.worlds
			}
			return runSweep(cmd.Context(), s, f, p, l)
		},
	}
	cmd.Flags().StringVar(&f.out, "out", "", "folder of the sweep (default: netkvlab-runs/sweep-<name>, so that a rerun finds it)")
	cmd.Flags().IntVar(&f.jobs, "jobs", 0, "trials of the flow world at once (default: one per CPU)")
	cmd.Flags().StringSliceVar(&f.worlds, "worlds", nil, "flow, packet or packet,flow (default: the file's, else flow)")
	cmd.Flags().StringVar(&f.parallel, "parallel", parallelAuto, "fabrics side by side in the packet world: a number, or as many as the host carries (auto)")
	return cmd
}

func (f *sweepFlags) check() error {
	if f.jobs < 0 {
		return usagef("--jobs: must be 0 (one per CPU) or more, got %d", f.jobs)
	}
	if len(f.worlds) > 0 {
		if err := sweep.CheckWorlds(f.worlds); err != nil {
			return usagef("--worlds: %w", err)
		}
	}
	return checkParallel(f.parallel)
}

func runSweep(ctx context.Context, s *sweep.Sweep, f sweepFlags, p *printer, l *labs) error {
	out := cmp.Or(f.out, filepath.Join(runsFolder, "sweep-"+s.File.Name))
	unlock, err := lockSweep(out)
	if err != nil {
		return err
	}
	defer unlock()
	opt := sweep.Options{Dir: out, Version: version, Jobs: f.jobs}
	progress := lab.NewProgress(p.stderr)
	if s.Packet() {
		labOpt, err := l.options(s.Cells[0].Scenario.Runtime, true)
		if err != nil {
			return err
		}
		progress = labOpt.Progress
		fabrics := l.fabrics(f.parallel, labOpt)
		fabrics.Name = sweep.LabName(s.File.Name)
		opt.Fabrics = fabrics
	}
	progress.Phase("sweep %s: %d cells, %d trials", s.File.Name, len(s.Cells), s.Trials())
	opt.Progress = func(done, total int, left time.Duration) { progress.Step("sweep", done, total, left) }
	res, err := sweep.Run(ctx, s, opt)
	progress.Close()
	if res != nil {
		err = errors.Join(err, giveToCaller(out))
	}
	if errors.As(err, new(*sweep.ChangedError)) {
		return usageError{err}
	}
	return errors.Join(showSweep(p, res, out), err)
}

// lockSweep makes a sweep's folder and locks it: a sweep continues with the trials in its
// folder, and two at once would write the same trials. unlock removes the folder if it is empty.
func lockSweep(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("folder of the sweep: %w", err)
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("folder of the sweep: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("another netkvlab is working on the sweep in %s: wait for it, or name another folder with --out", dir)
		}
		return nil, fmt.Errorf("lock the folder of the sweep %s: %w", dir, err)
	}
	return func() {
		_ = os.Remove(dir) // fails if the folder is not empty
		_ = f.Close()
	}, nil
}

func showSweep(p *printer, res *sweep.Result, dir string) error {
	if res == nil {
		return nil
	}
	table := filepath.Join(dir, sweep.TableFile)
	return show(p, map[string]any{
		"folder": dir, "table": table, "trials": res.Total, "done": len(res.Rows), "reused": res.Reused,
	}, func(w io.Writer, _ map[string]any) error {
		sweep.WriteText(w, res.Maps)
		sweep.WriteVerdicts(w, res.Rows)
		if len(res.Rows) < res.Total {
			fmt.Fprintf(p.stderr, "%d of %d trials are done and kept; the same command does the rest\n", len(res.Rows), res.Total)
		}
		fmt.Fprintf(p.stderr, "%s: %d trials (%d from before)\n", table, len(res.Rows), res.Reused)
		return nil
	})
}

func tuneCommand(p *printer) *cobra.Command {
	var out string
	var settings []string
	var opt tune.Options
	cmd := &cobra.Command{
		Use:   "tune SCENARIO",
		Short: "Find the weights of cla* in the flow world",
		Long: `Searches the grid of cache weight against load weight for the least mean time to first token
(or another --metric), on seeds that the scenario does not use, or on a slice of the trace beside
the scenario's. --out writes the winner and the whole grid to a file that a scenario can name:

  policies: [rr, {name: cla*, weights: weights.yaml}, netkv-full]`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opt.Check(); err != nil {
				return usageError{err}
			}
			s, err := scenarios.Load(args[0], settings...)
			if err != nil {
				return err
			}
			progress := lab.NewProgress(p.stderr)
			opt.Progress = func(done, total int) { progress.Step("tune", done, total, 0) }
			r, err := tune.Search(cmd.Context(), s, opt)
			progress.Close()
			if err != nil {
				return err
			}
			text, err := r.Weights.Marshal()
			if err != nil {
				return err
			}
			if out != "" {
				head := "# Weights of cla*, written by `netkvlab tune`. A policy takes them by {name: cla*, weights: THIS FILE}.\n"
				if err := os.WriteFile(out, append([]byte(head), text...), 0o644); err != nil {
					return fmt.Errorf("--out: %w", err)
				}
			}
			return showWeights(p, r)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "write the weights and the grid to this file")
	cmd.Flags().StringVar(&opt.Metric, "metric", "ttft_mean", "what to tune for: a metric of the sweep table")
	cmd.Flags().IntVar(&opt.Seeds, "seeds", 5, "how many seeds outside the scenario's to tune on")
	addSettings(cmd, &settings)
	return cmd
}

func showWeights(p *printer, r *tune.Result) error {
	type point struct {
		CacheWeight float64 `json:"cache_weight"`
		LoadWeight  float64 `json:"load_weight"`
		Score       float64 `json:"score"`
		CI95        float64 `json:"ci95"`
	}
	best, grid := r.Weights, []point{}
	for _, g := range best.Grid {
		grid = append(grid, point(g))
	}
	return show(p, map[string]any{
		"scenario": best.Scenario, "metric": r.Metric.Name, "unit": r.Metric.Unit, "tuned_on": best.TunedOn,
		"cache_weight": best.CacheWeight, "load_weight": best.LoadWeight, "grid": grid,
		"flat_points": r.Flat, "spread_pct": r.SpreadPct,
	}, func(w io.Writer, _ map[string]any) error {
		fmt.Fprintf(w, "%s, tuned on %s\n\n%12s %12s %14s\n", best.Scenario, best.TunedOn, "cacheWeight", "loadWeight", r.Metric.Name+" "+r.Metric.Unit)
		for i, g := range best.Grid {
			mark := ""
			if i == r.Best {
				mark = "  <- best"
			}
			fmt.Fprintf(w, "%12g %12g %14.6g%s\n", g.CacheWeight, g.LoadWeight, g.Score, mark)
		}
		fmt.Fprintf(w, "\ncla* with cacheWeight %g and loadWeight %g; %s.\n", best.CacheWeight, best.LoadWeight, best.Sensitivity)
		return nil
	})
}
