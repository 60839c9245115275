package paper

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/sweep"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

var update = flag.Bool("update", false, "write docs/paper.md anew from the tables that are there")

const docs = "../../docs"

func readDocs(t *testing.T) *Data {
	t.Helper()
	d, err := ReadData(os.DirFS(docs))
	require.NoError(t, err)
	return d
}

func TestThePageIsWhatTheDataSays(t *testing.T) {
	t.Parallel()
	page, err := Page(readDocs(t))
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(docs+"/paper.md", []byte(page), 0o644))
	}
	have, err := os.ReadFile(docs + "/paper.md")
	require.NoError(t, err)
	want, got := strings.Split(page, "\n"), strings.Split(string(have), "\n")
	for i := range want {
		require.Less(t, i, len(got), "run make paper")
		require.Equal(t, want[i], got[i], "line %d: run make paper", i+1)
	}
	assert.Len(t, got, len(want))
	assert.NotContains(t, page, "NaN")
}

// One trial of each sweep is run again. This detects a change of the flow world's results,
// without the minutes that all trials take.
func TestTheDataIsWhatTheFlowWorldGives(t *testing.T) {
	t.Parallel()
	d := readDocs(t)
	for _, name := range Sweeps() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := sweep.Load(name)
			require.NoError(t, err)
			assert.Equal(t, len(s.Cells), len(d.Tables[name].Cells), "run make paper")
			c := s.Cells[0]
			policy, seed := c.Scenario.Policies[0], c.Scenario.Seeds[0]
			cluster, err := trials.NewServing(c.Scenario)
			require.NoError(t, err)
			f, err := analysis.PlayTrial(t.Context(), trials.Flow{Cluster: cluster}, trials.Trial{Policy: policy, Seed: seed})
			require.NoError(t, err)
			have := d.Tables[name].values[key(c.Labels, policy.Label)][seed]
			for _, metric := range []string{"ttft_mean", "transfer_mean", "slo"} {
				assert.InEpsilon(t, f.Value(metric), have[metric], 1e-4, "%s: run make paper", metric)
			}
		})
	}
}

func TestTheFitMeetsTheRowsItWasMadeFrom(t *testing.T) {
	t.Parallel()
	table := readDocs(t).Tables["paper-table2"]
	for _, c := range Table2()[0].Cells {
		transfer, _ := table.Mean([]string{"100%"}, c.Policy, "transfer_mean")
		ttft, _ := table.Mean([]string{"100%"}, c.Policy, "ttft_mean")
		assert.InEpsilon(t, c.Transfer, transfer, 0.05, c.Policy)
		assert.InEpsilon(t, c.TTFT, ttft, 0.05, c.Policy)
	}
}

// The page's sentences are fixed in the source, so data that contradicts a sentence must be
// detected.
func TestASentenceThatTheDataOverturnsIsRefused(t *testing.T) {
	t.Parallel()
	// times multiplies a metric of a policy in one cell.
	times := func(table, policy, metric string, factor float64, labels ...string) func(*Data) {
		return func(d *Data) {
			for _, row := range d.Tables[table].values[key(labels, policy)] {
				row[metric] *= factor
			}
		}
	}
	for says, harm := range map[string]func(*Data){
		"Choosing by load has a price":               times(tenantsTable, "cla*", "transfer_mean", 0.8, "8", topLoad),
		"Choosing by locality has none":              times(tenantsTable, "netkv-topo", "transfer_mean", 1.01, "4", "200%"),
		"loses most of its count":                    times(tenantsTable, "netkv-full", "transfer_mean", 1.1, "8", topLoad),
		"The count sends it to other pods":           times(tenantsTable, "netkv-full", "tier3", 2, "8", topLoad),
		"Where batches are full":                     times(tenantsTable, "cla*", "ttft_mean", 0.7, "8", tightLoad),
		"which five seeds hardly tell":               times(tenantsTable, "netkv-full", "ttft_mean", 1.1, "8", tightLoad),
		"separation: none` nobody":                   times(unseparatedTable, "netkv-full", "transfer_mean", 1.01, "2", "100%"),
		"NetKV-Full keeps":                           times("paper-table2", "netkv-full", "tier2", 0.6, "100%"),
		"overloaded whoever chooses":                 times("paper-table3", "netkv-full", "slo", math.Inf(1), "65536"),
		"bytes that hits save":                       times("paper-fig3", "netkv-full", "ttft_mean", 0.5, "0.9"),
		"a tier costs nothing":                       times("paper-fig1", "netkv-full", "ttft_mean", 0.9, "rag", "1:1", "0%"),
		"asks for a heavier tail":                    times("paper-fig2", "cla*", "ttft_p99", 2, "1s"),
		"grows less with load":                       times("paper-table2", "netkv-full", "tbt_mean", 1.1, "250%"),
		"a signal of any age but the first second's": times("paper-fig2", "netkv-full", "ttft_p99", 1.1, "60s"),
		"agree to the digit":                         times("paper-table4", "netkv-full", "ttft_mean", 1.1, "rag"),
		"flat for the same reason":                   times("paper-fig2", "cla*", "ttft_p99", 1.1, "60s"),
	} {
		d := readDocs(t)
		harm(d)
		_, err := Page(d)
		require.Error(t, err, says)
		assert.Contains(t, err.Error(), says)
	}
}

func TestEveryTrialOfThePageCompleted(t *testing.T) {
	t.Parallel()
	for name, table := range readDocs(t).Tables {
		for k, seeds := range table.values {
			for seed, row := range seeds {
				assert.InDelta(t, row["submitted"], row["completed"], 0, "%s %s seed %d", name, k, seed)
			}
		}
	}
}

