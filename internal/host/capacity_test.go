package host

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/scenarios"
)

func paperPlan(t *testing.T, rate float64) *fabric.Plan {
	t.Helper()
	s, err := scenarios.Load("paper-64gpu")
	require.NoError(t, err)
	p, err := fabric.New(s, scenarios.Scale{Rate: rate, Time: 1})
	require.NoError(t, err)
	return p
}

func TestTheCoarsestStepThatIsNotTooCoarseCounts(t *testing.T) {
	t.Parallel()
	two := Capacity{Cores: 2, Calibrated: true, Steps: []Step{ // like the host that docs/fidelity.md measures
		{Rate: 25e6, Segments: 2, HopsPerCore: 300e3}, {Rate: 62.5e6, Segments: 4, HopsPerCore: 451e3},
		{Rate: 125e6, Segments: 4, HopsPerCore: 550e3}, {Rate: 250e6, Segments: 4, HopsPerCore: 589e3},
	}}
	for name, tt := range map[string]struct {
		rate     scenarios.BitsPerSecond
		segments int
		want     float64
	}{
		"a measured grain":                   {125e6, 4, 550e3},
		"between two":                        {100e6, 4, 451e3},
		"faster than any":                    {10e9, 4, 589e3},
		"larger bursts than any":             {250e6, 16, 589e3},
		"two segments on fast links":         {250e6, 2, 300e3},
		"slower than any":                    {5e6, 2, 300e3},
		"four segments on links of two's":    {30e6, 4, 300e3},
		"single segments, finer than any":    {25e6, 1, 180e3},
		"rounded down a little by the scale": {124.9e6, 4, 550e3},
	} {
		t.Run(name, func(t *testing.T) {
			assert.InDelta(t, tt.want, two.PerCore(tt.rate, tt.segments), 1)
		})
	}
	assert.Zero(t, Capacity{Cores: 2}.PerCore(1e9, 4), "nothing is known")
}

func TestEveryCoreForwards(t *testing.T) {
	t.Parallel()
	p := paperPlan(t, 200) // links of 125 Mbit/s and more
	_, segments := Grain(p)
	require.Equal(t, 8, segments)
	assert.InDelta(t, 550e3, Uncalibrated(1).Of(p), 1e-6)
	assert.InDelta(t, 8*550e3, Uncalibrated(8).Of(p), 1e-6)
}

func TestTwiceTheScaleIsHalfTheFullLoad(t *testing.T) {
	t.Parallel()
	load := FullLoad(paperPlan(t, 400))
	assert.Positive(t, load)
	assert.InEpsilon(t, load/2, FullLoad(paperPlan(t, 800)), 1e-6)
}
