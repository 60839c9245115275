package e2e

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/results"
)

// TestBackgroundIsWhatWasAskedForAndTheOracleKnowsIt: by the ports' counters per class;
// background's has no bytes of transfers.
func TestBackgroundIsWhatWasAskedForAndTheOracleKnowsIt(t *testing.T) {
	for _, kind := range []string{"udp", "tcp"} {
		t.Run(kind, func(t *testing.T) {
			absent(t, "e2e-background")
			out := filepath.Join(t.TempDir(), "run")
			o := mustRun(t, "up", scenario(t, "e2e-background", "requests: 8", "requests: 60", "[rr, netkv-full]", "[rr]",
				"seeds: [1]", "seeds: [1]\nbackground: {utilization: {tier2: 0.2, tier3: 0.3}, kind: "+kind+"}"), "--worlds", "packet", "--out", out)
			f := summary(t, out).Fidelity.Figures
			require.Len(t, f.Oracle, 2, o.stdout)
			for i, asked := range []float64{20, 30} {
				tier := f.Oracle[i]
				assert.Equal(t, i+2, tier.Tier)
				assert.InDelta(t, asked, tier.AskedPct, 1e-9)
				assert.InEpsilon(t, asked, tier.TruePct, 0.05, "tier %d", tier.Tier)
				assert.Less(t, tier.ErrorPoints, 3.0, "tier %d, at a refresh of a second", tier.Tier)
			}
			assert.Zero(t, f.StrayBytesPct, "a KV byte in the background's class, or the other way round")
		})
	}
}

// TestOneKindOfTrafficIsServedFirst: if transfers are first, background takes nothing from them;
// if background is first, they get what it leaves. In both worlds.
func TestOneKindOfTrafficIsServedFirst(t *testing.T) {
	mean := map[string]map[string]float64{}
	for _, first := range []string{"transfers", "background"} {
		absent(t, "e2e-first")
		out := filepath.Join(t.TempDir(), "run")
		o := mustRun(t, "up", scenario(t, "e2e-first", "requests: 8", "requests: 40", "[rr, netkv-full]", "[rr]",
			"seeds: [1]", "seeds: [1]\nbackground: {utilization: {tier2: 0.5, tier3: 0.5}}"),
			"--set", "topology.buffers.priority="+first, "--out", out)
		s := summary(t, out)
		assert.NotContains(t, s.Fidelity.Reasons, "background used", o.stdout)
		mean[first] = map[string]float64{}
		for _, world := range []string{results.WorldPacket, results.WorldReplay} {
			require.NotNil(t, s.Worlds[world]["rr"].Transfer, o.stdout)
			mean[first][world] = s.Worlds[world]["rr"].Transfer.Mean
		}
		assert.InEpsilon(t, mean[first][results.WorldReplay], mean[first][results.WorldPacket], 0.15, first)
	}
	for world, fast := range mean["transfers"] {
		assert.Greater(t, mean["background"][world], 1.4*fast, world)
	}
	o := netkvlab(t, "validate", scenario(t, "e2e-first"), "--set", "topology.buffers.priority=transfers")
	assert.Equal(t, 2, o.code)
	assert.Contains(t, o.stderr, "topology.buffers.priority is transfers, but ports cannot tell kinds of traffic apart")
}
