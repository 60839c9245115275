package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/internal/sweep"
	"github.com/netkvlab/netkvlab/scenarios"
)

// sweepFlags say how a sweep runs.
type sweepFlags struct {
	out      string
	jobs     int
	worlds   []string
	parallel string
}

func (a *app) sweepCommand() *cobra.Command {
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
			return a.sweep(cmd.Context(), s, f)
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

func (a *app) sweep(ctx context.Context, s *sweep.Sweep, f sweepFlags) (err error) {
	out := f.out
	if out == "" {
		out = filepath.Join("netkvlab-runs", "sweep-"+s.File.Name)
	}
	unlock, err := lockSweep(out)
	if err != nil {
		return err
	}
	defer unlock()
	opt := sweep.Options{Dir: out, Version: version, Jobs: f.jobs}
	progress := lab.NewProgress(a.stderr)
	if s.Packet() {
		labOpt, err := a.labOptions(s.Cells[0].Scenario.Runtime, true)
		if err != nil {
			return err
		}
		progress = labOpt.Progress
		fabrics := a.fabrics(f.parallel, labOpt)
		fabrics.Name = sweep.LabName(s.File.Name)
		opt.Fabrics = fabrics
	}
	progress.Phase("sweep %s: %d cells, %d trials", s.File.Name, len(s.Cells), s.Trials())
	opt.Progress = func(done, total int, left time.Duration) { progress.Step("sweep", done, total, left) }
	res, err := sweep.Run(ctx, s, opt)
	progress.Close()
	if uid, gid, ok := sudoCaller(os.Getenv); ok && os.Geteuid() == 0 && res != nil {
		err = errors.Join(err, handOver(out, uid, gid))
	}
	var changed *sweep.ChangedError
	if errors.As(err, &changed) {
		return usageError{err}
	}
	return errors.Join(a.showSweep(res, out), err)
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

func (a *app) showSweep(res *sweep.Result, dir string) error {
	if res == nil {
		return nil
	}
	if a.output == "json" {
		return a.printJSON(map[string]any{
			"folder": dir, "table": filepath.Join(dir, sweep.TableFile),
			"trials": res.Total, "done": len(res.Rows), "reused": res.Reused,
		})
	}
	sweep.WriteText(a.stdout, res.Maps)
	sweep.WriteVerdicts(a.stdout, res.Rows)
	if len(res.Rows) < res.Total {
		fmt.Fprintf(a.stderr, "%d of %d trials are done and kept; the same command does the rest\n", len(res.Rows), res.Total)
	}
	fmt.Fprintf(a.stderr, "%s: %d trials (%d from before)\n", filepath.Join(dir, sweep.TableFile), len(res.Rows), res.Reused)
	return nil
}
