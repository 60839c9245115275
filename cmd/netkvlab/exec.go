package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/nodes"
)

// exitStatus is the exit code of the command that was run.
type exitStatus int

func (e exitStatus) Error() string { return "" }

func execCommand(p *printer, l *labs) *cobra.Command {
	return &cobra.Command{
		Use:   "exec LAB NODE -- CMD [ARG...]",
		Short: "Run a command inside a node's network namespace",
		Example: `  netkvlab exec quickstart p0 -- ip route
  netkvlab exec quickstart tor0-0 -- tc -s qdisc`,
		Args: cobra.MinimumNArgs(3),
		// The command inherits none of our descriptors: making the options closes them to it.
		RunE: l.command(func(ctx context.Context, args []string, _ lab.Options) error {
			signals, stop := commandsSignals()
			defer stop()
			code, err := lab.Exec(ctx, nodes.ExecSpec{
				Lab: args[0], Node: args[1], Command: args[2:], Signals: signals,
				In: os.Stdin, Out: p.stdout, Err: p.stderr,
			})
			if err == nil && code != 0 {
				err = exitStatus(code)
			}
			return err
		}),
	}
}

// commandsSignals receives the signals that would end netkvlab, so that they are forwarded to
// the command: a shell continues after Ctrl-C, and tcpdump prints its counts. On a terminal the
// command is in our foreground process group and gets Ctrl-C directly.
func commandsSignals() (<-chan os.Signal, func()) {
	signal.Reset(unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	passed, dropped := make(chan os.Signal, 4), make(chan os.Signal, 1)
	notify(passed, unix.SIGTERM, unix.SIGHUP)
	if term.IsTerminal(int(os.Stdin.Fd())) {
		notify(dropped, unix.SIGINT, unix.SIGQUIT)
	} else {
		notify(passed, unix.SIGINT)
	}
	return passed, func() {
		signal.Stop(passed)
		signal.Stop(dropped)
	}
}
