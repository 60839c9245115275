package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/results"
)

// The tests of this file check both worlds in the same way: `up` runs the packet world and also
// the flow world with the same frames on its links.

// write puts a scenario, and the files it names, into a folder.
func write(t *testing.T, files ...string) (yaml string) {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o600))
	}
	return filepath.Join(dir, files[0])
}

// rowsOf reads one world's rows of the first seed, which both worlds ran, by policy.
func rowsOf(t *testing.T, dir, world string) map[string][]results.Record {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, results.RequestsFile))
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	all, err := results.ReadRecords(f, f.Name())
	require.NoError(t, err)
	out := map[string][]results.Record{}
	for _, r := range all {
		if r.World == world && r.Seed == 1 {
			require.NoError(t, r.Check())
			require.Equal(t, results.Completed, r.Status, r.Reason)
			out[r.Policy] = append(out[r.Policy], r)
		}
	}
	for _, rows := range out {
		slices.SortFunc(rows, func(a, b results.Record) int { return a.ID - b.ID })
	}
	return out
}

// herd is 8 prefills, 8 equal idle decodes and an oracle that does not refresh. Prefills end 4
// ms apart, so that the order of decisions is the same in both worlds, and no transfer ends
// before the last decision.
const herd = `name: e2e-w-herd
topology: {pods: 2, racksPerPod: 2, serversPerRack: 4, gpusPerServer: 1, nicRate: 16Mbps, oversubscription: {rack: 1, pod: 1}}
placement: {prefill: [0, 1, 2, 3, 4, 5, 6, 7], decode: [8, 9, 10, 11, 12, 13, 14, 15]}
model: {layers: 1, kvHeads: 1, headDim: 200, bytesPerElement: 2, tensorParallel: 1}
engine:
  compute: custom
  prefill: {mode: delay, base: 0s, perTokenNs: 200000, perTokenSquaredNs: 0}
  decode: {maxBatch: 64, memory: 10GB, minFree: 0B, base: 10ms, perSequence: 0s, perContextTokenNs: 0}
workload: {kind: trace, trace: {file: trace.jsonl}}
transfer: {streams: 1}
oracle: {refresh: 10s}
policies: [rr, random, cla, netkv-full]
seeds: [1]
scale: {rate: 1}
`

func TestWorldsDecideAlikeWhereTimingCannotMatter(t *testing.T) {
	absent(t, "e2e-w-herd")
	var trace strings.Builder
	for i := range 40 {
		fmt.Fprintf(&trace, `{"timestamp": 0, "input_length": %d, "output_length": 2}`+"\n", 500+20*i)
	}
	out := filepath.Join(t.TempDir(), "run")
	mustRun(t, "up", write(t, "herd.yaml", herd, "trace.jsonl", trace.String()), "--out", out)
	packet, flow := rowsOf(t, out, results.WorldPacket), rowsOf(t, out, results.WorldFlow)
	for _, p := range []string{"rr", "random", "cla", "netkv-full"} {
		into := counts(packet[p])
		assert.Equal(t, counts(flow[p]), into, p)
		peak := func(rows []results.Record) int {
			return analysis.Summarize(rows, results.Meta{}).Worlds[rows[0].World][p].PeakTransfersIntoOne
		}
		t.Logf("%-10s decisions %v, peak into one: packet %d, flow %d", p, into, peak(packet[p]), peak(flow[p]))
		assert.Equal(t, peak(flow[p]), peak(packet[p]), p)
		if p == "rr" || p == "cla" {
			for d, n := range into {
				assert.Equal(t, 5, n, "%s into %s", p, d)
			}
		}
	}
}

func counts(rows []results.Record) map[string]int {
	n := map[string]int{}
	for i := range rows {
		n[rows[i].Decode]++
	}
	return n
}

// shared has the instances of two servers on both sides of one uplink of 1 Gbps.
const shared = `name: e2e-w-share
topology: {pods: 1, racksPerPod: 2, serversPerRack: 1, gpusPerServer: 8, aggsPerPod: 1, coresPerAgg: 1, nicRate: 2Gbps, linkRates: {rackUplink: 1Gbps, coreLink: 1Gbps}}
model: {tensorParallel: 1}
workload:
  kind: flows
  flows:
    list:
%s
transfer: {streams: %d}
scale: {rate: 25, time: 1}
`

