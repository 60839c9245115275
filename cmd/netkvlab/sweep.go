package main

import (
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

func (a *app) sweepCommand() *cobra.Command {
	var out string
	var jobs int
	cmd := &cobra.Command{
		Use:   "sweep FILE",
		Short: "Run a grid of scenarios in the flow world, on all cores, and go on where it was stopped",
		Long: `FILE is a sweep file (docs/sweep.md) or the name of an embedded sweep:
` + strings.Join(scenarios.SweepNames(), ", ") + `.

Every finished trial is kept at once. After Ctrl-C, or a crash, the same command does what is
missing. The folder gets table.csv, one row a trial, and a heat map of the sweep's figure.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := sweep.Load(args[0])
			if err != nil {
				return err
			}
			if jobs < 0 {
				return usagef("--jobs: must be 0 (one a CPU) or more, got %d", jobs)
			}
			if out == "" {
				out = filepath.Join("netkvlab-runs", "sweep-"+s.File.Name)
			}
			unlock, err := lockSweep(out)
			if err != nil {
				return err
			}
			defer unlock()
			progress := lab.NewProgress(a.stderr)
			progress.Phase("sweep %s: %d cells, %d trials", s.File.Name, len(s.Cells), s.Trials())
			res, err := sweep.Run(cmd.Context(), s, sweep.Options{
				Dir: out, Version: version, Jobs: jobs,
				Progress: func(done, total int, left time.Duration) { progress.Step("sweep", done, total, left) },
			})
			progress.Close()
			var changed *sweep.ChangedError
			if errors.As(err, &changed) {
				return usageError{err}
			}
			return errors.Join(a.showSweep(res, out), err)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "folder of the sweep (default: netkvlab-runs/sweep-<name>, so that a rerun finds it)")
	cmd.Flags().IntVar(&jobs, "jobs", 0, "trials at once (default: one a CPU)")
	return cmd
}

// lockSweep makes a sweep's folder and keeps others out of it: a sweep that is started
// again goes on with what is there, and two at once would write the same trials. A folder
// in which nothing was written is given back.
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
		_ = os.Remove(dir) // which fails when it holds something
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
	if len(res.Rows) < res.Total {
		fmt.Fprintf(a.stderr, "%d of %d trials are done and kept; the same command does the rest\n", len(res.Rows), res.Total)
	}
	fmt.Fprintf(a.stderr, "%s: %d trials (%d from before)\n", filepath.Join(dir, sweep.TableFile), len(res.Rows), res.Reused)
	return nil
}
