package analysis_test

import (
	"fmt"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/results"
)

// A policy does not look faster when its slow request fails: the request is left out of the
// comparison, and the result says how many were.
func ExampleSummarize() {
	record := func(policy string, id int, ms float64) results.Record {
		return results.Record{
			World: results.WorldFlow, Policy: policy, Seed: 1, ID: id, Status: results.Completed,
			PromptTokens: 1000, OutputTokens: 1, Tier: 3, TransferMS: ms, TTFTMS: &ms,
		}
	}
	failed := record("netkv-full", 1, 0)
	failed.Status, failed.Reason, failed.TTFTMS = results.Failed, "timeout", nil

	s := analysis.Summarize([]results.Record{
		record("rr", 0, 100), record("rr", 1, 900), record("netkv-full", 0, 80), failed,
	}, results.Meta{Policies: []string{"rr", "netkv-full"}, Fidelity: results.Fidelity{Verdict: results.VerdictGood}})

	g := s.Gains[0]
	fmt.Printf("%s vs %s: %+.0f %% over %d pair, %d not completed\n",
		g.Policy, g.Baseline, *g.FlowPct, g.Worlds["flow"].Pairs, g.Worlds["flow"].PolicyNotCompleted)
	// Output: netkv-full vs rr: -20 % over 1 pair, 1 not completed
}
