package sweep

import (
	"bytes"
	"context"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/scenarios"
)

var update = flag.Bool("update", false, "write testdata anew")

// tiny is a sweep of 2 x 2 cells, 2 policies and 2 seeds: 16 trials of 20 requests.
const tiny = `name: tiny
scenario: base.yaml
settings:
  workload.synthetic.requests: 20
axes:
  - key: workload.synthetic.rate
    values: [2/s, 8/s]
  - name: core
    values:
      - {label: "4:1", set: {topology.oversubscription: {rack: 2, pod: 4}}}
      - {label: "8:1", set: {topology.oversubscription.pod: 8}}
policies: [rr, netkv-full]
seeds: [1, 2]
figure: {metric: transfer_mean, policy: netkv-full, baseline: rr, x: rate, y: core}
`

const base = "topology: {oversubscription: {rack: 2, pod: 4}}\nscale: {rate: 400}\n"

// folder writes a sweep beside its scenario and loads it.
func folder(t *testing.T, text string) (*Sweep, error) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "base.yaml"), []byte(base), 0o600))
	file := filepath.Join(dir, "sweep.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return Load(file)
}

func mustFolder(t *testing.T, text string) *Sweep {
	t.Helper()
	s, err := folder(t, text)
	require.NoError(t, err)
	return s
}

func table(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, TableFile))
	require.NoError(t, err)
	return string(data)
}

func TestTheGridHasEveryCellOnce(t *testing.T) {
	t.Parallel()
	s := mustFolder(t, tiny)
	var got []string
	for _, c := range s.Cells {
		got = append(got, strings.Join(c.Labels, " "))
	}
	assert.Equal(t, []string{"2/s 4:1", "2/s 8:1", "8/s 4:1", "8/s 8:1"}, got)
	assert.Equal(t, 16, s.Trials())
	assert.InDelta(t, 8, s.Cells[3].Scenario.Topology.Oversubscription.Pod, 0)
	assert.InDelta(t, 8, s.Cells[3].Scenario.Workload.Synthetic.Rate, 0)
	assert.Equal(t, 20, s.Cells[3].Scenario.Workload.Synthetic.Requests)
}

func TestASweepThatIsKilledHalfwayGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	s := mustFolder(t, tiny)
	whole := t.TempDir()
	_, err := Run(t.Context(), s, Options{Dir: whole, Version: "v1"})
	require.NoError(t, err)

	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	res, err := Run(ctx, s, Options{Dir: dir, Version: "v1", Jobs: 1, Progress: func(done, _ int, _ time.Duration) {
		if done == 7 {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	kept := len(res.Rows)
	assert.GreaterOrEqual(t, kept, 7)
	require.Less(t, kept, 16)
	assert.Equal(t, kept+1, strings.Count(table(t, dir), "\n"), "the table holds what there is")

	// A killed program may leave an incomplete line.
	file, err := os.OpenFile(filepath.Join(dir, cellsFile), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString(`{"cell": 3, "lab`)
	require.NoError(t, err)
	require.NoError(t, file.Close())

	fresh := 0
	res, err = Run(t.Context(), s, Options{Dir: dir, Version: "v1", Progress: func(int, int, time.Duration) { fresh++ }})
	require.NoError(t, err)
	assert.Equal(t, kept, res.Reused)
	assert.Equal(t, 16-kept, fresh, "only what was missing is run")
	assert.Equal(t, table(t, whole), table(t, dir), "interruptions and cores leave no trace in the table")
	for _, name := range []string{TextFile, SVGFile} {
		a, err := os.ReadFile(filepath.Join(whole, name))
		require.NoError(t, err)
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Equal(t, string(a), string(b))
	}
	_, err = Run(t.Context(), s, Options{Dir: dir, Version: "v1", Progress: func(int, int, time.Duration) { t.Error("nothing is left to run") }})
	require.NoError(t, err)
}

func TestAFolderOfAnotherSweepIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	small := strings.Replace(tiny, "values: [2/s, 8/s]", "values: [2/s]", 1)
	s := mustFolder(t, small)
	dir := t.TempDir()
	_, err := Run(t.Context(), s, Options{Dir: dir, Version: "v1"})
	require.NoError(t, err)

	var changed *ChangedError
	_, err = Run(t.Context(), mustFolder(t, tiny), Options{Dir: dir, Version: "v1"})
	require.ErrorAs(t, err, &changed)
	assert.Equal(t, "the sweep file has changed, first in line 7", changed.Reason)

	_, err = Run(t.Context(), s, Options{Dir: dir, Version: "v2"})
	require.ErrorAs(t, err, &changed)
	assert.Contains(t, changed.Reason, "version v1")

	other := mustFolder(t, small)
	other.Cells[0].Scenario.Topology.NICRate /= 2
	_, err = Run(t.Context(), other, Options{Dir: dir, Version: "v1"})
	require.ErrorAs(t, err, &changed)
	assert.Equal(t, "the scenario base.yaml has changed", changed.Reason)

	stray := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(stray, "thesis.tex"), nil, 0o600))
	_, err = Run(t.Context(), s, Options{Dir: stray, Version: "v1"})
	require.ErrorAs(t, err, &changed)
	assert.Contains(t, err.Error(), "thesis.tex")

	figure := mustFolder(t, strings.Replace(small, "baseline: rr, ", "", 1))
	res, err := Run(t.Context(), figure, Options{Dir: dir, Version: "v1"})
	require.NoError(t, err, "another picture of the same results is no other sweep")
	assert.Equal(t, res.Total, res.Reused)
}

func TestFaultsNameTheLine(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ old, new, want string }{
		"unknown key":            {"seeds:", "sedes:", `sweep.yaml:13: unknown key "sedes"`},
		"unknown key of an axis": {"- key:", "- kye:", `sweep.yaml:6: axes[0]: unknown key "kye"`},
		"no values":              {"[2/s, 8/s]", "[]", "sweep.yaml:7: axes[0].values: must be a list that is not empty"},
		"value twice":            {"[2/s, 8/s]", "[2/s, 2/s]", `sweep.yaml:7: axes[0].values[1]: "2/s" is on the axis already`},
		"unknown scenario key":   {"workload.synthetic.rate", "workload.synthetic.rat", `sweep.yaml:7: the scenario, rat = 2/s`},
		"bad value":              {"8/s]", "many]", `sweep.yaml:7: the scenario, rate = many`},
		"axis twice":             {"name: core", "name: rate", `"rate" is an axis already`},
		"reserved name":          {"name: core", "name: seed", `"seed" is a column of the table already`},
		"policy in a setting":    {"workload.synthetic.requests: 20", "policies: [rr]", "sweep.yaml:4: settings: policies is no setting of a cell"},
		"unknown metric":         {"transfer_mean", "transfer_men", `sweep.yaml:14: figure.metric: unknown metric "transfer_men"`},
		"unknown axis":           {"x: rate", "x: load", `figure.x: is "load", which is none of the axes`},
		"same axis twice":        {"y: core", "y: rate", `figure.y: is "rate" like x`},
		"unknown policy":         {"baseline: rr", "baseline: ca", `figure.baseline: is "ca"`},
		"no scenario":            {"scenario: base.yaml\n", "", "scenario: is missing"},
		"scenario not there":     {"base.yaml", "bass.yaml", "no such file"},
		"not YAML":               {"axes:", "axes: [", "not YAML"},
		"two documents":          {"figure:", "---\nfigure:", "second YAML document"},
		"seeds no list":          {"seeds: [1, 2]", "seeds: 2", "sweep.yaml:13: seeds: must be a list"},
		"plain value, no key":    {"- {label: \"4:1\", set: {topology.oversubscription: {rack: 2, pod: 4}}}", "- 4", "is a plain value, but the axis has no key"},
		"scale of no key":        {"set: {topology.oversubscription.pod: 8}", "scale: {topology.podz: 8}", "sweep.yaml:11: the scenario, rate = 2/s, core = 8:1: topology.podz: is no key"},
		"scale of a word":        {"set: {topology.oversubscription.pod: 8}", "scale: {transfer.mode: 8}", "transfer.mode: is no number"},
		"scale by nothing":       {"set: {topology.oversubscription.pod: 8}", "scale: {topology.pods: 0}", "must be a factor above 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, tiny, tt.old)
			_, err := folder(t, strings.Replace(tiny, tt.old, tt.new, 1))
			require.ErrorContains(t, err, tt.want)
			var fault *scenarios.Error
			require.ErrorAs(t, err, &fault)
		})
	}
}

func TestEveryEmbeddedSweepLoads(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, scenarios.SweepNames())
	for _, name := range scenarios.SweepNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Load(name)
			require.NoError(t, err)
			assert.Equal(t, name, s.File.Name)
			assert.NotEmpty(t, s.File.Description)
			assert.NotEmpty(t, s.Cells)
		})
	}
	_, err := Load("paper-tabel2")
	require.ErrorContains(t, err, "no embedded sweep")
}

func TestHeatMapIsAsDrawn(t *testing.T) {
	t.Parallel()
	s := mustFolder(t, tiny)
	res, err := Run(t.Context(), s, Options{Dir: t.TempDir(), Version: "v1"})
	require.NoError(t, err)
	require.Len(t, res.Maps, 1)
	for _, row := range res.Maps[0].Values {
		for _, v := range row {
			assert.Less(t, v, 0.0, "knowing the network never loses against round robin here")
		}
	}
	var text, svg bytes.Buffer
	WriteText(&text, res.Maps)
	WriteSVG(&svg, res.Maps)
	golden(t, "heatmap.txt", text.Bytes())
	golden(t, "heatmap.svg", svg.Bytes())
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "rewrite with -update if the change is meant")
}

