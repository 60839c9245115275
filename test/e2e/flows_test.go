package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/results"
)

// frameShare is the factor that framing adds to a payload: 1514 bytes on the link carry 1448.
const frameShare = 1514.0 / 1448

// tiers is a cluster whose instance i0 has a neighbour at every tier: i1 on its server,
// i2 in its rack, i4 in its pod, i8 in the other pod.
const tiers = `name: bad-flows
topology: {pods: 2, racksPerPod: 2, serversPerRack: 2, gpusPerServer: 8, nicRate: 100Gbps, aggsPerPod: 2, coresPerAgg: 2, linkRates: {rackUplink: 50Gbps, coreLink: 25Gbps}}
model: {tensorParallel: 4}
workload:
  kind: flows
  flows:
    list:
      - {start: 0s, from: i0, to: i1, bytes: 2GB}
      - {start: 500ms, from: i0, to: i2, bytes: 1GB}
      - {start: 1s, from: i0, to: i4, bytes: 1GB, via: [tor0-0, agg0-1, tor0-1]}
      - {start: 1500ms, from: i0, to: i8, bytes: 1GB, via: [tor0-0, agg0-1, core1-0, agg1-1, tor1-0]}
      - {start: 2500ms, from: i0, to: i9, bytes: 1GB}
      - {start: 3500ms, from: i0, to: i4, bytes: 1GB, via: [tor0-0, agg0-0, tor0-1]}
      - {start: 3500ms, from: i1, to: i5, bytes: 1GB, via: [tor0-0, agg0-0, tor0-1]}
transfer: {streams: 1}
oracle: {refresh: 100ms}
scale: {rate: 1000}
`

func TestFlowsTakeThePathsTheyAreGiven(t *testing.T) {
	absent(t, "bad-flows")
	dir := t.TempDir()
	file := filepath.Join(dir, "s.yaml")
	require.NoError(t, os.WriteFile(file, []byte(tiers), 0o600))
	out := filepath.Join(dir, "run")
	mustRun(t, "up", file, "--out", out)
	rows := records(t, out)
	require.Len(t, rows, 7)
	want := map[string]int64{} // payload that a link must have carried
	var halves []float64       // of the fluid time: two transfers that share an uplink
	for i, tt := range []struct {
		what string
		tier int
		gbps float64  // of the narrowest link, without other traffic
		path []string // nil: any
	}{
		{"on one server", 0, 3600, []string{"i0", "i1"}},
		{"in one rack", 1, 100, []string{"i0", "tor0-0", "i2"}},
		{"in one pod, as given", 2, 50, []string{"i0", "tor0-0", "agg0-1", "tor0-1", "i4"}},
		{"across pods, as given", 3, 25, []string{"i0", "tor0-0", "agg0-1", "core1-0", "agg1-1", "tor1-0", "i8"}},
		{"across pods, as drawn", 3, 25, nil},
		{"half of an uplink", 2, 25, []string{"i0", "tor0-0", "agg0-0", "tor0-1", "i4"}},
		{"the other half", 2, 25, []string{"i1", "tor0-0", "agg0-0", "tor0-1", "i5"}},
	} {
		r := rows[i]
		require.NoError(t, r.Check())
		require.Equal(t, results.Completed, r.Status, tt.what)
		require.NotNil(t, r.FinishMS, tt.what)
		assert.Equal(t, tt.tier, r.Tier, tt.what)
		assert.Equal(t, r.PayloadBytesEmulated, r.MovedBytesEmulated, tt.what)
		require.Len(t, r.Streams, 1, tt.what)
		path := r.Streams[0].Path
		if tt.path != nil {
			assert.Equal(t, tt.path, path, tt.what)
		}
		require.Len(t, path, []int{2, 3, 5, 7}[tt.tier], tt.what)
		ideal := float64(r.PayloadBytes) * 8 / tt.gbps / 1e6 * frameShare
		t.Logf("%-22s %8.2f ms, fluid %8.2f ms", tt.what, r.TransferMS, ideal)
		switch {
		case tt.gbps == 25 && tt.tier == 2: // TCP's shares are random over such a short time
			halves = append(halves, r.TransferMS/ideal)
		case tt.tier > 0: // 5 ms on a server: this depends on the host's own speed
			assert.Greater(t, r.TransferMS, 0.97*ideal, tt.what)
		}
		for h := range path[1:] {
			want[path[h]+">"+path[h+1]] += r.PayloadBytesEmulated
		}
	}
	require.Len(t, halves, 2)
	assert.Greater(t, max(halves[0], halves[1]), 0.97, "an uplink carries no more than its rate: one of two is done when both fluids are")
	assert.Greater(t, min(halves[0], halves[1]), 0.5, "and no less than half of it each")
	carried(t, links(t, out), want)
}

// carried compares the counters of all links with the payload that they must have carried. Other
// links carry only acknowledgements.
func carried(t *testing.T, got, want map[string]int64) {
	t.Helper()
	var largest int64
	for _, n := range want {
		largest = max(largest, n)
	}
	for link, n := range got {
		due := float64(want[link])
		assert.GreaterOrEqual(t, float64(n), due*frameShare*0.995, "%s carried too little", link)
		assert.LessOrEqual(t, float64(n), due*frameShare*1.1+0.05*float64(largest), "%s carried what should have gone elsewhere", link)
	}
	for link := range want {
		assert.Contains(t, got, link)
	}
}

// TestFluidModelOfTwelveFlows compares packet completion times with the right answers of the
// fluid model. TCP is not a fluid: single flows may differ, but not the median.
func TestFluidModelOfTwelveFlows(t *testing.T) {
	absent(t, "bad-maxmin-tiny")
	out := filepath.Join(t.TempDir(), "run")
	file, err := filepath.Abs("testdata/maxmin-tiny.yaml")
	require.NoError(t, err)
	o := mustRun(t, "up", file, "--out", out)
	assert.Less(t, o.took, time.Minute)
	fct := fluid(t, "testdata/maxmin-tiny.fct.jsonl")
	rows := records(t, out)
	require.Len(t, rows, len(fct))
	want := map[string]int64{}
	var ratios []float64
	for i, r := range rows {
		require.Equal(t, results.Completed, r.Status, r.Reason)
		require.Len(t, r.Streams, 1)
		for h, path := 0, r.Streams[0].Path; h+1 < len(path); h++ {
			want[path[h]+">"+path[h+1]] += r.PayloadBytesEmulated
		}
		ratios = append(ratios, r.TransferMS/1000/(fct[i]*frameShare))
	}
	carried(t, links(t, out), want)
	var each strings.Builder
	for _, x := range ratios {
		fmt.Fprintf(&each, " %.3f", x)
	}
	slices.Sort(ratios)
	median := (ratios[5] + ratios[6]) / 2
	t.Logf("packet / fluid: median %.3f, %.3f..%.3f, by flow:%s", median, ratios[0], ratios[11], each.String())
	assert.InDelta(t, 1, median, 0.1)
}

func fluid(t *testing.T, name string) []float64 {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	var out []float64
	for line := range strings.Lines(string(data)) {
		var row struct {
			Flow int     `json:"flow"`
			FCT  float64 `json:"fct_s"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		require.Equal(t, len(out), row.Flow)
		out = append(out, row.FCT)
	}
	return out
}
