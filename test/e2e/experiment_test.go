package e2e

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/results"
)

func TestQuickstartRunsInUnderAMinute(t *testing.T) {
	clean(t)
	out := filepath.Join(t.TempDir(), "run")
	o := mustRun(t, "up", "quickstart", "--out", out)
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
	// The scenario as it is takes nine minutes; fewer requests and shorter answers take five.
	mustRun(t, "up", "paper-64gpu", "--out", out, "--policies", "rr,cla,netkv-full", "--seeds", "1,2,3",
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
