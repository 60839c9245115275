package scenarios

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFlowFilesAreReadLineByLine(t *testing.T) {
	t.Parallel()
	flows, _, err := parseFlows("f.jsonl", strings.NewReader("\xef\xbb\xbf"+`{"start_s": 0, "from": "i0", "to": "i2", "bytes": 1000000000}
`+"\r\n"+`{"start_s": 0.25, "from": "i1", "to": "i3", "bytes": "1.5GB", "via": ["tor0-0", "agg0-0", "tor0-1"]}
{"start_ms": 0.5, "from": "i1", "to": "i3", "bytes": 1}`))
	require.NoError(t, err)
	assert.Equal(t, []Flow{
		{From: "i0", To: "i2", Bytes: 1e9},
		{Start: 250 * time.Millisecond, From: "i1", To: "i3", Bytes: 1.5e9, Via: []string{"tor0-0", "agg0-0", "tor0-1"}},
		{Start: 500 * time.Microsecond, From: "i1", To: "i3", Bytes: 1},
	}, flows)
	flows, _, err = parseFlows("f.jsonl", strings.NewReader(""))
	require.NoError(t, err)
	assert.Empty(t, flows)
}

func TestBadFlowLinesAreNamed(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"start_s": 0, "from": "i0", "to": "i1"}`:                            "f.jsonl:2: bytes must be at least 1, got 0",
		`{"from": "i0", "to": "i1", "bytes": 1}`:                              "f.jsonl:2: start_s is missing",
		`{"start_s": -1, "from": "i0", "to": "i1", "bytes": 1}`:               "f.jsonl:2: start_s must be 0..36000000, got -1",
		`{"start_s": 0, "to": "i1", "bytes": 1}`:                              "f.jsonl:2: from and to must name instances",
		`{"start_s": 0, "from": "i0", "to": "i1", "bytes": 1, "size": 2}`:     `f.jsonl:2: not a flow (keys: start_s, from, to, bytes, via): json: unknown field "size"`,
		`{"start_s": "0", "from": "i0", "to": "i1", "bytes": 1}`:              "f.jsonl:2: not a flow",
		`{"start_s": 0, "from": "i0", "to": "i1", "bytes": 1.5}`:              "f.jsonl:2: not a flow",
		`{"start_s": 0, "from": "i0", "to": "i1", "bytes": "1gb"}`:            "f.jsonl:2: not a flow",
		`{"start_s": 0, "from": "i0", "to": "i1", "bytes": 1} {"start_s": 0}`: "f.jsonl:2: more than one object on the line",
		`{"start_s": 0, "from": "i0", "to": "i1", "bytes": 1}}`:               "f.jsonl:2: more than one object on the line",
		`{"start_ms": 1, "start_s": 0, "from": "i0", "to": "i1", "bytes": 1}`: "f.jsonl:2: both start_s and start_ms are given; keep one",
		`[1]`:                               "f.jsonl:2: not a flow",
		`nonsense`:                          "f.jsonl:2: not a flow",
		strings.Repeat("x", maxFlowLine+10): "f.jsonl:2: line is longer than",
	} {
		_, _, err := parseFlows("f.jsonl", strings.NewReader("\n"+line+"\n"))
		var fault *Error
		require.ErrorAs(t, err, &fault)
		require.ErrorContains(t, err, want)
	}
}

func TestFlowFilesAreCheckedAgainstTheCluster(t *testing.T) {
	t.Parallel()
	s, err := Load("flows-example")
	require.NoError(t, err)
	good := `{"start_s": 0, "from": "i0", "to": "i7", "bytes": 1}` + "\n"
	flows, err := s.ReadFlows("f.jsonl", strings.NewReader(good))
	require.NoError(t, err)
	assert.Len(t, flows, 1)
	_, err = s.ReadFlows("f.jsonl", strings.NewReader(good+`{"start_s": 0, "from": "p0", "to": "i8", "bytes": 1}`))
	require.ErrorContains(t, err, `f.jsonl:2: from: unknown instance "p0"; this cluster has i0..i7 (idle)`)
	require.ErrorContains(t, err, `f.jsonl:2: to: unknown instance "i8"`)
	_, err = s.ReadFlows("f.jsonl", strings.NewReader(good+`{"start_s": 0, "from": "i0", "to": "i0", "bytes": 1}`))
	require.ErrorContains(t, err, `f.jsonl:2: to: is i0 like from`)
}

func TestFlowsCrossOnlySwitchesThatPathsCross(t *testing.T) {
	t.Parallel()
	s, err := Load("flows-example", "model.tensorParallel=4", "topology.gpusPerServer=8", "topology.serversPerRack=2", "topology.coresPerAgg=3")
	require.ErrorContains(t, err, "workload.flows.list[1].via: no path crosses [tor0-0 agg0-0 tor0-1]; packets go by [tor0-0]",
		"i2 is in rack 0 now")
	require.Nil(t, s)
	s, err = Load("flows-example", "topology.serversPerRack=2", "topology.coresPerAgg=3", "workload.flows.list=[{from: i0, to: i1, bytes: 1B}]")
	require.NoError(t, err)
	// Two pods of two racks of two servers with two instances: i0, i1 | i2, i3 || i4.. || || i8 in pod 1.
	for _, tt := range []struct{ name, to, via, want string }{
		{"same server, no switch between", "i1", `"tor0-0"`, "share a server"},
		{"same rack", "i2", `"tor0-0"`, ""},
		{"same rack by a longer way", "i2", `"tor0-0", "agg0-0", "tor0-0"`, "packets go by [tor0-0]"},
		{"same pod, first aggregation switch", "i4", `"tor0-0", "agg0-0", "tor0-1"`, ""},
		{"same pod, second aggregation switch", "i4", `"tor0-0", "agg0-1", "tor0-1"`, ""},
		{"same pod, no such aggregation switch", "i4", `"tor0-0", "agg0-2", "tor0-1"`, "packets go by [tor0-0 agg0-A tor0-1] with A 0..1"},
		{"same pod, the other pod's switch", "i4", `"tor0-0", "agg1-0", "tor0-1"`, "no path crosses [tor0-0 agg1-0 tor0-1]"},
		{"same pod, wrong way round", "i4", `"tor0-1", "agg0-0", "tor0-0"`, "no path crosses"},
		{"across pods, last core", "i8", `"tor0-0", "agg0-1", "core1-2", "agg1-1", "tor1-0"`, ""},
		{"across pods, core of the other group", "i8", `"tor0-0", "agg0-1", "core0-2", "agg1-1", "tor1-0"`, "with A 0..1 and C 0..2"},
		{"across pods, aggregation switch changes", "i8", `"tor0-0", "agg0-1", "core1-2", "agg1-0", "tor1-0"`, "no path crosses"},
		{"no switch at all", "i8", `"tor0-0", "x"`, `"x" is no switch`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := s.ReadFlows("f.jsonl", strings.NewReader(`{"start_s": 0, "from": "i0", "to": "`+tt.to+`", "bytes": 1, "via": [`+tt.via+`]}`))
			if tt.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "f.jsonl:1: via: ")
				require.ErrorContains(t, err, tt.want)
			}
		})
	}
}