// TestWorldsShareALinkByConnection: all bytes arrive when the fluid model says so, and equal
// transfers that start together end together on average. A connection that starts later needs
// some time to reach its share.
func TestWorldsShareALinkByConnection(t *testing.T) {
	// 95.64 MB are 100 MB in frames: 0.8 s of the uplink.
	flow := func(i int, start, bytes string) string {
		return fmt.Sprintf("      - {start: %s, from: i%d, to: i%d, bytes: %s}\n", start, i, i+8, bytes)
	}
	quarters := strings.Repeat(flow(1, "0s", "23.91MB"), 4) // with shares per pair of instances they would end at 1600 ms
	for _, tt := range []struct {
		name    string
		streams int
		flows   string
		ends    []float64 // ms
		within  float64   // of all but the last, on average, in the packet world
	}{
		{"one comes later", 1, flow(0, "0s", "382.56MB") + flow(1, "1600ms", "382.56MB"), []float64{4800, 6400}, 0.25},
		{"two of four streams", 4, flow(0, "0s", "95.64MB") + flow(1, "0s", "95.64MB"), []float64{1600, 1600}, 0.1},
		{"four of a quarter beside one", 1, quarters + flow(0, "0s", "95.64MB"), []float64{1000, 1000, 1000, 1000, 1600}, 0.3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			absent(t, "e2e-w-share")
			out := filepath.Join(t.TempDir(), "run")
			mustRun(t, "up", write(t, "s.yaml", fmt.Sprintf(shared, tt.flows, tt.streams)), "--out", out)
			packet, fluid := rowsOf(t, out, results.WorldPacket)["as-given"], rowsOf(t, out, results.WorldFlow)["as-given"]
			var ends []float64
			for i, want := range tt.ends {
				t.Logf("flow %d: packet world %.0f ms, flow world %.0f ms", i, *packet[i].FinishMS, *fluid[i].FinishMS)
				assert.InEpsilon(t, want, *fluid[i].FinishMS, 0.001, "flow %d in the flow world", i)
				ends = append(ends, *packet[i].FinishMS)
			}
			slices.Sort(ends)
			last := len(ends) - 1
			assert.InEpsilon(t, tt.ends[last], ends[last], 0.03, "the link is never idle")
			assert.InEpsilon(t, tt.ends[0], mean(ends[:last]), tt.within)
		})
	}
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// even is a cluster without oversubscription in which every pair is of tier 2.
const even = `name: e2e-w-even
topology: {pods: 1, racksPerPod: 2, serversPerRack: 2, gpusPerServer: 8, oversubscription: {rack: 1, pod: 1}}
workload:
  kind: synthetic
  synthetic:
    profile: rag
    requests: 24
    rate: 6/s
    prompt: {mean: 2000, sigma: 0.3, min: 512, max: 4096}
    output: {mean: 4, sigma: 0, min: 1, max: 4}
policies: [rr, netkv-topo, netkv-full]
seeds: [1]
scale: {rate: 1000, time: 1}
`

// TestWorldsSeeNoGainWhereThereIsNone is the negative control in the packet world.
func TestWorldsSeeNoGainWhereThereIsNone(t *testing.T) {
	absent(t, "e2e-w-even")
	out := filepath.Join(t.TempDir(), "run")
	mustRun(t, "up", write(t, "even.yaml", even), "--out", out)
	found := 0
	for _, g := range summary(t, out).Gains {
		if g.Policy != "netkv-full" || g.Metric != results.MetricTransfer {
			continue
		}
		require.NotNil(t, g.PacketCI95)
		require.NotNil(t, g.FlowCI95)
		t.Logf("%s vs %s: packet %+.1f ± %.1f %%, flow %+.1f ± %.1f %%", g.Policy, g.Baseline, *g.PacketPct, *g.PacketCI95, *g.FlowPct, *g.FlowCI95)
		found++
		slack := max(*g.PacketCI95, 5) // the interval itself is not accurate, with ten batches of few requests
		assert.Greater(t, *g.PacketPct, -slack, "faster than %s by nothing", g.Baseline)
		if g.Baseline == "netkv-topo" {
			assert.Less(t, *g.PacketPct, slack)
			assert.Zero(t, *g.FlowPct, "the same decisions")
		}
	}
	assert.Equal(t, 2, found)
}

// TestWorldsDoNotDependOnThreadsOrOnTheOrderOfLists: the flow world's rows and the printed summary.
func TestWorldsDoNotDependOnThreadsOrOnTheOrderOfLists(t *testing.T) {
	var rows, printed string
	for i, placement := range []string{
		"{prefill: [0, 1, 4, 5], decode: [2, 3, 6, 7]}", "{prefill: [5, 1, 4, 0], decode: [6, 3, 2, 7]}",
		"{decode: [7, 6, 3, 2], prefill: [0, 1, 4, 5]}", "{prefill: [0, 1, 4, 5], decode: [2, 3, 6, 7]}",
	} {
		out := filepath.Join(t.TempDir(), "run")
		cmd, stdout, stderr := command(t.Context(), t.TempDir(), "sim", "paper-64gpu", "--set", "placement="+placement,
			"--set", "workload.synthetic.requests=40", "--seeds", "1,2", "--out", out, "--output", "json",
			"--policies", "random,rr,least-loaded,ca,cla,llmd,llmd-default,llmd-topology,sglang,dynamo,netkv-topo,netkv-static,netkv-full")
		cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", i+1))
		o := finish(t, cmd, stdout, stderr)
		require.Zero(t, o.code, o.stderr)
		got, err := os.ReadFile(filepath.Join(out, results.RequestsFile))
		require.NoError(t, err)
		if i == 0 {
			rows, printed = string(got), o.stdout
		}
		assert.True(t, rows == string(got), "rows with %s on %d threads", placement, i+1)
		assert.Equal(t, printed, o.stdout)
	}
	require.Contains(t, printed, `"worlds"`)
}
