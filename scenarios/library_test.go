package scenarios

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryEmbeddedScenarioLoadsAndSurvivesMarshal(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		"1024gpu", "256gpu", "512gpu", "flows-example", "paper-64gpu", "paper-table2", "quickstart", "rail-64gpu", "trace-mooncake",
	}, Names())
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Load(name)
			require.NoError(t, err)
			assert.Equal(t, name, s.Name)
			assert.NotEmpty(t, s.Description)
			requireRoundTrip(t, s)

			file := name + ".yaml"
			if _, err := os.Stat(file); err != nil {
				file = filepath.Join("paper", file)
			}
			byPath, err := Load(file)
			require.NoError(t, err)
			byPath.Dir = s.Dir
			assert.Equal(t, s, byPath, "the name and the path are the same scenario")
		})
	}
}

// requireRoundTrip checks the law Parse(Marshal(s)) == s, and that Marshal is canonical.
func requireRoundTrip(t *testing.T, s *Scenario) {
	t.Helper()
	data, err := s.Marshal()
	require.NoError(t, err)
	back, err := Parse("other-name.yaml", data)
	require.NoError(t, err, string(data))
	again, err := back.Marshal()
	require.NoError(t, err)
	require.Equal(t, string(data), string(again))
	back.Dir = s.Dir
	require.Equal(t, s, back)
	require.NoError(t, s.Validate())
}

func TestPaper64GPUIsTheClusterOfThePaper(t *testing.T) {
	t.Parallel()
	s, err := Load("paper-64gpu")
	require.NoError(t, err)
	assert.Equal(t, 64, s.Topology.GPUs())
	assert.Equal(t, 16, s.Instances())
	assert.Equal(t, BitsPerSecond(100e9), s.Topology.NICRate)
	assert.Equal(t, BitsPerSecond(3600e9), s.Topology.NVLinkRate)
	assert.Equal(t, LinkRates{RackUplink: 50e9, CoreLink: 25e9}, s.Topology.LinkRates)
	assert.Equal(t, []string{"p0", "p1", "d0", "d1", "p2", "p3", "d2", "d3", "p4", "p5", "d4", "d5", "p6", "p7", "d6", "d7"}, s.InstanceNames())
	assert.Equal(t, Bytes(327680), s.Model.KVBytesPerToken())
	assert.Equal(t, 4, s.Transfer.Streams)
	assert.Equal(t, []uint64{1, 2, 3}, s.Seeds)
	assert.False(t, s.Background.Enabled())
	assert.Zero(t, s.Scale.Rate, "auto")
	assert.Equal(t, time.Second, s.Oracle.Refresh)
	require.NotNil(t, s.Workload.Synthetic)
	assert.InDelta(t, 4, s.Workload.Synthetic.Rate, 0)
	assert.InDelta(t, 8192, s.Workload.Synthetic.Prompt.Mean, 0)
}

func TestLargeClustersArePaper64GPUWithMorePods(t *testing.T) {
	t.Parallel()
	paper, err := Load("paper-64gpu")
	require.NoError(t, err)
	for name, pods := range map[string]int{"256gpu": 16, "512gpu": 32, "1024gpu": 64} {
		s, err := Load(name)
		require.NoError(t, err)
		assert.Equal(t, name, fmt.Sprintf("%dgpu", s.Topology.GPUs()))
		assert.Equal(t, 4*pods, s.Instances())
		assert.Equal(t, 500, s.Workload.Synthetic.Requests)
		assert.Zero(t, s.Scale.Rate, "auto")
		topology := paper.Topology
		topology.Pods = pods
		assert.Equal(t, topology, s.Topology)
		assert.Equal(t, paper.Placement, s.Placement)
		assert.Equal(t, paper.Model, s.Model)
		assert.Equal(t, paper.Engine, s.Engine)
		assert.Equal(t, paper.Transfer, s.Transfer)
	}
}

func TestRail64GPUHasTheSameTotalsAsPaper64GPU(t *testing.T) {
	t.Parallel()
	rail, err := Load("rail-64gpu")
	require.NoError(t, err)
	paper, err := Load("paper-64gpu")
	require.NoError(t, err)
	assert.Equal(t, paper.uplinkTiers()[1].hosts, rail.uplinkTiers()[1].hosts)
	assert.Equal(t, paper.Topology.LinkRates, rail.Topology.LinkRates)
}

