package flowworld_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/flowworld"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

// narrow is the known cluster with core links of 12.5 Gbps.
var narrow = strings.Replace(known, "pod: 8}", "pod: 16}", 1)

// TestAnOverlappedTransferTakesTheHandComputedTime: 500 MB of a prompt that computes for 200 ms,
// over links that take 80 ms (tier 2) and 320 ms (tier 3) for them.
func TestAnOverlappedTransferTakesTheHandComputedTime(t *testing.T) {
	t.Parallel()
	file := trace(t, `{"timestamp": 0, "input_length": 1000, "output_length": 1}`)
	for _, tt := range []struct {
		name, overlap string
		chunk, decode int
		visible       float64 // ms
	}{
		{"faster than its layers: the last of 125 is what one waits for", scenarios.OverlapLayer, 2048, 4, 80.0 / 125},
		{"faster than its chunks: the last of four", scenarios.OverlapChunk, 250, 4, 20},
		{"in equal pieces, however the chunks divide the prompt", scenarios.OverlapChunk, 300, 4, 20},
		{"slower than its layers: from the first on without a pause", scenarios.OverlapLayer, 2048, 8, 200.0/125 + 320 - 200},
		{"slower than its chunks", scenarios.OverlapChunk, 250, 8, 50 + 320 - 200},
		{"one chunk is no overlap", scenarios.OverlapChunk, 1000, 8, 320},
	} {
		s := scenario(t, fmt.Sprintf(narrow, tt.decode, file))
		s.Transfer.Overlap, s.Transfer.OverlapChunk = tt.overlap, tt.chunk
		r := run(t, s, "rr", nil)[0]
		assert.Equal(t, results.Completed, r.Status, r.Reason)
		assert.InDelta(t, 200, r.PrefillMS, 1e-6, tt.name)
		assert.InDelta(t, tt.visible+0.015, r.TransferMS, 0.0205, tt.name) // its latency is 10 or 15 us
		assert.InDelta(t, 200+tt.visible+0.015+30, *r.TTFTMS, 0.0205, tt.name)
	}
}

// TestAStreamWithoutAPieceLeavesItsLinkToOthers: two prefills of 200 ms, the second 100 ms
// later, into one instance. A core path carries a payload in 320 ms, in halves.
func TestAStreamWithoutAPieceLeavesItsLinkToOthers(t *testing.T) {
	t.Parallel()
	file := trace(t,
		`{"timestamp": 0, "input_length": 1000, "output_length": 1}`,
		`{"timestamp": 400, "input_length": 1000, "output_length": 1}`)
	s := scenario(t, fmt.Sprintf(narrow, 8, file))
	s.Engine.Prefill.Mode, s.Engine.Decode.MaxBatch = "delay", 2
	s.Transfer.Overlap, s.Transfer.OverlapChunk = scenarios.OverlapChunk, 500
	// A: halves released at 100 and 200, 160 ms each alone, without a pause until 420. B: at 500
	// and 600.
	rows := run(t, s, "rr", nil)
	assert.InDelta(t, 220, rows[0].TransferMS, 0.02)
	assert.InDelta(t, 220, rows[1].TransferMS, 0.02, "they never meet")

	// B 100 ms after A, halves of 160 ms. A is alone from 100 to 200 (100 ms of work done). Then
	// two share: at 200 A has 220 left and B starts with 160; B's second half follows at 300
	// without a pause, 320 in all. A ends when 220 at half speed are done: 640. B did 220 by then
	// and ends at 740.
	file = trace(t,
		`{"timestamp": 0, "input_length": 1000, "output_length": 1}`,
		`{"timestamp": 100, "input_length": 1000, "output_length": 1}`)
	s = scenario(t, fmt.Sprintf(narrow, 8, file))
	s.Engine.Prefill.Mode, s.Engine.Decode.MaxBatch = "delay", 2
	s.Transfer.Overlap, s.Transfer.OverlapChunk = scenarios.OverlapChunk, 500
	rows = run(t, s, "rr", nil)
	assert.InDelta(t, 640-200, rows[0].TransferMS, 0.02)
	assert.InDelta(t, 740-300, rows[1].TransferMS, 0.02)
}

func TestOverlapShortensWhatIsVisibleAndMovesTheSameBytes(t *testing.T) {
	t.Parallel()
	s := paper(t, 150)
	after := run(t, s, "rr", nil)
	s.Transfer.Overlap = scenarios.OverlapLayer
	during := run(t, s, "rr", nil)
	var a, b float64
	for i := range after {
		a, b = a+after[i].TransferMS, b+during[i].TransferMS
		assert.Equal(t, after[i].PromptTokens, during[i].PromptTokens)
		assert.Equal(t, during[i].PayloadBytesEmulated, during[i].MovedBytesEmulated)
	}
	t.Logf("visible transfer %.0f ms, overlapped %.0f ms", a/150, b/150)
	assert.Less(t, b, a/2)
}

func TestReplayOfAnOverlappedFlowRunChangesNothing(t *testing.T) {
	t.Parallel()
	s := paper(t, 150)
	s.Transfer.Overlap = scenarios.OverlapLayer
	rows := run(t, s, "netkv-full", nil)
	cluster, err := trials.New(s)
	require.NoError(t, err)
	again, err := flowworld.Replay(t.Context(), trials.Flow{Cluster: cluster}.Config(1), rows)
	require.NoError(t, err)
	for i := range rows {
		assert.InDelta(t, rows[i].TransferMS, again[i].TransferMS, 0.002)
		require.NoError(t, again[i].Check())
	}
}
