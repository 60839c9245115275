package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/host/calibrate"
	"github.com/netkvlab/netkvlab/internal/host/doctor"
	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/internal/scaling"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/nodes/docker"
	"github.com/netkvlab/netkvlab/scenarios"
)

func validateCommand(p *printer, l *labs) *cobra.Command {
	var settings []string
	cmd := &cobra.Command{
		Use:   "validate SCENARIO...",
		Short: "Check scenarios and print them with every default written out",
		Long: `Checks scenarios, with the traces and flow files they name, and prints them with every
default written out. All faults of a file are listed, each as file:line: key: what.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var errs []error
			for i, ref := range args {
				s, err := validate(cmd.Context(), ref, settings, l.carries(nil))
				if err == nil {
					noteHost(p.stderr, s)
					err = printScenario(p, s, i)
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
	addSettings(cmd, &settings)
	return cmd
}

// noteHost prints what a valid scenario needs that this host lacks. Another host may have it.
func noteHost(w io.Writer, s *scenarios.Scenario) {
	have := host.CongestionControls()
	if want := s.Transfer.CongestionControl; len(have) > 0 && !slices.Contains(have, want) {
		fmt.Fprintf(w, "netkvlab: note: %s: transfer.congestionControl: this kernel shows no %q unless a module adds it; it has %s\n",
			s.Name, want, strings.Join(have, ", "))
	}
}

func validate(ctx context.Context, ref string, settings []string, carries host.Capacity) (*scenarios.Scenario, error) {
	s, err := scenarios.Load(ref, settings...)
	if err != nil {
		return nil, err
	}
	c, err := trials.New(s)
	if err != nil {
		return nil, err
	}
	// Check the workload first: auto uses its load.
	if err := c.Check(); err != nil {
		return nil, err
	}
	if c, _, err = scaling.Resolve(ctx, c, carries, 1); err != nil {
		return nil, err
	}
	return c.Scenario, nil
}

func printScenario(p *printer, s *scenarios.Scenario, n int) error {
	return show(p, map[string]any{
		"scenario": s.Name, "valid": true, "kv_bytes_per_token": int64(s.Model.KVBytesPerToken()),
		"scale": map[string]float64{"rate": s.Scale.Rate, "time": s.Scale.Time},
	}, func(w io.Writer, _ map[string]any) error {
		text, err := s.Marshal()
		if err != nil {
			return err
		}
		if n > 0 {
			fmt.Fprintln(w, "---")
		}
		_, err = w.Write(text)
		return err
	})
}

func schemaCommand(p *printer) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the scenario format as a JSON Schema for editors",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text, err := scenarios.Schema()
			if err == nil {
				_, err = p.stdout.Write(append(text, '\n'))
			}
			return err
		},
	}
}

func doctorCommand(p *printer, l *labs) *cobra.Command {
	var measure bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this host can do and what it lacks",
		Long: `Tries everything that a lab needs of the kernel. With --calibrate it measures instead what this
host carries, in some eight seconds, and saves it: scale.rate: auto then goes by it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if measure {
				return calibrateHost(cmd.Context(), p, l)
			}
			r := doctor.Examine(cmd.Context(), docker.NewEngine(os.Getenv))
			if err := show(p, r, func(w io.Writer, r *doctor.Report) error { return r.Print(w) }); err != nil {
				return err
			}
			return r.Err()
		},
	}
	cmd.Flags().BoolVar(&measure, "calibrate", false, "measure what this host forwards, and how late its timers are")
	return cmd
}

// calibrateHost measures what this host carries, saves and prints it.
func calibrateHost(ctx context.Context, p *printer, l *labs) error {
	if err := lab.NeedRoot(); err != nil {
		return err
	}
	progress := lab.NewProgress(p.stderr)
	c, err := calibrate.Measure(ctx, func(what string) { progress.Phase("%s", what) })
	progress.Close()
	if err != nil {
		return err
	}
	if err := c.Save(l.calibration); err != nil {
		return err
	}
	return show(p, c, func(w io.Writer, c *host.Calibration) error { return c.Print(w) })
}

func versionCommand(p *printer) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			return show(p, v, func(w io.Writer, v map[string]string) error {
				fmt.Fprintf(w, "netkvlab %s (%s, %s)\n", v["version"], v["go"], v["platform"])
				return nil
			})
		},
	}
}
