package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/netkvlab/netkvlab/internal/experiment"
	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/internal/packetworld"
	"github.com/netkvlab/netkvlab/internal/report"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

// addSettings adds the flag that overrides keys of the scenario.
func addSettings(cmd *cobra.Command, settings *[]string) {
	// StringArray, not StringSlice: a comma is part of the value, as in seeds=[1,2].
	cmd.Flags().StringArrayVar(settings, "set", nil,
		"override a key of the scenario, as in --set topology.pods=2 or --set 'seeds=[1, 2]'; can be given several times")
}

// runFlags choose which part of a scenario runs and where the results go.
type runFlags struct {
	settings     []string // changes to the scenario before it is checked
	policies     []string
	seeds        []uint
	runtime      string
	out          string
	strict       bool
	skipBadLines bool
	worlds       []string
	parallel     string // how many fabrics side by side, or auto
}

func (f *runFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.policies, "policies", nil, "run only these policies (default: the scenario's)")
	cmd.Flags().UintSliceVar(&f.seeds, "seeds", nil, "run these seeds (default: the scenario's)")
	cmd.Flags().StringVar(&f.out, "out", "", "run folder (default: netkvlab-runs/<lab>-<time>)")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "exit with 3 unless the fidelity verdict is good")
	cmd.Flags().BoolVar(&f.skipBadLines, "skip-bad-lines", false, "count a trace's broken lines instead of refusing the trace")
}

func (f *runFlags) addWorlds(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.worlds, "worlds", []string{results.WorldPacket, results.WorldFlow},
		"packet, or packet,flow for the flow world beside it (for the flow world alone: netkvlab sim)")
}

// checkWorlds refuses worlds that need no lab.
func (f *runFlags) checkWorlds() error {
	for _, w := range f.worlds {
		if w != results.WorldPacket && w != results.WorldFlow {
			return usagef("--worlds: must be packet or packet,flow, got %q", w)
		}
	}
	if !slices.Contains(f.worlds, results.WorldPacket) {
		return usagef("--worlds: without packet no lab is needed: use `netkvlab sim`")
	}
	return nil
}

func (a *app) upCommand() *cobra.Command {
	var f runFlags
	var detach bool
	cmd := &cobra.Command{
		Use:   "up SCENARIO",
		Short: "Build a scenario's lab, run its experiment, print the result and remove the lab",
		Long: `SCENARIO is a file or the name of an embedded scenario (` + strings.Join(scenarios.Names(), ", ") + `).
With -d the lab is left standing and nothing is run. --set changes single keys of the scenario;
the keys and their values are those of the file (see netkvlab schema).`,
		Example: `  netkvlab up quickstart --policies rr,netkv-full --seeds 1,2,3
  netkvlab up my.yaml --set workload.synthetic.requests=50 --set scale.rate=800
  netkvlab up paper-64gpu --parallel 9`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := scenarios.Load(args[0], f.settings...)
			if err != nil {
				return err
			}
			if detach && f.parallel != "1" {
				return usagef("--parallel: a lab that is left standing (-d) is one")
			}
			if err := errors.Join(f.checkWorlds(), f.apply(s), checkParallel(f.parallel)); err != nil {
				return err
			}
			c, err := trials.New(s)
			if err != nil {
				return err
			}
			return a.up(cmd.Context(), c, f, detach)
		},
	}
	f.add(cmd)
	f.addWorlds(cmd)
	addSettings(cmd, &f.settings)
	cmd.Flags().StringVar(&f.runtime, "runtime", "", "where agents run: process or docker (default: the scenario's)")
	cmd.Flags().StringVar(&f.parallel, "parallel", "1", "run trials in so many fabrics side by side, or in as many as the host carries (auto)")
	cmd.Flags().BoolVarP(&detach, "detach", "d", false, "leave the lab standing and run nothing")
	return cmd
}

// apply limits a scenario to the parts that the flags choose.
func (f *runFlags) apply(s *scenarios.Scenario) error {
	if s.Workload.Kind == scenarios.WorkloadFlows && len(f.policies) > 0 {
		return usagef("--policies: %s has explicit flows, for which no policy decides anything", s.Name)
	}
	if f.policies != nil {
		if len(f.policies) == 0 {
			return usagef("--policies: names none; known: %s", strings.Join(scenarios.PolicyNames(), ", "))
		}
		var chosen []scenarios.Policy
		for _, name := range f.policies {
			i := slices.IndexFunc(s.Policies, func(p scenarios.Policy) bool { return trials.Label(p) == name })
			switch {
			case i >= 0:
				chosen = append(chosen, s.Policies[i])
			case slices.Contains(scenarios.PolicyNames(), name):
				chosen = append(chosen, scenarios.NewPolicy(name))
			default:
				return usagef("--policies: unknown policy %q; known: %s", name, strings.Join(scenarios.PolicyNames(), ", "))
			}
		}
		s.Policies = chosen
	}
	if len(f.seeds) > 0 {
		s.Seeds = nil
		for _, seed := range f.seeds {
			s.Seeds = append(s.Seeds, uint64(seed))
		}
	}
	if f.runtime != "" {
		if !slices.Contains([]string{scenarios.RuntimeProcess, scenarios.RuntimeDocker}, f.runtime) {
			return usagef("--runtime: must be %s or %s, got %q", scenarios.RuntimeProcess, scenarios.RuntimeDocker, f.runtime)
		}
		s.Runtime = f.runtime
	}
	if f.skipBadLines && s.Workload.Trace != nil {
		s.Workload.Trace.SkipBadLines = true
	}
	if err := s.Validate(); err != nil {
		return usagef("with these flags the scenario is invalid: %w", err)
	}
	return nil
}

