package flowworld_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/controller"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

// killer takes decode instances out of service for good, at a time of the trial.
type killer struct {
	controller.Driver
	at    time.Duration
	kills []int
}

func (k *killer) Next() (time.Duration, bool) {
	at, ok := k.Driver.Next()
	if len(k.kills) > 0 && (!ok || k.at < at) {
		return k.at, true
	}
	return at, ok
}

func (k *killer) Wake(now time.Duration) []controller.Action {
	if len(k.kills) == 0 || now < k.at {
		return k.Driver.Wake(now)
	}
	var out []controller.Action
	for _, d := range k.kills {
		out = append(out, k.Handle(now, controller.Event{Kind: controller.DecodeDown, Decode: d, At: now, Reason: "killed"})...)
	}
	k.kills = nil
	return append(out, k.Driver.Wake(now)...)
}

// damaged runs a policy while some decode instances die.
func damaged(t *testing.T, s *scenarios.Scenario, policy string, at time.Duration, kills ...int) []results.Record {
	t.Helper()
	c, err := trials.New(s)
	require.NoError(t, err)
	l, err := c.Load(1)
	require.NoError(t, err)
	trial := trials.Trial{World: results.WorldFlow, Policy: scenarios.NewPolicy(policy), Seed: 1}
	d, err := c.Driver(trial, l)
	require.NoError(t, err)
	require.NoError(t, trials.Flow{Cluster: c}.Run(t.Context(), trial, &killer{Driver: d, at: at, kills: kills}))
	return d.Records()
}

// TestSummaryOfADamagedRunFollowsFromItsRows: answers of one token, a decode instance that dies
// halfway, and a policy that fails everything. The files are read back independently of the
// package.
func TestSummaryOfADamagedRunFollowsFromItsRows(t *testing.T) {
	t.Parallel()
	s, err := scenarios.Load("paper-64gpu", "workload.synthetic.requests=200", "workload.synthetic.output={mean: 3, sigma: 1, min: 1, max: 20}", "workload.synthetic.rate=6/s", "transfer.retries=0", "scale.rate=1000")
	require.NoError(t, err)
	records := slices.Concat(
		damaged(t, s, "rr", 0),
		damaged(t, s, "cla", 15*time.Second, 0, 1, 2, 3, 4),
		damaged(t, s, "random", 0, 0, 1, 2, 3, 4, 5, 6, 7),
	)
	dir := filepath.Join(t.TempDir(), "run")
	w, err := results.Create(dir)
	require.NoError(t, err)
	for i := range records {
		require.NoError(t, w.Append(records[i]))
	}
	require.NoError(t, w.Finish(analysis.Summarize(records, results.Meta{
		Policies: []string{"rr", "cla", "random"}, Seeds: []uint64{1}, Fidelity: results.Fidelity{Verdict: results.VerdictGood},
	})))
	rows, sum := readBack(t, dir)
	assert.Zero(t, sum.Violations, "a damaged run is still a lawful one")

	lost := 0.0
	done := map[string]map[float64]map[string]any{} // by policy and id
	for policy, g := range sum.Worlds["flow"] {
		done[policy] = recount(t, rows[policy], g, policy)
		if policy == "cla" {
			lost = g["requests"].(map[string]any)["failed"].(float64)
		}
	}
	assert.Greater(t, lost, 0.0, "some were on the instances that died")
	assert.Less(t, lost, 100.0)
	t.Logf("%g requests were lost with their instances", lost)
	assert.Empty(t, done["random"])

	for _, g := range sum.Gains {
		basis := g["worlds"].(map[string]any)["flow"].(map[string]any)
		policy, base := done[g["policy"].(string)], done[g["baseline"].(string)]
		assert.InDelta(t, 200-len(policy), basis["policy_not_completed"], 0, "the count stands beside the gain")
		metric := g["metric"].(string)
		if metric == "slo" {
			continue
		}
		if len(policy) == 0 || len(base) == 0 {
			assert.NotContains(t, g, "flow_pct")
			assert.NotEmpty(t, basis["reason"])
			continue
		}
		var a, b float64
		for id, r := range policy {
			if other, ok := base[id]; ok {
				a, b = a+r[metric].(float64), b+other[metric].(float64)
			}
		}
		assert.InDelta(t, 100*(a/b-1), g["flow_pct"], 1e-6, "%s %s", g["policy"], metric)
	}
}

type readSummary struct {
	Worlds     map[string]map[string]map[string]any
	Gains      []map[string]any
	Violations int `json:"violation_count"`
}

func readBack(t *testing.T, dir string) (map[string][]map[string]any, readSummary) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, results.RequestsFile))
	require.NoError(t, err)
	rows := map[string][]map[string]any{}
	for line := range strings.Lines(string(data)) {
		var r map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		rows[r["policy"].(string)] = append(rows[r["policy"].(string)], r)
	}
	data, err = os.ReadFile(filepath.Join(dir, results.SummaryFile))
	require.NoError(t, err)
	var sum readSummary
	require.NoError(t, json.Unmarshal(data, &sum))
	return rows, sum
}

// recount computes a group's counts and means from its rows, and returns those that completed.
func recount(t *testing.T, rows []map[string]any, g map[string]any, policy string) map[float64]map[string]any {
	t.Helper()
	done := map[float64]map[string]any{}
	values := map[string][]float64{}
	var wasted float64
	for _, r := range rows {
		wasted += r["wasted_bytes_emulated"].(float64)
		if r["status"] != "completed" {
			assert.NotEmpty(t, r["reason"])
			assert.NotContains(t, r, "finish_ms")
			continue
		}
		done[r["id"].(float64)] = r
		for _, key := range []string{"ttft_ms", "tbt_ms", "transfer_ms", "prefill_ms"} {
			if v, ok := r[key]; ok {
				values[key] = append(values[key], v.(float64))
			}
		}
		_, ok := r["tbt_ms"]
		assert.Equal(t, r["output_tokens"].(float64) > 1, ok, "one token has no time between tokens")
	}
	n, all := float64(len(done)), float64(len(rows))
	assert.Equal(t, map[string]any{"submitted": all, "completed": n, "failed": all - n, "incomplete": 0.0}, g["requests"], policy)
	assert.InDelta(t, wasted, g["wasted_bytes_emulated"], 0)
	for _, key := range []string{"ttft_ms", "tbt_ms", "transfer_ms", "prefill_ms"} {
		v := values[key]
		if len(v) == 0 {
			assert.NotContains(t, g, key, policy)
			assert.Equal(t, "no request completed", g["reason"])
			continue
		}
		sum := 0.0
		for _, x := range v {
			sum += x
		}
		got := g[key].(map[string]any)
		assert.InDelta(t, len(v), got["n"], 0)
		assert.InEpsilon(t, sum/float64(len(v)), got["mean"], 1e-9, "%s of %s", key, policy)
		assert.InDelta(t, slices.Min(v), got["min"], 1e-9)
		assert.InDelta(t, slices.Max(v), got["max"], 1e-9)
	}
	if n > 0 {
		assert.Less(t, len(values["tbt_ms"]), len(done), "some answers have one token")
		assert.Positive(t, slices.Min(values["ttft_ms"]))
	}
	return done
}
