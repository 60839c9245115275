package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/nodes"
)

// exitStatus is a command's own exit code, passed on.
type exitStatus int

func (e exitStatus) Error() string { return "" }

func (a *app) execCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "exec LAB NODE -- CMD [ARG...]",
		Short: "Run a command inside a node's network namespace",
		Example: `  netkvlab exec quickstart p0 -- ip route
  netkvlab exec quickstart tor0-0 -- tc -s qdisc`,
		Args: cobra.MinimumNArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			opt, err := a.labOptions("", false)
			if err != nil {
				return err
			}
			code, err := lab.Exec(cmd.Context(), args[0], args[1], args[2:], nodes.Stdio{In: os.Stdin, Out: a.stdout, Err: a.stderr}, opt)
			if err != nil {
				return err
			}
			if code != 0 {
				return exitStatus(code)
			}
			return nil
		},
	}
}
