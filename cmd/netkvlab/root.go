package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/scenarios"
)

// run executes one command line and returns its exit code. There is no global state.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := rootCommand(&printer{stdout: stdout, stderr: stderr},
		&labs{store: lab.Store{Root: lab.DefaultRoot}, calibration: host.CalibrationDir, stderr: stderr})
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

// printer prints results: data on stdout, everything else on stderr.
type printer struct {
	stdout, stderr io.Writer
	output         string // text | json
}

// show prints a result on stdout, as JSON or as the given text.
func show[T any](p *printer, result T, text func(w io.Writer, result T) error) error {
	if p.output == "json" {
		enc := json.NewEncoder(p.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(result)
	}
	return text(p.stdout, result)
}

func rootCommand(p *printer, l *labs) *cobra.Command {
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
			if p.output != "text" && p.output != "json" {
				return usagef("--output: must be text or json, got %q", p.output)
			}
			return nil
		},
	}
	cmd.SetOut(p.stdout)
	cmd.SetErr(p.stderr)
	cmd.PersistentFlags().StringVar(&p.output, "output", "text", "what to print on stdout: text or json")
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%w (see `%s --help`)", err, c.CommandPath())
	})
	cmd.AddCommand(
		upCommand(p, l), runCommand(p, l), simCommand(p), compareCommand(p), tuneCommand(p), sweepCommand(p, l),
		downCommand(p, l), psCommand(p, l), inspectCommand(p, l), execCommand(p, l),
		doctorCommand(p, l), validateCommand(p, l), schemaCommand(p), versionCommand(p),
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

// The exit codes of the command-line contract.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2 // usage or invalid scenario
	exitNotGood     = 3 // ran, but the fidelity verdict is not good under --strict
	exitInterrupted = 130
)

// errNotGood means that a run's verdict does not satisfy --strict.
var errNotGood = errors.New("the fidelity verdict is not good")

// usageError is a mistake in how the command was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exitCode maps an error to an exit code. An interruption comes before the errors that it
// caused.
func exitCode(err error) int {
	status, exited := errors.AsType[exitStatus](err)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, errNotGood):
		return exitNotGood
	case exited:
		return int(status)
	case invalid(err):
		return exitUsage
	}
	return exitFailed
}

// invalid reports a fault in the user's input: the command line, the scenario, or a file of it.
func invalid(err error) bool {
	return errors.As(err, new(usageError)) || errors.As(err, new(*scenarios.Error)) ||
		errors.As(err, new(*workload.InputError)) || errors.As(err, new(trials.InvalidError))
}

// printError prints an error once, with one line per joined error.
func printError(w io.Writer, err error) {
	shown := map[string]bool{}
	for _, e := range flat(err) {
		text := e.Error()
		if errors.As(e, new(exitStatus)) || text == context.Canceled.Error() || unread(e) || shown[text] {
			continue // the command itself has printed its message
		}
		shown[text] = true
		fmt.Fprintln(w, "netkvlab:", text)
	}
}

// unread reports whether the reader of our output has closed it, as head(1) does.
func unread(err error) bool {
	at, ok := errors.AsType[*fs.PathError](err)
	return ok && at.Path == os.Stdout.Name() && errors.Is(at, unix.EPIPE)
}

// flat splits joined errors. It does not split errors that contain others in their text.
func flat(err error) []error {
	var list interface{ Unwrap() []error }
	if !errors.As(err, &list) || err.Error() != errors.Join(list.Unwrap()...).Error() {
		return []error{err}
	}
	var out []error
	for _, e := range list.Unwrap() {
		out = append(out, flat(e)...)
	}
	return out
}
