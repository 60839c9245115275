package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

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
	detach       bool
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

func upCommand(p *printer, l *labs) *cobra.Command {
	var f runFlags
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
			if f.detach && f.parallel != "1" {
				return usagef("--parallel: a lab that is left standing (-d) is one")
			}
			if err := errors.Join(f.checkWorlds(), f.apply(s), checkParallel(f.parallel)); err != nil {
				return err
			}
			c, err := trials.New(s)
			if err != nil {
				return err
			}
			return up(cmd.Context(), c, f, p, l)
		},
	}
	f.add(cmd)
	f.addWorlds(cmd)
	addSettings(cmd, &f.settings)
	cmd.Flags().StringVar(&f.runtime, "runtime", "", "where agents run: process or docker (default: the scenario's)")
	cmd.Flags().StringVar(&f.parallel, "parallel", "1", "run trials in so many fabrics side by side, or in as many as the host carries (auto)")
	cmd.Flags().BoolVarP(&f.detach, "detach", "d", false, "leave the lab standing and run nothing")
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

func up(ctx context.Context, c *trials.Cluster, f runFlags, p *printer, l *labs) error {
	// What is wrong with the workload is said before anything about this host.
	if err := c.Check(); err != nil {
		return err
	}
	opt, err := l.options(c.Scenario.Runtime, !f.detach)
	if err != nil {
		return err
	}
	defer opt.Progress.Close()
	fabrics := l.fabrics(f.parallel, opt)
	c, n, notes, err := fabrics.Resolve(ctx, c, len(c.Trials(results.WorldPacket, c.Scenario.Seeds)))
	if err != nil {
		return err
	}
	if f.detach {
		labs, err := lab.BuildGroup(ctx, c, 1, opt)
		if err != nil {
			return err
		}
		return leaveStanding(ctx, labs[0], opt, p)
	}
	return f.run(p, c, opt.Progress, func(o experiment.Options) (outcome *experiment.Outcome, err error) {
		o.Notes = notes
		err = fabrics.With(ctx, c, n, func(labs []*lab.Lab) (err error) {
			outcome, err = runExperiment(ctx, labs, o, opt)
			return err
		})
		return outcome, err
	})
}

// run calls work with a run folder for its results, and shows the outcome. The folder is checked
// before anything is built, since a run without results is useless.
func (f *runFlags) run(p *printer, c *trials.Cluster, progress *lab.Progress,
	work func(experiment.Options) (*experiment.Outcome, error)) error {
	out, giveBack, err := runFolder(f.out, c.Scenario.Name)
	if err != nil {
		return err
	}
	defer giveBack()
	outcome, err := work(experiment.Options{Cluster: c, Out: out, Worlds: f.worlds, Version: version, Progress: progress})
	progress.Close()
	return errors.Join(showOutcome(p, outcome, c.Scenario, f.strict), err)
}

// leaveStanding configures a lab's agents, so that their errors show now, and releases the lab.
func leaveStanding(ctx context.Context, l *lab.Lab, opt lab.Options, p *printer) error {
	opt.Progress.Phase("choosing source ports for every path and opening connections")
	if _, err := packetworld.Configure(ctx, l, l.Cluster); err != nil {
		return errors.Join(err, lab.RemoveGroup(ctx, []*lab.Lab{l}))
	}
	if err := l.Detach(); err != nil {
		return err
	}
	name := l.Name()
	opt.Progress.Note("lab %s is up: `netkvlab run %s` runs its experiment, `netkvlab down %s` removes it", name, name, name)
	return show(p, l.Info(), func(w io.Writer, i lab.Info) error {
		fmt.Fprintf(w, "%s: %s, %d namespaces, %d agents\n", i.Lab, i.Status, i.Namespaces, i.Agents)
		return nil
	})
}

func runExperiment(ctx context.Context, labs []*lab.Lab, o experiment.Options, opt lab.Options) (*experiment.Outcome, error) {
	if rt, ok := opt.Runtime.(interface {
		Versions(ctx context.Context) map[string]string
	}); ok {
		o.Runtimes = rt.Versions(ctx)
	}
	return experiment.Run(ctx, labs, o)
}

// showOutcome prints an outcome; an interrupted one only as far as it got.
func showOutcome(p *printer, o *experiment.Outcome, s *scenarios.Scenario, strict bool) (err error) {
	if o == nil {
		return nil
	}
	defer func() { err = errors.Join(err, giveToCaller(o.Folder)) }()
	err = show(p, o.Summary, func(w io.Writer, summary *results.Summary) error {
		opt := report.Options{Folder: o.Folder}
		if s.Workload.Kind == scenarios.WorkloadFlows {
			if err := report.Flows(w, o.Records, opt); err != nil {
				return err
			}
		}
		return report.Text(w, summary, opt)
	})
	if fidelity := o.Summary.Fidelity; err == nil && strict && fidelity.Verdict != results.VerdictGood {
		err = fmt.Errorf("%w but %s: %s", errNotGood, fidelity.Verdict, strings.Join(fidelity.Reasons, "; "))
	}
	return err
}

func runCommand(p *printer, l *labs) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run LAB",
		Short: "Run the experiment of a standing lab",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opt, err := l.standing(args[0])
			if err != nil {
				return err
			}
			defer opt.Progress.Close()
			standing, err := lab.Attach(cmd.Context(), args[0], opt)
			if err != nil {
				return err
			}
			detach := sync.OnceValue(standing.Detach) // after an error, and before the outcome is shown
			c, err := f.limit(*standing.Scenario)
			if err != nil {
				return errors.Join(err, detach())
			}
			err = f.run(p, c, opt.Progress, func(o experiment.Options) (*experiment.Outcome, error) {
				outcome, err := runExperiment(cmd.Context(), []*lab.Lab{standing}, o, opt)
				return outcome, errors.Join(err, detach())
			})
			return errors.Join(err, detach())
		},
	}
	f.add(cmd)
	f.addWorlds(cmd)
	return cmd
}

// limit makes the cluster of a scenario that is limited by the flags.
func (f *runFlags) limit(s scenarios.Scenario) (*trials.Cluster, error) {
	if err := errors.Join(f.checkWorlds(), f.apply(&s)); err != nil {
		return nil, err
	}
	return trials.New(&s)
}