func TestOneAxisGivesOneRowAndFurtherAxesMoreMaps(t *testing.T) {
	t.Parallel()
	one := mustFolder(t, "scenario: base.yaml\nsettings: {workload.synthetic.requests: 5}\naxes: [{key: workload.synthetic.rate, values: [1/s, 2/s]}]\npolicies: [rr]\nseeds: [1]\n")
	res, err := Run(t.Context(), one, Options{Dir: t.TempDir()})
	require.NoError(t, err)
	require.Len(t, res.Maps, 1)
	assert.Len(t, res.Maps[0].Values, 1)
	assert.Equal(t, "ttft_mean of rr", res.Maps[0].Title)

	three := mustFolder(t, tiny[:strings.Index(tiny, "policies")]+"  - {key: transfer.streams, values: [1, 4]}\npolicies: [rr]\nseeds: [1]\nfigure: {x: rate, y: core}\n")
	res, err = Run(t.Context(), three, Options{Dir: t.TempDir()})
	require.NoError(t, err)
	require.Len(t, res.Maps, 2)
	assert.Equal(t, "ttft_mean of rr, streams 4", res.Maps[1].Title)
}

func TestASweepWithoutAxesIsOneCell(t *testing.T) {
	t.Parallel()
	s := mustFolder(t, "scenario: base.yaml\nsettings: {workload.synthetic.requests: 5}\npolicies: [rr]\nseeds: [1]\n")
	res, err := Run(t.Context(), s, Options{Dir: t.TempDir()})
	require.NoError(t, err)
	assert.Len(t, res.Rows, 1)
	assert.Empty(t, res.Maps)
}

func TestTimedDecisionsTakeTheGivenClock(t *testing.T) {
	t.Parallel()
	s := mustFolder(t, "scenario: base.yaml\nsettings: {workload.synthetic.requests: 5}\npolicies: [rr]\nseeds: [1]\ntimeDecisions: true\n")
	now := time.Unix(0, 0)
	res, err := Run(t.Context(), s, Options{Dir: t.TempDir(), Jobs: 1, Clock: func() time.Time {
		now = now.Add(time.Millisecond)
		return now
	}})
	require.NoError(t, err)
	assert.InDelta(t, 1000, res.Rows[0].Value("decision_mean"), 1e-9, "us between two readings of the clock")
}

func TestAValueMayScaleWhatTheScenarioSays(t *testing.T) {
	t.Parallel()
	s := mustFolder(t, `scenario: base.yaml
settings: {workload.synthetic.requests: 5}
axes:
  - name: size
    values:
      - {label: once, scale: {workload.synthetic.rate: 1}}
      - {label: twice, scale: {workload.synthetic.rate: 2, topology.pods: 2, workload.synthetic.prompt.mean: 0.347}, set: {workload.synthetic.output.mean: 100}}
policies: [rr]
seeds: [1]
`)
	once, twice := s.Cells[0].Scenario, s.Cells[1].Scenario
	assert.InDelta(t, 2*once.Workload.Synthetic.Rate, twice.Workload.Synthetic.Rate, 1e-12)
	assert.Equal(t, 2*once.Topology.Pods, twice.Topology.Pods)
	assert.InDelta(t, math.Round(0.347*8192), twice.Workload.Synthetic.Prompt.Mean, 0, "a whole number stays whole")
	assert.InDelta(t, 100, twice.Workload.Synthetic.Output.Mean, 0)
}

func TestAPolicyOfTheScenarioKeepsItsWeights(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "base.yaml"), []byte(base+"policies: [rr, {name: cla*, cacheWeight: 3, loadWeight: 0}]\n"), 0o600))
	file := filepath.Join(dir, "sweep.yaml")
	require.NoError(t, os.WriteFile(file, []byte("scenario: base.yaml\npolicies: [cla*, netkv-topo, {name: cla, label: c}]\n"), 0o600))
	s, err := Load(file)
	require.NoError(t, err)
	got := s.Cells[0].Scenario.Policies
	require.Len(t, got, 3)
	assert.Equal(t, scenarios.Policy{Name: "cla*", Label: "cla*", CacheWeight: 3}, got[0])
	assert.Equal(t, "netkv-topo", got[1].Label)
	assert.InDelta(t, 1, got[2].LoadWeight, 0)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(tiny))
	f.Add([]byte("axes: [{values: [a]}]"))
	f.Add([]byte("scenario: x\naxes: [{name: a, values: [{label: b, set: {c: &d [*d]}}]}]"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = Parse("f.yaml", data) // must return for any input
	})
}

func TestTheExampleOfTheDocumentationLoads(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/sweep.md")
	require.NoError(t, err)
	_, text, ok := strings.Cut(string(page), "```yaml\n")
	require.True(t, ok)
	text, _, _ = strings.Cut(text, "```")
	file := filepath.Join(t.TempDir(), "core-rate.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	s, err := Load(file)
	require.NoError(t, err)
	assert.Equal(t, 144, s.Trials())
}
