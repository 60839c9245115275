package attribution_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/flowsim"
	"github.com/netkvlab/netkvlab/internal/analysis/attribution"
	"github.com/netkvlab/netkvlab/internal/flowworld"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/scenarios"
)

// experiment is the quickstart's, with the flow world as it runs beside packets.
func experiment(t *testing.T, settings ...string) *attribution.Experiment {
	t.Helper()
	s, err := scenarios.Load("quickstart", settings...)
	require.NoError(t, err)
	plan, err := fabric.New(s, s.Scale)
	require.NoError(t, err)
	return &attribution.Experiment{
		Scenario: s, Plan: plan, Policies: s.Policies,
		Flow: func(seed uint64) flowworld.Config {
			cfg := trials.FlowWorld(s, plan, seed)
			cfg.Framing = flowsim.FullSegmentFraming
			return cfg
		},
		Requests: func(seed uint64) ([]workload.Request, error) {
			reqs, _, err := workload.Generate(s, seed)
			return reqs, err
		},
	}
}

// play runs all policies on the seeds, with what edit makes of the requests.
func play(t *testing.T, e *attribution.Experiment, world string, seeds []uint64, edit func([]workload.Request)) []results.Record {
	t.Helper()
	var out []results.Record
	for _, seed := range seeds {
		for _, p := range e.Policies {
			reqs, err := e.Requests(seed)
			require.NoError(t, err)
			if edit != nil {
				edit(reqs)
			}
			d, err := trials.Serving(e.Scenario, e.Plan, trials.Trial{World: world, Policy: p, Seed: seed}, reqs, nil)
			require.NoError(t, err)
			w, err := flowworld.New(e.Flow(seed))
			require.NoError(t, err)
			require.NoError(t, w.Run(t.Context(), d))
			records := d.Records()
			trials.NamePaths(e.Plan, records)
			out = append(out, records...)
		}
	}
	return out
}

// replayed is the fluid counterpart of packet records.
func replayed(t *testing.T, e *attribution.Experiment, packet []results.Record) []results.Record {
	t.Helper()
	var out []results.Record
	for i := 0; i < len(packet); {
		j := i
		for j < len(packet) && packet[j].Policy == packet[i].Policy && packet[j].Seed == packet[i].Seed {
			j++
		}
		rows, err := flowworld.Replay(t.Context(), e.Flow(packet[i].Seed), packet[i:j])
		require.NoError(t, err)
		out = append(out, rows...)
		i = j
	}
	return out
}

// slowed makes each transfer take longer by a factor of at least 1, as packets might.
func slowed(records []results.Record, factor func(rng *rand.Rand) float64) []results.Record {
	rng := rand.New(rand.NewPCG(7, 7))
	for i := range records {
		r := &records[i]
		if r.Status != results.Completed {
			continue
		}
		more := r.TransferMS * (factor(rng) - 1)
		ttft := *r.TTFTMS + more
		r.TransferMS, r.TTFTMS = r.TransferMS+more, &ttft
	}
	return records
}
