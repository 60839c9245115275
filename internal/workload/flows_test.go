package workload

import (
	"os"
	"path/filepath"
	"strings"
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
	path := filepath.Join(t.TempDir(), "flows.jsonl")
	require.NoError(t, os.WriteFile(path, []byte("\xef\xbb\xbf"+`{"start_ms": 1000.5, "from": "p0", "to": "d0", "bytes": 1000000}`+"\r\n\n"+
		`{"from": "p1", "to": "d1", "bytes": "1GB", "via": ["tor0-0", "agg0-1"]}`), 0o600))
	fromFile := flowScenario()
	fromFile.Workload.Flows.File = path
	got, err := LoadFlows(fromFile, 1)
	require.NoError(t, err)
	want, err := LoadFlows(flowScenario(
		scenarios.Flow{Start: 1000500 * time.Microsecond, From: "p0", To: "d0", Bytes: 1e6},
		scenarios.Flow{From: "p1", To: "d1", Bytes: 1e9, Via: []string{"tor0-0", "agg0-1"}},
	), 1)
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestBadFlowLinesAreRefused(t *testing.T) {
	t.Parallel()
	good := `{"from": "p0", "to": "d0", "bytes": 1}` + "\n"
	tests := []struct{ name, bad, want string }{
		{"not JSON", "nonsense", "not JSON"},
		{"unknown field", `{"from": "p0", "to": "d0", "bytes": 1, "start": 5}`, `"start"`},
		{"no bytes", `{"from": "p0", "to": "d0"}`, "bytes is 0"},
		{"negative bytes", `{"from": "p0", "to": "d0", "bytes": -1}`, "f.jsonl:2: "},
		{"no receiver", `{"from": "p0", "bytes": 1}`, "two instance names"},
		{"to itself", `{"from": "p0", "to": "p0", "bytes": 1}`, `both "p0"`},
		{"negative start", `{"start_ms": -1, "from": "p0", "to": "d0", "bytes": 1}`, "start_ms is -1"},
		{"two objects", `{"from": "p0", "to": "d0", "bytes": 1} {}`, "one flow a line"},
		{"a line of 2 MiB", strings.Repeat(" ", 2<<20), "f.jsonl:2: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := readFlows(strings.NewReader(good+tt.bad), "f.jsonl")
			require.ErrorContains(t, err, "f.jsonl:2: ")
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestImpossibleFlowListsAreErrors(t *testing.T) {
	t.Parallel()
	good := scenarios.Flow{From: "p0", To: "d0", Bytes: 1}
	early := good
	early.Start = -time.Second
	both := flowScenario(good)
	both.Workload.Flows.File = "x"
	missing := flowScenario()
	missing.Workload.Flows.File = filepath.Join(t.TempDir(), "missing.jsonl")
	noStreams := flowScenario(good)
	noStreams.Transfer.Streams = 0
	tests := []struct {
		name string
		s    *scenarios.Scenario
		want string
	}{
		{"no flow", flowScenario(), "no flow"},
		{"list and file", both, "not both"},
		{"no such file", missing, "no such file"},
		{"negative start", flowScenario(good, early), "flow 1: start is -1s"},
		{"another kind", ragLike(), `kind "synthetic"`},
		{"no stream", noStreams, "transfer.streams"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := LoadFlows(tt.s, 1)
			require.ErrorContains(t, err, tt.want)
		})
	}
}