func (a *app) up(ctx context.Context, c *trials.Cluster, f runFlags, detach bool) (err error) {
	// What is wrong with the workload is said before anything about this host.
	if err := c.Check(); err != nil {
		return err
	}
	opt, err := a.labOptions(c.Scenario.Runtime, !detach)
	if err != nil {
		return err
	}
	defer opt.Progress.Close()
	fabrics := a.fabrics(f.parallel, opt)
	c, n, notes, err := fabrics.Resolve(ctx, c, len(c.Trials(results.WorldPacket, c.Scenario.Seeds)))
	if err != nil {
		return err
	}
	if detach {
		labs, err := lab.BuildGroup(ctx, c, 1, opt)
		if err != nil {
			return err
		}
		return a.leaveStanding(ctx, labs[0], opt)
	}
	// Before anything is built, since a run without results is useless.
	out, giveBack, err := a.runFolder(f.out, c.Scenario.Name)
	if err != nil {
		return err
	}
	defer giveBack()
	var outcome *experiment.Outcome
	err = fabrics.With(ctx, c, n, func(labs []*lab.Lab) (err error) {
		outcome, err = a.experiment(ctx, labs, experiment.Options{Cluster: c, Out: out, Worlds: f.worlds, Notes: notes}, opt)
		return err
	})
	opt.Progress.Close()
	return errors.Join(a.show(outcome, c.Scenario, f.strict), err)
}

// leaveStanding configures a lab's agents, so that their errors show now, and releases the lab.
func (a *app) leaveStanding(ctx context.Context, l *lab.Lab, opt lab.Options) error {
	opt.Progress.Phase("choosing source ports for every path and opening connections")
	if _, err := packetworld.Configure(ctx, l, l.Cluster); err != nil {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return errors.Join(err, lab.RemoveGroup(cleanup, []*lab.Lab{l}))
	}
	if err := l.Detach(); err != nil {
		return err
	}
	name := l.Name()
	opt.Progress.Note("lab %s is up: `netkvlab run %s` runs its experiment, `netkvlab down %s` removes it", name, name, name)
	return a.printLab(l.Info())
}

func (a *app) experiment(ctx context.Context, labs []*lab.Lab, o experiment.Options, opt lab.Options) (*experiment.Outcome, error) {
	o.Version, o.Progress = version, opt.Progress
	if rt, ok := opt.Runtime.(interface {
		Versions(ctx context.Context) map[string]string
	}); ok {
		o.Runtimes = rt.Versions(ctx)
	}
	return experiment.Run(ctx, labs, o)
}

// show prints an outcome; an interrupted one only as far as it got.
func (a *app) show(o *experiment.Outcome, s *scenarios.Scenario, strict bool) (err error) {
	if o == nil {
		return nil
	}
	if uid, gid, ok := sudoCaller(os.Getenv); ok && os.Geteuid() == 0 {
		defer func() { err = errors.Join(err, handOver(o.Folder, uid, gid)) }()
	}
	if a.output == "json" {
		enc := json.NewEncoder(a.stdout)
		enc.SetIndent("", "  ")
		if err := enc.Encode(o.Summary); err != nil {
			return err
		}
	} else if err := a.showText(o, s); err != nil {
		return err
	}
	if strict && o.Summary.Fidelity.Verdict != results.VerdictGood {
		return fmt.Errorf("%w but %s: %s", errNotGood, o.Summary.Fidelity.Verdict, strings.Join(o.Summary.Fidelity.Reasons, "; "))
	}
	return nil
}

func (a *app) showText(o *experiment.Outcome, s *scenarios.Scenario) error {
	opt := report.Options{Folder: o.Folder}
	if s.Workload.Kind == scenarios.WorkloadFlows {
		if err := report.Flows(a.stdout, o.Records, opt); err != nil {
			return err
		}
	}
	return report.Text(a.stdout, o.Summary, opt)
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run LAB",
		Short: "Run the experiment of a standing lab",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opt, err := a.standingOptions(args[0])
			if err != nil {
				return err
			}
			defer opt.Progress.Close()
			l, err := lab.Attach(cmd.Context(), args[0], opt)
			if err != nil {
				return err
			}
			s := *l.Scenario
			if err := errors.Join(f.checkWorlds(), f.apply(&s)); err != nil {
				return errors.Join(err, l.Detach())
			}
			c, err := trials.New(&s)
			if err != nil {
				return errors.Join(err, l.Detach())
			}
			out, giveBack, err := a.runFolder(f.out, s.Name)
			if err != nil {
				return errors.Join(err, l.Detach())
			}
			defer giveBack()
			outcome, runErr := a.experiment(cmd.Context(), []*lab.Lab{l}, experiment.Options{Cluster: c, Out: out, Worlds: f.worlds}, opt)
			detachErr := l.Detach()
			opt.Progress.Close()
			return errors.Join(a.show(outcome, &s, f.strict), runErr, detachErr)
		},
	}
	f.add(cmd)
	f.addWorlds(cmd)
	return cmd
}
