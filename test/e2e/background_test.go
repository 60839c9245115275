package e2e

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBackgroundIsWhatWasAskedForAndTheOracleKnowsIt: by the class counters of the ports,
// of which no byte is the transfers'.
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
