package attribution_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/flowsim"
	"github.com/netkvlab/netkvlab/internal/flowworld"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/scenarios"
)

// experiment is the flow world of the quickstart that matches the packet world.
func experiment(t *testing.T, settings ...string) trials.Flow {
	t.Helper()
	s, err := scenarios.Load("quickstart", settings...)
	require.NoError(t, err)
	c, err := trials.New(s)
	require.NoError(t, err)
	return trials.Flow{Cluster: c, Framing: flowsim.FullSegmentFraming}
}

// play runs all policies on the seeds, after edit has changed the requests.
func play(t *testing.T, e trials.Flow, world string, seeds []uint64, edit func([]workload.Request)) []results.Record {
	t.Helper()
	var out []results.Record
	for _, trial := range e.Cluster.Trials(world, seeds) {
		l, err := e.Cluster.Load(trial.Seed)
		require.NoError(t, err)
		own := trials.Load{Requests: slices.Clone(l.Requests)}
		if edit != nil {
			edit(own.Requests)
		}
		records, err := trials.PlayLoad(t.Context(), e, e.Cluster, trial, &own)
		require.NoError(t, err)
		out = append(out, records...)
	}
	return out
}

// replayed is the fluid counterpart of packet records.
func replayed(t *testing.T, e trials.Flow, packet []results.Record) []results.Record {
	t.Helper()
	var out []results.Record
	for i := 0; i < len(packet); {
		j := i
		for j < len(packet) && packet[j].Policy == packet[i].Policy && packet[j].Seed == packet[i].Seed {
			j++
		}
		rows, err := flowworld.Replay(t.Context(), e.Config(packet[i].Seed), packet[i:j])
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