func TestQuickstartFitsIntoAMinute(t *testing.T) {
	t.Parallel()
	s, err := Load("quickstart")
	require.NoError(t, err)
	assert.Equal(t, 8, s.Instances())
	arrivals := float64(s.Workload.Synthetic.Requests) / s.Workload.Synthetic.Rate
	longest := float64(s.Workload.Synthetic.Output.Max) * s.Engine.Decode.Base.Seconds()
	assert.Less(t, (arrivals+longest)*float64(len(s.Policies)*len(s.Seeds)), 45.0, "seconds of trials")
	assert.Len(t, s.Policies, 3)
}

func TestFilesAreFoundFromTheScenariosFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "replay.yaml")
	require.NoError(t, os.WriteFile(file, []byte("workload:\n  trace:\n    file: traces/a.jsonl\n"), 0o600))
	s, err := Load(file)
	require.NoError(t, err)
	assert.Equal(t, "replay", s.Name)
	assert.Equal(t, dir, s.Dir)
	assert.Equal(t, filepath.Join(dir, "traces", "a.jsonl"), s.Workload.Trace.File)
	requireRoundTrip(t, s)
}

func TestAnEmbeddedTraceScenarioLooksInTheCurrentFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	s, err := Load("trace-mooncake")
	require.NoError(t, err)
	wd, err := os.Getwd()
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(wd, "mooncake.jsonl"), s.Workload.Trace.File)
}

func TestLoadNamesWhatItDidNotFind(t *testing.T) {
	t.Parallel()
	_, err := Load("quikstart")
	var fault *Error
	require.ErrorAs(t, err, &fault)
	assert.Contains(t, err.Error(), `did you mean "quickstart"?`)
	_, err = Load(t.TempDir())
	require.Error(t, err)
	_, ok := Embedded("../scenarios/quickstart")
	assert.False(t, ok)
	_, ok = Embedded("paper/paper-table2")
	assert.False(t, ok, "a name is no path")
	_, ok = Embedded("quickstart")
	assert.True(t, ok)
	_, ok = EmbeddedSweep("../quickstart")
	assert.False(t, ok)
	for _, name := range SweepNames() {
		_, ok = EmbeddedSweep(name)
		assert.True(t, ok, name)
	}
}

func TestSettingsOverrideTheFileAndAreCheckedLikeIt(t *testing.T) {
	t.Parallel()
	s, err := Load("quickstart", "topology.pods=4", "policies=[rr, {name: cla, label: c, cacheWeight: 0}]", "workload.synthetic.rate=2/s", "slo.ttft=1s", "scale.rate=auto")
	require.NoError(t, err)
	assert.Equal(t, 4, s.Topology.Pods)
	assert.Equal(t, []Policy{{Name: "rr", Label: "rr"}, {Name: "cla", Label: "c", LoadWeight: 1}}, s.Policies)
	assert.InDelta(t, 0, s.Scale.Rate, 0)
	requireRoundTrip(t, s)

	// A resolved file holds both spellings; the setting of one wins over the other.
	data, err := s.Marshal()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "resolved.yaml")
	require.NoError(t, os.WriteFile(file, data, 0o600))
	s, err = Load(file, "topology.oversubscription.pod=8", "model.kvDtype=fp8")
	require.NoError(t, err)
	assert.Equal(t, BitsPerSecond(12.5e9), s.Topology.LinkRates.CoreLink)
	assert.InDelta(t, 1, s.Model.BytesPerElement, 0)
	s, err = Load(file, "topology.linkRates.coreLink=50Gbps", "model.bytesPerElement=0.5")
	require.NoError(t, err)
	assert.InDelta(t, 2, s.Topology.Oversubscription.Pod, 0)
	assert.Equal(t, "int4", s.Model.KVDtype)

	for setting, want := range map[string]string{
		"topology.pods=0":   "setting: topology.pods: must be 1..64, got 0",
		"topology.podz=3":   `setting: topology: unknown key "podz"; did you mean "pods"?`,
		"topology.pods.x=3": "setting: topology.pods.x: topology.pods holds no keys",
		"seeds=[1,1]":       "setting: seeds[1]: seed 1 is listed already, at seeds[0]; equal seeds repeat the same trial",
		"nonsense":          `setting: "nonsense" must be KEY=VALUE, such as topology.pods=2`,
		"slo.ttft=[":        "setting: slo.ttft: value \"[\" is not YAML",
		"=3":                `must be KEY=VALUE`,
	} {
		_, err := Load("quickstart", setting)
		require.ErrorContains(t, err, want, setting)
	}
}
