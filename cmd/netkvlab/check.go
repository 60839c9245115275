package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/host/doctor"
	"github.com/netkvlab/netkvlab/internal/scaling"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/nodes/docker"
	"github.com/netkvlab/netkvlab/scenarios"
)

func (a *app) validateCommand() *cobra.Command {
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
				s, err := a.validate(cmd.Context(), ref, settings)
				if err == nil {
					a.noteHost(s)
					err = a.printScenario(s, i)
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
func (a *app) noteHost(s *scenarios.Scenario) {
	have := host.CongestionControls()
	if want := s.Transfer.CongestionControl; len(have) > 0 && !slices.Contains(have, want) {
		fmt.Fprintf(a.stderr, "netkvlab: note: %s: transfer.congestionControl: this kernel shows no %q unless a module adds it; it has %s\n",
			s.Name, want, strings.Join(have, ", "))
	}
}

func (a *app) validate(ctx context.Context, ref string, settings []string) (*scenarios.Scenario, error) {
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
	c, _, err = scaling.Resolve(ctx, c, a.carries(nil), 1)
	if err != nil {
		return nil, err
	}
	return c.Scenario, nil
}

func (a *app) printScenario(s *scenarios.Scenario, n int) error {
	if a.output == "json" {
		return a.printJSON(map[string]any{
			"scenario": s.Name, "valid": true, "kv_bytes_per_token": int64(s.Model.KVBytesPerToken()),
			"scale": map[string]float64{"rate": s.Scale.Rate, "time": s.Scale.Time},
		})
	}
	text, err := s.Marshal()
	if err != nil {
		return err
	}
	if n > 0 {
		fmt.Fprintln(a.stdout, "---")
	}
	_, err = a.stdout.Write(text)
	return err
}

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the scenario format as a JSON Schema for editors",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text, err := scenarios.Schema()
			if err != nil {
				return err
			}
			_, err = a.stdout.Write(append(text, '\n'))
			return err
		},
	}
}

func (a *app) doctorCommand() *cobra.Command {
	var calibrate bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this host can do and what it lacks",
		Long: `Tries everything that a lab needs of the kernel. With --calibrate it measures instead what this
host carries, in some eight seconds, and saves it: scale.rate: auto then goes by it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if calibrate {
				return a.calibrate(cmd.Context())
			}
			r := doctor.Examine(cmd.Context(), docker.NewEngine(os.Getenv))
			if a.output == "json" {
				if err := a.printJSON(r); err != nil {
					return err
				}
			} else {
				if err := r.Print(a.stdout); err != nil {
					return err
				}
			}
			return r.Err()
		},
	}
	cmd.Flags().BoolVar(&calibrate, "calibrate", false, "measure what this host forwards, and how late its timers are")
	return cmd
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.output == "json" {
				return a.printJSON(map[string]string{"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
			}
			fmt.Fprintf(a.stdout, "netkvlab %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}
