package workload

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/scenarios"
)

func flowScenario(list ...scenarios.Flow) *scenarios.Scenario {
	return &scenarios.Scenario{
		Transfer: scenarios.Transfer{Streams: 2},
		Workload: scenarios.Workload{Kind: "flows", Flows: &scenarios.Flows{List: list}},
	}
}

func TestFlowsComeInStartOrderWithDraws(t *testing.T) {
	t.Parallel()
	s := flowScenario(
		scenarios.Flow{Start: time.Second, From: "p0", To: "d0", Bytes: 10},
		scenarios.Flow{From: "p1", To: "d1", Bytes: 20, Via: []string{"tor0-0"}},
		scenarios.Flow{From: "p2", To: "d2", Bytes: 30},
	)
	flows, err := LoadFlows(s, 1)
	require.NoError(t, err)
	require.Len(t, flows, 3)
	assert.Equal(t, []string{"p1", "p2", "p0"}, []string{flows[0].From, flows[1].From, flows[2].From})
	assert.Equal(t, []string{"tor0-0"}, flows[0].Via)
	for i, f := range flows {
		assert.Equal(t, i, f.ID)
		assert.Len(t, f.PathDraws, 2)
	}
	again, err := LoadFlows(s, 1)
	require.NoError(t, err)
	assert.Equal(t, flows, again)
	other, err := LoadFlows(s, 2)
	require.NoError(t, err)
	assert.NotEqual(t, flows[0].PathDraws, other[0].PathDraws)
}

func TestFlowFileGivesTheSameAsTheList(t *testing.T) {
	t.Parallel()
	got, err := LoadFlows(flowFile(t, "\xef\xbb\xbf"+`{"start_s": 1.0005, "from": "i0", "to": "i2", "bytes": 1000000}`+"\r\n\n"+
		`{"start_s": 0, "from": "i1", "to": "i3", "bytes": "1GB", "via": ["tor0-0", "agg0-1", "tor0-1"]}`), 1)
	require.NoError(t, err)
	list := flowScenario(
		scenarios.Flow{Start: 1000500 * time.Microsecond, From: "i0", To: "i2", Bytes: 1e6},
		scenarios.Flow{From: "i1", To: "i3", Bytes: 1e9, Via: []string{"tor0-0", "agg0-1", "tor0-1"}},
	)
	list.Transfer.Streams = 1
	want, err := LoadFlows(list, 1)
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

// TestDocumentedFlowLineLoads loads the example line in flows-example.yaml.
func TestDocumentedFlowLineLoads(t *testing.T) {
	t.Parallel()
	text, ok := scenarios.Embedded("flows-example")
	require.True(t, ok)
	line := regexp.MustCompile(`\{"start_s".*\}`).Find(text)
	require.NotEmpty(t, line, "the example documents a line")
	flows, err := LoadFlows(flowFile(t, string(line)), 1)
	require.NoError(t, err)
	require.Len(t, flows, 1)
	assert.Equal(t, 500*time.Millisecond, flows[0].Start)
	assert.Equal(t, scenarios.Bytes(1e9), flows[0].Bytes)
}

func TestFaultsOfFlowFilesAreTheUsers(t *testing.T) {
	t.Parallel()
	_, err := LoadFlows(flowFile(t, "\nnonsense\n"), 1)
	var fault *scenarios.Error
	require.ErrorAs(t, err, &fault)
	assert.Equal(t, 2, fault.Line)
	_, err = LoadFlows(flowFile(t, "\n"), 1)
	var input *InputError
	require.ErrorAs(t, err, &input)
	require.ErrorContains(t, err, "flows.jsonl: workload.flows has no flow")
	s := flowFile(t, "")
	require.NoError(t, os.Remove(s.Workload.Flows.File))
	_, err = LoadFlows(s, 1)
	require.ErrorAs(t, err, &input)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "workload.flows.file: open "+s.Workload.Flows.File)
}

// flowFile is the example's cluster with a flow file instead of its list.
func flowFile(t *testing.T, text string) *scenarios.Scenario {
	t.Helper()
	path := filepath.Join(t.TempDir(), "flows.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	s, err := scenarios.Load("flows-example")
	require.NoError(t, err)
	s.Workload.Flows = &scenarios.Flows{File: path}
	return s
}

func TestAnEmptyFlowListIsAnError(t *testing.T) {
	t.Parallel()
	_, err := LoadFlows(flowScenario(), 1)
	require.ErrorContains(t, err, "no flow")
}
