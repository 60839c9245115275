package main

import (
	"github.com/spf13/cobra"

	"github.com/netkvlab/netkvlab/internal/experiment"
	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

func simCommand(p *printer) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "sim SCENARIO",
		Short: "Run a scenario in the flow world alone: no root, no lab",
		Long: `The same requests, policies and instance model as up, over max-min fair shares of the same
topology on a virtual clock. Nothing of the host is touched, and the same seed gives the same bytes.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := scenarios.Load(args[0], f.settings...)
			if err != nil {
				return err
			}
			if err := f.apply(s); err != nil {
				return err
			}
			if s.Scale.Rate == 0 {
				s.Scale.Rate = 1 // auto depends on what a host carries, but no packets are sent here
			}
			c, err := trials.New(s)
			if err != nil {
				return err
			}
			return f.run(p, c, lab.NewProgress(p.stderr), func(o experiment.Options) (*experiment.Outcome, error) {
				return experiment.Simulate(cmd.Context(), o)
			})
		},
	}
	f.add(cmd)
	addSettings(cmd, &f.settings)
	return cmd
}
