package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/internal/sweep/tune"
	"github.com/netkvlab/netkvlab/scenarios"
)

func (a *app) tuneCommand() *cobra.Command {
	var out string
	var settings []string
	var opt tune.Options
	cmd := &cobra.Command{
		Use:   "tune SCENARIO",
		Short: "Find the weights of cla* in the flow world",
		Long: `Searches the grid of cache weight against load weight for the least mean time to first token
(or another --metric), on seeds that the scenario does not use, or on a slice of the trace beside
the scenario's. --out writes the winner and the whole grid to a file that a scenario can name:

  policies: [rr, {name: cla*, weights: weights.yaml}, netkv-full]`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opt.Check(); err != nil {
				return usageError{err}
			}
			s, err := scenarios.Load(args[0], settings...)
			if err != nil {
				return err
			}
			progress := lab.NewProgress(a.stderr)
			opt.Progress = func(done, total int) { progress.Step("tune", done, total, 0) }
			r, err := tune.Search(cmd.Context(), s, opt)
			progress.Close()
			if err != nil {
				return err
			}
			text, err := r.Weights.Marshal()
			if err != nil {
				return err
			}
			if out != "" {
				head := "# Weights of cla*, written by `netkvlab tune`. A policy takes them by {name: cla*, weights: THIS FILE}.\n"
				if err := os.WriteFile(out, append([]byte(head), text...), 0o644); err != nil {
					return fmt.Errorf("--out: %w", err)
				}
			}
			return a.showWeights(r)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "write the weights and the grid to this file")
	cmd.Flags().StringVar(&opt.Metric, "metric", "ttft_mean", "what to tune for: a metric of the sweep table")
	cmd.Flags().IntVar(&opt.Seeds, "seeds", 5, "how many seeds outside the scenario's to tune on")
	addSettings(cmd, &settings)
	return cmd
}

func (a *app) showWeights(r *tune.Result) error {
	if a.output == "json" {
		type point struct {
			CacheWeight float64 `json:"cache_weight"`
			LoadWeight  float64 `json:"load_weight"`
			Score       float64 `json:"score"`
			CI95        float64 `json:"ci95"`
		}
		grid := []point{}
		for _, p := range r.Weights.Grid {
			grid = append(grid, point(p))
		}
		return a.printJSON(map[string]any{
			"scenario": r.Weights.Scenario, "metric": r.Metric.Name, "unit": r.Metric.Unit, "tuned_on": r.Weights.TunedOn,
			"cache_weight": r.Weights.CacheWeight, "load_weight": r.Weights.LoadWeight, "grid": grid,
			"flat_points": r.Flat, "spread_pct": r.SpreadPct,
		})
	}
	fmt.Fprintf(a.stdout, "%s, tuned on %s\n\n%12s %12s %14s\n", r.Weights.Scenario, r.Weights.TunedOn, "cacheWeight", "loadWeight", r.Metric.Name+" "+r.Metric.Unit)
	for i, p := range r.Weights.Grid {
		mark := ""
		if i == r.Best {
			mark = "  <- best"
		}
		fmt.Fprintf(a.stdout, "%12g %12g %14.6g%s\n", p.CacheWeight, p.LoadWeight, p.Score, mark)
	}
	fmt.Fprintf(a.stdout, "\ncla* with cacheWeight %g and loadWeight %g; %s.\n", r.Weights.CacheWeight, r.Weights.LoadWeight, r.Weights.Sensitivity)
	return nil
}
