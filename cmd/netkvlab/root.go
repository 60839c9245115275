package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/nodes"
	"github.com/netkvlab/netkvlab/nodes/docker"
	"github.com/netkvlab/netkvlab/scenarios"
)

// app holds what all commands share. There is no global state.
type app struct {
	stdout, stderr io.Writer
	output         string // text | json
	store          lab.Store
	calibration    string // folder of the host's calibration
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{stdout: stdout, stderr: stderr, store: lab.Store{Root: lab.DefaultRoot}, calibration: host.CalibrationDir}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil {
		printError(stderr, err)
	}
	if err != nil && ctx.Err() != nil {
		return exitInterrupted // it has priority over the errors that it caused
	}
	return exitCode(err)
}

func (a *app) root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "netkvlab",
		Short: "Emulate a disaggregated LLM cluster's network and compare schedulers on it",
		Long: `netkvlab builds an oversubscribed ECMP fat-tree out of network namespaces, moves
KV-cache-sized byte streams through it over real TCP, and tells each scheduling
policy's time to first token.

  sudo netkvlab up quickstart      build, run, print, remove: under a minute`,
		SilenceUsage: true, SilenceErrors: true,
		Args: knownCommand,
		// Runnable, because without RunE cobra prints help for any unknown word.
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if a.output != "text" && a.output != "json" {
				return usagef("--output: must be text or json, got %q", a.output)
			}
			return nil
		},
	}
	cmd.SetOut(a.stdout)
	cmd.SetErr(a.stderr)
	cmd.PersistentFlags().StringVar(&a.output, "output", "text", "what to print on stdout: text or json")
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%w (see `%s --help`)", err, c.CommandPath())
	})
	cmd.AddCommand(
		a.upCommand(), a.runCommand(), a.simCommand(), a.compareCommand(), a.tuneCommand(), a.sweepCommand(), a.downCommand(), a.psCommand(), a.inspectCommand(), a.execCommand(),
		a.doctorCommand(), a.validateCommand(), a.schemaCommand(), a.versionCommand(),
	)
	usageArgs(cmd)
	return cmd
}

// knownCommand refuses an unknown command and names the nearest known ones.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	hint := ""
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return fmt.Errorf("unknown command %q%s", args[0], hint)
}

// usageArgs turns every command's errors about its arguments into usage errors.
func usageArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return usagef("%w (see `%s --help`)", err, c.CommandPath())
			}
			return nil
		}
	}
	for _, c := range cmd.Commands() {
		usageArgs(c)
	}
}

// labOptions are the options for working on labs.
func (a *app) labOptions(runtime string, leash bool) (lab.Options, error) {
	return a.labOptionsWith(docker.NewEngine(os.Getenv), runtime, leash)
}

// standingOptions are the options for using an existing lab, with the runtime and the engine
// that it was made with.
func (a *app) standingOptions(name string) (lab.Options, error) {
	engine := docker.NewEngine(os.Getenv)
	if host := a.store.Engine(name); host != "" {
		engine = docker.EngineAt(host)
	}
	return a.labOptionsWith(engine, a.runtimeOf(name), false)
}

func (a *app) labOptionsWith(engine *docker.Engine, runtime string, leash bool) (lab.Options, error) {
	if err := lab.NeedRoot(); err != nil {
		return lab.Options{}, err
	}
	rt, err := newRuntime(runtime, engine)
	if err != nil {
		return lab.Options{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return lab.Options{}, fmt.Errorf("find this program's own file: %w", err)
	}
	return lab.Options{
		Store: a.store, Runtime: rt, Progress: lab.NewProgress(a.stderr), Version: version, Executable: self, Leash: leash,
		Containers: engine, ContainersOf: func(host string) lab.Containers { return docker.EngineAt(host) },
	}, nil
}

// runtimeOf is the runtime of an existing lab's agents; empty if it is not known.
func (a *app) runtimeOf(name string) string {
	if st, err := a.store.Load(name); err == nil {
		return st.Runtime
	}
	return ""
}

func newRuntime(name string, engine *docker.Engine) (nodes.Runtime, error) {
	switch name {
	case "", scenarios.RuntimeProcess:
		return nodes.NewProcess()
	case scenarios.RuntimeDocker:
		return docker.New(engine, version), nil
	}
	return nil, usagef("runtime: must be process or docker, got %q", name)
}