func TestAFitIsFoundAgainAndFinished(t *testing.T) {
	t.Parallel()
	fixed := []string{"workload.synthetic.requests=30", "seeds=[1]", "workload.synthetic.prefix.groups=5", "transfer.streams=4"}
	a, err := Search(t.Context(), "paper-table2", fixed)
	require.NoError(t, err)
	assert.Less(t, a.Misfit, 0.2)
	b, err := Search(t.Context(), "paper-table2", fixed)
	require.NoError(t, err)
	assert.Equal(t, a.Settings, b.Settings, "the same way every time")

	done, err := Finish(t.Context(), "paper-table2", a.Settings)
	require.NoError(t, err)
	rr := done.Figures["rr"]
	assert.InDelta(t, restMS, rr.Value("ttft_mean")-rr.Value("transfer_mean"), 5)
	assert.InDelta(t, rrSLO, rr.Value("slo"), 0.05, "30 requests")
	_, err = Search(t.Context(), "no-such-scenario", nil)
	require.Error(t, err)
}

func TestACalibrationFitsItsOwnScenarioFile(t *testing.T) {
	t.Parallel()
	text, ok := scenarios.Embedded("paper-table2")
	require.True(t, ok)
	small := strings.NewReplacer("requests: 1000", "requests: 10", "seeds: [1, 2, 3, 4, 5]", "seeds: [1]").Replace(string(text))
	file := filepath.Join(t.TempDir(), "small.yaml")
	require.NoError(t, os.WriteFile(file, []byte(small), 0o600))
	var log strings.Builder
	f, err := Calibrate(t.Context(), file, &log)
	require.NoError(t, err)
	streams, groups := Choices()
	assert.Equal(t, len(streams)*len(groups), strings.Count(log.String(), "misfit"))
	assert.Contains(t, log.String(), "round 1")
	out, err := WriteSettings([]byte(small), f.Settings)
	require.NoError(t, err)
	_, err = scenarios.Parse(file, out)
	require.NoError(t, err)
}

func TestParametersKeepToTheirBounds(t *testing.T) {
	t.Parallel()
	p := Parameter{Least: 1, Most: 2, Decimals: 2}
	assert.InDelta(t, 2, p.round(7), 0)
	assert.InDelta(t, 1.23, p.round(1.2345), 0)
	assert.InDelta(t, 1, p.round(-1), 0)
}

func TestTheScaleLeavesTheLeastMisfit(t *testing.T) {
	t.Parallel()
	k, misfit := scale([]float64{2, 2, 2})
	assert.InDelta(t, 0.5, k, 1e-12)
	assert.InDelta(t, 0, misfit, 1e-12)
	ratios := []float64{1, 1.1, 0.8}
	k, misfit = scale(ratios)
	for _, other := range []float64{0.99 * k, 1.01 * k} {
		var m float64
		for _, r := range ratios {
			m += (other*r - 1) * (other*r - 1) / 3
		}
		assert.Greater(t, math.Sqrt(m), misfit)
	}
}

func TestPacketFiguresComeFromGoodRunsOnly(t *testing.T) {
	t.Parallel()
	summary := func(verdict, world string) fstest.MapFS {
		return fstest.MapFS{"summary.json": {Data: []byte(fmt.Sprintf(`{"fidelity": {"verdict": %q, "reasons": []}, "worlds": {%q: {"rr": {
			"ttft_ms": {"mean": 1900.5, "p99": 9000}, "transfer_ms": {"mean": 950}, "slo_attainment": 0.9, "tier_share": {"2": 0.25, "3": 0.75}}}}}`, verdict, world))}}
	}
	var p Packet
	require.NoError(t, p.Take("paper-table2/100%", summary("good", "packet")))
	assert.Equal(t, map[string]float64{
		"paper-table2/100%/rr/ttft_mean": 1900.5, "paper-table2/100%/rr/ttft_p99": 9000, "paper-table2/100%/rr/transfer_mean": 950,
		"paper-table2/100%/rr/slo": 0.9, "paper-table2/100%/rr/tier2": 0.25, "paper-table2/100%/rr/tier3": 0.75,
	}, p.Cells)
	d := &Data{Packet: p}
	assert.InDelta(t, 950, d.packet("paper-table2", []string{"100%"}, "rr", "transfer_mean"), 0)
	assert.True(t, math.IsNaN(d.packet("paper-table2", []string{"200%"}, "rr", "transfer_mean")), "not run")

	require.ErrorContains(t, p.Take("c", summary("degraded", "packet")), "degraded")
	require.ErrorContains(t, p.Take("c", summary("good", "flow")), "no packet world")
	require.Error(t, p.Take("c", fstest.MapFS{}))
}

func TestTablesAreReadStrictly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"cell,policy,seed\n": "is empty",
		"a,b\n1,2\n":         "are none of a sweep",
		"cell,x,policy,seed,ttft_mean\n0,1,rr,s,1\n": "line 2: seed",
		"cell,x,policy,seed,ttft_mean\n0,1,rr,1,y\n": "line 2: ttft_mean",
	} {
		fsys := fstest.MapFS{DataFolder + "/" + Sweeps()[0] + ".csv": {Data: []byte(text)}}
		_, err := ReadData(fsys)
		require.ErrorContains(t, err, want)
	}
	_, err := ReadData(fstest.MapFS{})
	require.ErrorContains(t, err, "make paper")
}
