package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/scenarios"
)

func TestQuickstartRunsInUnderAMinute(t *testing.T) { quickstart(t, scenarios.RuntimeProcess) }

func TestQuickstartRunsInContainersAsWell(t *testing.T) {
	needDocker(t)
	quickstart(t, scenarios.RuntimeDocker)
}

func quickstart(t *testing.T, runtime string) {
	t.Helper()
	clean(t)
	out := filepath.Join(t.TempDir(), "run")
	o := mustRun(t, "up", "quickstart", "--runtime", runtime, "--out", out)
	assert.Less(t, o.took, time.Minute)
	s := summary(t, out)
	group := s.Worlds[results.WorldPacket]
	require.Len(t, group, 3)
	for label, g := range group {
		assert.Zero(t, g.Requests.Failed+g.Requests.Incomplete, label)
		assert.Equal(t, g.PayloadBytesEmulated, g.BytesMoved, "%s: bytes moved", label)
		// Prefill and decode fill different racks: no transfer stays on a server or in a rack.
		assert.Zero(t, g.TierShare["0"]+g.TierShare["1"], label)
	}
	var due int64
	for _, r := range records(t, out) {
		require.NoError(t, r.Check())
		due += r.PayloadBytesEmulated
	}
	var moved int64
	for _, g := range group {
		moved += g.BytesMoved
	}
	assert.Equal(t, due, moved, "bytes moved are the sum of the requests' payloads")
	assert.ElementsMatch(t, []string{"host.json", "links.csv", "requests.jsonl", "scenario.yaml", "summary.json"}, names(out))
	assert.Contains(t, o.stdout, "netkv-full")
}

func TestNetworkAwarePolicyShiftsTiersOnThePapersCluster(t *testing.T) {
	clean(t)
	out := filepath.Join(t.TempDir(), "run")
	// The full scenario takes nine minutes. With fewer requests, shorter answers and three fabrics
	// side by side it takes two. The verdict is not asked for, so nothing is repeated.
	mustRun(t, "up", "paper-64gpu", "--out", out, "--policies", "rr,cla,netkv-full", "--seeds", "1,2,3", "--parallel", "3", "--set", "scale.rate=800", "--set", "limits.repeats=0",
		"--set", "workload.synthetic.requests=120", "--set", "workload.synthetic.output.mean=40", "--set", "workload.synthetic.output.max=64")
	g := summary(t, out).Worlds[results.WorldPacket]
	rr, cla, full := g["rr"], g["cla"], g["netkv-full"]
	for label, x := range g {
		require.Zero(t, x.Requests.Failed+x.Requests.Incomplete, label)
		require.NotNil(t, x.Transfer.CI95, label)
		t.Logf("%-10s transfer %.0f ± %.0f ms, tier 2 %.2f", label, x.Transfer.Mean, *x.Transfer.CI95, x.TierShare["2"])
	}
	assert.Greater(t, full.TierShare["2"], cla.TierShare["2"]+0.2)
	assert.Greater(t, full.TierShare["2"], rr.TierShare["2"]+0.2)
	assert.Less(t, full.Transfer.Mean, cla.Transfer.Mean)
	assert.LessOrEqual(t, cla.Transfer.Mean, rr.Transfer.Mean)
}

// TestBothWorldsAgreeOnRoundRobin: round robin ignores the network, so its two worlds differ
// only by transport.
func TestBothWorldsAgreeOnRoundRobin(t *testing.T) {
	clean(t)
	out := filepath.Join(t.TempDir(), "run")
	mustRun(t, "up", scenario(t, "e2e-worlds"), "--out", out)
	s := summary(t, out)
	require.Contains(t, s.Worlds, results.WorldFlow)
	run, err := results.Open(out)
	require.NoError(t, err)
	flow := map[int]results.Record{}
	for _, r := range run.Records {
		require.NoError(t, r.Check())
		if r.World == results.WorldFlow && r.Policy == "rr" && r.Seed == 1 {
			flow[r.ID] = r
		}
	}
	for _, r := range records(t, out) {
		if r.Policy == "rr" {
			assert.Equal(t, flow[r.ID].Prefill, r.Prefill, "request %d", r.ID)
			assert.Equal(t, flow[r.ID].Decode, r.Decode, "request %d", r.ID)
			assert.Equal(t, flow[r.ID].PayloadBytesEmulated, r.PayloadBytesEmulated, "request %d", r.ID)
		}
	}
}

func TestSimIsTheSameToTheByte(t *testing.T) {
	var first []byte
	for i := range 3 {
		out := filepath.Join(t.TempDir(), "run")
		mustRun(t, "sim", "quickstart", "--out", out)
		rows, err := os.ReadFile(filepath.Join(out, results.RequestsFile))
		require.NoError(t, err)
		if i == 0 {
			first = rows
		}
		assert.True(t, string(first) == string(rows), "run %d differs", i)
	}
}
