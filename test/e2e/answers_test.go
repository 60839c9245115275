package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/results"
)

// frames is the factor that framing adds to a payload: a full segment of 1448 bytes is a frame
// of 1514.
const frames = 1514.0 / 1448.0

// known is a cluster in which times can be computed by hand: 12500 KV bytes and 0.2 ms of
// prefill per token, 30 ms per decode step, 100 Mbit/s everywhere.
const known = `name: e2e-known
topology: {pods: 2, racksPerPod: 1, serversPerRack: 1, gpusPerServer: 1, aggsPerPod: 1, coresPerAgg: 1, nicRate: 100Mbps, linkRates: {rackUplink: 100Mbps, coreLink: 100Mbps}}
placement: {prefill: [0], decode: [1]}
model: {layers: 1, kvHeads: 1, headDim: 3125, bytesPerElement: 2, tensorParallel: 1}
engine:
  compute: custom
  prefill: {mode: queue, base: 0s, perTokenNs: 200000, perTokenSquaredNs: 0}
  decode: {maxBatch: 1, memory: 10GB, minFree: 0B, base: 30ms, perSequence: 0s, perContextTokenNs: 0}
workload:
  kind: trace
  trace: {file: %s}
policies: [rr]
seeds: [1]
scale: {rate: 1, time: 1}
`

func TestTimeToFirstTokenHasTheKnownAnswer(t *testing.T) {
	for _, tt := range []struct {
		name    string
		arrival []int // ms
	}{
		{"one request alone", []int{0}},
		{"three at one instant", []int{0, 0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clean(t)
			dir := t.TempDir()
			var trace strings.Builder
			for _, at := range tt.arrival {
				fmt.Fprintf(&trace, `{"timestamp": %d, "input_length": 1000, "output_length": 3}`+"\n", at)
			}
			file := filepath.Join(dir, "trace.jsonl")
			require.NoError(t, os.WriteFile(file, []byte(trace.String()), 0o600))
			path := filepath.Join(dir, "known.yaml")
			require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, known, file), 0o600))
			out := filepath.Join(dir, "run")
			mustRun(t, "up", path, "--out", out)
			rows := records(t, out)
			require.Len(t, rows, len(tt.arrival))
			for i, r := range rows {
				require.Equal(t, results.Completed, r.Status, r.Reason)
				require.NoError(t, r.Check(), "the parts add up")
				assert.Equal(t, int64(12_500_000), r.MovedBytesEmulated)
				assert.InDelta(t, 200, r.PrefillMS, 1)
				assert.InDelta(t, 200*float64(i), r.PrefillWaitMS, 5)
				assert.InDelta(t, 30, r.FirstStepMS, 1)
			}
			alone := 200 + 1000*frames + 30
			if len(rows) == 1 {
				assert.InEpsilon(t, alone, *rows[0].TTFTMS, 0.05)
			}
			if len(rows) == 3 {
				last := max(*rows[0].FinishMS, *rows[1].FinishMS, *rows[2].FinishMS)
				assert.GreaterOrEqual(t, last, 200+3000*frames, "the link carries three payloads one after the other or mixed")
			}
		})
	}
}

// alone is a flow replay over every tier, one transfer at a time.
const alone = `name: e2e-alone
topology: {pods: 2, racksPerPod: 2, serversPerRack: 2, gpusPerServer: 2, nicRate: 100Gbps, oversubscription: {rack: 4, pod: 8}}
model: {tensorParallel: 1}
transfer: {streams: 1}
workload:
  kind: flows
  flows:
    list:
      - {start: 0s, from: i0, to: i2, bytes: 2GB}
      - {start: 2s, from: i0, to: i4, bytes: 2GB}
      - {start: 4s, from: i0, to: i8, bytes: 2GB}
scale: {rate: 1000, time: 1}
`

// TestLoneTransfersTakeTheirFramesOverTheRate: the emulated rate counts frames, and nothing else
// may change the time of a transfer that is alone on its path.
func TestLoneTransfersTakeTheirFramesOverTheRate(t *testing.T) {
	clean(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "alone.yaml")
	require.NoError(t, os.WriteFile(path, []byte(alone), 0o600))
	out := filepath.Join(dir, "run")
	mustRun(t, "up", path, "--out", out)
	gbps := []float64{100, 50, 25} // of tiers 1, 2 and 3
	for i, r := range records(t, out) {
		require.Equal(t, results.Completed, r.Status, r.Reason)
		require.Equal(t, i+1, r.Tier)
		ideal := 2e9 * 8 / (gbps[i] * 1e9) * 1000 * frames
		assert.InEpsilon(t, ideal, r.TransferMS, 0.02, "tier %d", r.Tier)
		assert.Len(t, r.Streams[0].Path, []int{3, 5, 7}[i])
	}
}

// TestOverloadedRunsAreNotCalledGood forces a rate that the host cannot carry.
func TestOverloadedRunsAreNotCalledGood(t *testing.T) {
	clean(t)
	out := filepath.Join(t.TempDir(), "run")
	o := netkvlab(t, "up", scenario(t, "e2e-over", "rate: 400", "rate: 25", "requests: 8", "requests: 24", "rate: 6/s", "rate: 40/s"),
		"--out", out, "--strict")
	s := summary(t, out)
	assert.Equal(t, 3, o.code, o.stderr)
	assert.NotEqual(t, results.VerdictGood, s.Fidelity.Verdict)
	assert.NotEmpty(t, s.Fidelity.Reasons)
}
