package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/flowsim"
	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/analysis/attribution"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

// TestPacketsTakeTheTimesOfNS3 replays flows that ns-3 has simulated packet by packet
// (testdata/ns3-*-1m.json, each with its method), on the same paths and with the same buffers.
// The mean of the busy case is only printed: there ns-3 loses seconds to timeouts.
func TestPacketsTakeTheTimesOfNS3(t *testing.T) {
	long := os.Getenv("NETKVLAB_LONG") != "" // four minutes more
	for _, tc := range []struct {
		name         string
		mean, always bool
	}{
		{"light", true, false},
		{"moderate", true, true},
		{"busy", false, false},
	} {
		if !tc.always && !long {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			if !long {
				t.Parallel()
			}
			lab := "e2e-ns3-" + tc.name
			absent(t, lab)
			dir := t.TempDir()
			fct := reference(t, filepath.Join("testdata", "ns3-"+tc.name+"-1m.json"), filepath.Join(dir, "flows.jsonl"))
			file := filepath.Join(dir, "ns3.yaml")
			require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, tree, lab, "fifo", "cubic"), 0o600))
			out := filepath.Join(dir, "run")
			took := mustRun(t, "up", file, "--worlds", "packet,flow", "--out", out).took
			packet, replay := recordsOf(t, out, results.WorldPacket), recordsOf(t, out, results.WorldReplay)
			require.Len(t, packet, len(fct))
			ratios, sum, want := make([]float64, len(fct)), 0.0, 0.0
			for i, r := range packet {
				require.Equal(t, results.Completed, r.Status, r.Reason)
				ratios[r.ID] = r.TransferMS / 1000 / fct[r.ID]
				sum, want = sum+r.TransferMS/1000, want+fct[r.ID]
				require.NotEmpty(t, r.Streams[0].BackPath, "flow %d", i)
			}
			slices.Sort(ratios)
			at := func(q int) float64 { return analysis.Percentile(ratios, float64(q)) }
			f := summary(t, out).Fidelity
			t.Logf("packet / ns-3 of %d flows: median %.3f; 1 %% %.3f, 10 %% %.3f, 90 %% %.3f, 99 %% %.3f; means %.3f s / %.3f s = %.3f; %v; %s %v",
				len(fct), at(50), at(1), at(10), at(90), at(99), sum/float64(len(fct)), want/float64(len(fct)), sum/want, took.Round(time.Second), f.Verdict, f.Reasons)
			assert.InDelta(t, 1, at(50), 0.02)
			if tc.mean {
				assert.InDelta(t, 1, sum/want, 0.05)
			}
			noneWronglyAlone(t, file, packet, replay)
		})
	}
}

// TestAcknowledgementsWaitBehindTheDataOfOthers uses the last two flows of the light case. The
// second is alone on its links, but its acknowledgements cross the link that the first fills.
func TestAcknowledgementsWaitBehindTheDataOfOthers(t *testing.T) {
	absent(t, "e2e-acks")
	dir := t.TempDir()
	const flows = `{"start_s":0,"from":"i11","to":"i2","bytes":6923245000,"via":["tor2-1","agg2-0","core0-1","agg0-0","tor0-1"]}
{"start_s":1.614926,"from":"i5","to":"i9","bytes":208702000,"via":["tor1-0","agg1-0","core0-0","agg2-0","tor2-0"]}
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "flows.jsonl"), []byte(flows), 0o600))
	file, out := filepath.Join(dir, "acks.yaml"), filepath.Join(dir, "run")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, tree, "e2e-acks", "fifo", "cubic"), 0o600))
	mustRun(t, "up", file, "--worlds", "packet,flow", "--out", out)
	packet, replay := recordsOf(t, out, results.WorldPacket), recordsOf(t, out, results.WorldReplay)
	require.Len(t, packet, 2)
	assert.Equal(t, []string{"i9", "tor2-0", "agg2-0", "core0-1", "agg1-0", "tor1-0", "i5"}, packet[1].Streams[0].BackPath)
	assert.Greater(t, packet[1].TransferMS, 2*replay[1].TransferMS, "its acknowledgements waited")
	noneWronglyAlone(t, file, packet, replay)
	for _, reason := range summary(t, out).Fidelity.Reasons {
		assert.NotContains(t, reason, "met no other")
		assert.NotContains(t, reason, "recorded paths")
	}
}

// noneWronglyAlone compares the class alone with a separate count: a flow is alone if no other's
// data were on its links or on its acknowledgements' way back.
func noneWronglyAlone(t *testing.T, file string, packet, replay []results.Record) {
	t.Helper()
	links := func(nodes []string) map[string]bool {
		set := map[string]bool{}
		for h := 1; h < len(nodes); h++ {
			set[nodes[h-1]+">"+nodes[h]] = true
		}
		return set
	}
	fluid := map[int]*results.Record{}
	for i := range replay {
		fluid[replay[i].ID] = &replay[i]
	}
	alone, back := 0, 0
	for i := range packet {
		p := &packet[i]
		mine, acks := links(p.Streams[0].Path), links(p.Streams[0].BackPath)
		met, metBack := false, false
		for j := range packet {
			o := &packet[j]
			if i == j || max(o.TransferEndMS(), fluid[o.ID].TransferEndMS()) <= p.TransferStartMS ||
				max(p.TransferEndMS(), fluid[p.ID].TransferEndMS()) <= o.TransferStartMS {
				continue
			}
			for link := range links(o.Streams[0].Path) {
				met, metBack = met || mine[link], metBack || acks[link]
			}
		}
		switch ideal := fluid[p.ID].TransferMS; {
		case met:
		case metBack:
			back++
			t.Logf("flow %d alone on its links, its acknowledgements not: %.0f ms, %.0f alone", p.ID, p.TransferMS, ideal)
		default:
			alone++
			// A full queue is a third of a second; the rest is for a busy host.
			assert.Less(t, p.TransferMS, 1.1*ideal+100, "flow %d, which would take %.1f ms alone", p.ID, ideal)
		}
	}
	s, err := scenarios.Load(file)
	require.NoError(t, err)
	c, err := trials.New(s)
	require.NoError(t, err)
	flow := trials.Flow{Cluster: c, Framing: flowsim.FullSegmentFraming, Latency: new([4]time.Duration)}
	transfers, err := attribution.Classify(t.Context(), flow.Config, packet, replay)
	require.NoError(t, err)
	check := attribution.CheckAlone(transfers)
	for _, c := range attribution.Transport(nil, transfers, packet) {
		t.Logf("%-9s %3d, packet / replay %.3f at the median, %.3f at 90 %%, %+.1f ms of the mean", c.Class, c.N, c.P50, c.P90, c.ExcessMS)
	}
	if check == nil {
		check = &results.AloneCheck{} // no transfer was alone
	}
	assert.Equal(t, alone, check.N)
	assert.Zero(t, check.BackUnknown)
	assert.Positive(t, back, "acknowledgements find a path of their own")
}
