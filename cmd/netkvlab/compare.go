package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/netkvlab/netkvlab/internal/analysis/compare"
	"github.com/netkvlab/netkvlab/internal/report"
)

func compareCommand(p *printer) *cobra.Command {
	var baselines []string
	cmd := &cobra.Command{
		Use:   "compare RUN RUN...",
		Short: "Compare the gains of runs, or of a run and another simulator",
		Long: `Each RUN is a run folder, a run folder and one of its worlds (RUN:packet, RUN:flow, RUN:replay), or
a CSV file of another simulator with the columns

  policy,seed,id,ttft_ms,transfer_ms[,status]

where seed and id name the request as in requests.jsonl. Requests that all have are compared in
pairs; whatever keeps runs from being compared is said.`,
		Example: `  netkvlab compare run-a run-b
  netkvlab compare run-a run-a:flow
  netkvlab compare run-a simulator.csv --output json`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			sources := make([]*compare.Source, len(args))
			for i, arg := range args {
				var err error
				if sources[i], err = compare.Load(arg); err != nil {
					return usagef("%w", err)
				}
			}
			c, err := compare.Compare(sources, baselines...)
			if err != nil {
				return usagef("%w", err)
			}
			return show(p, c, func(w io.Writer, c *compare.Comparison) error { return report.Compare(w, c, report.Options{}) })
		},
	}
	cmd.Flags().StringSliceVar(&baselines, "baselines", nil,
		"count gains against these policies (default: each policy against each one listed before it)")
	return cmd
}
