package scaling

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

// two is a host of two cores like the one that docs/fidelity.md measures.
func two() Host {
	return Host{Cores: 2, Calibrated: true, Steps: []Step{
		{Rate: 25e6, Segments: 2, HopsPerCore: 300e3}, {Rate: 62.5e6, Segments: 4, HopsPerCore: 451e3},
		{Rate: 125e6, Segments: 4, HopsPerCore: 550e3}, {Rate: 250e6, Segments: 4, HopsPerCore: 589e3},
	}}
}

func load64(t *testing.T, settings ...string) *trials.Cluster {
	t.Helper()
	s, err := scenarios.Load("paper-64gpu", append([]string{"scale.rate=auto"}, settings...)...)
	require.NoError(t, err)
	c, err := trials.New(s)
	require.NoError(t, err)
	return c
}

func choose(t *testing.T, s *trials.Cluster, h Host, fabrics int) Choice {
	t.Helper()
	c, err := Choose(t.Context(), s, h, fabrics)
	require.NoError(t, err)
	return c
}

func TestTheChosenScaleLeavesTheHostIdleTime(t *testing.T) {
	t.Parallel()
	c := choose(t, load64(t), two(), 1)
	assert.True(t, c.Auto)
	assert.GreaterOrEqual(t, c.Idle, 0.5)
	assert.GreaterOrEqual(t, c.PeakIdle, 0.1)
	assert.LessOrEqual(t, c.Rate, 200.0, "what two such cores carry of the paper's cluster")
	assert.Contains(t, c.String(), "this host's calibration")
	assert.Contains(t, choose(t, load64(t), Uncalibrated(2), 1).String(), "doctor --calibrate")
}

func TestAGivenScaleIsKeptAndTheTimeScaleAlways(t *testing.T) {
	t.Parallel()
	s := load64(t, "scale.rate=777", "scale.time=0.5")
	c := choose(t, s, two(), 1)
	assert.Equal(t, Choice{Rate: 777, Fabrics: 1}, c)
	assert.Equal(t, scenarios.Scale{Rate: 777, Time: 0.5}, s.Scenario.Scale)
	s = load64(t)
	choose(t, s, two(), 1)
	assert.Equal(t, scenarios.Scale{Rate: 0, Time: 1}, s.Scenario.Scale, "the scenario is not touched")
}

func TestWhatWantsMoreOfTheHostIsScaledMore(t *testing.T) {
	t.Parallel()
	base := choose(t, load64(t), two(), 1).Rate
	big := two()
	big.Cores = 16
	weak := two()
	for i := range weak.Steps {
		weak.Steps[i].HopsPerCore /= 2
	}
	for name, tt := range map[string]struct {
		s       *trials.Cluster
		host    Host
		fabrics int
		more    bool
	}{
		"more load":                {load64(t, "workload.synthetic.rate=8/s"), two(), 1, true},
		"less load":                {load64(t, "workload.synthetic.rate=1/s"), two(), 1, false},
		"a quicker clock":          {load64(t, "scale.time=0.25"), two(), 1, true},
		"other tenants":            {load64(t, "background.utilization.tier2=0.3", "background.utilization.tier3=0.3"), two(), 1, true},
		"fabrics side by side":     {load64(t), two(), 9, true},
		"a host of more cores":     {load64(t), big, 1, false},
		"a host of half the power": {load64(t), weak, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := choose(t, tt.s, tt.host, tt.fabrics).Rate
			if tt.more {
				assert.Greater(t, got, base)
			} else {
				assert.Less(t, got, base)
			}
		})
	}
}

func TestTheSameScenarioAndHostGiveTheSameChoice(t *testing.T) {
	t.Parallel()
	assert.Equal(t, choose(t, load64(t), two(), 3), choose(t, load64(t), two(), 3))
}

func TestLoadBeyondAnyScaleIsRefused(t *testing.T) {
	t.Parallel()
	slow := Host{Cores: 1, Steps: []Step{{Rate: 1, Segments: 1, HopsPerCore: 10}}}
	_, err := Choose(t.Context(), load64(t), slow, 1)
	require.ErrorContains(t, err, "at no scale up to 32000")
}

func TestFabricsSideBySideStayWithinWhatTheHostCarries(t *testing.T) {
	t.Parallel()
	parallel := func(s *trials.Cluster, most int) int {
		n, err := Parallel(t.Context(), s, two(), most)
		require.NoError(t, err)
		return n
	}
	n := parallel(load64(t), 100)
	assert.Greater(t, n, 1)
	assert.LessOrEqual(t, n, 9, "no more than there are trials")
	assert.Equal(t, 2, parallel(load64(t), 2), "no more than allowed")
	assert.Equal(t, 1, parallel(load64(t, "scale.rate=200"), 100), "at the given scale")
	assert.Equal(t, 9, parallel(load64(t, "scale.rate=8000"), 100))
	c := choose(t, load64(t), two(), n)
	p, err := at(load64(t), c.Rate)
	require.NoError(t, err)
	narrowest, _ := Grain(p)
	assert.GreaterOrEqual(t, narrowest, slowest, "no link is slowed down further for company")
}

func TestTheCoarsestStepThatIsNotTooCoarseCounts(t *testing.T) {
	t.Parallel()
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
			assert.InDelta(t, tt.want, two().perCore(tt.rate, tt.segments), 1)
		})
	}
}

func TestSpreadingKeepsTheAmount(t *testing.T) {
	t.Parallel()
	w := make([]slot, 5)
	hops := func() (out []float64) {
		for _, s := range w {
			out = append(out, s.hops)
		}
		return out
	}
	spread(w, 0.5, 3, 100)
	assert.InDeltaSlice(t, []float64{20, 40, 40, 0, 0}, hops(), 1e-9)
	spread(w, 4, 4, 100) // no time, no load
	spread(w, 4.75, 9, 8)
	assert.InDelta(t, 8, w[4].hops, 1e-9, "what is cut off at the end goes to the last window")
}

func TestTheLoadHoldsAllBytesOfTheTransfers(t *testing.T) {
	t.Parallel()
	s := load64(t, "workload.synthetic.requests=20", "policies=[rr]", "seeds=[1]")
	p, err := at(s, 1)
	require.NoError(t, err)
	records, err := trials.Play(t.Context(), trials.Flow{Cluster: s}, s, s.Trials(results.WorldFlow, []uint64{1})[0])
	require.NoError(t, err)
	want := 0.0
	for i := range records {
		want += ackShare * 2 * float64(records[i].Tier) * float64(records[i].MovedBytesEmulated) / segmentBytes
	}
	got, decoding := 0.0, 0.0
	for _, w := range windowsOf(p, records) {
		got += w.hops
		decoding = max(decoding, w.decoding)
	}
	assert.Positive(t, decoding)
	assert.LessOrEqual(t, decoding, 8.0, "no more than there are decode instances")
	assert.InEpsilon(t, want, got, 1e-6)
}

func TestScalesGrowBySmallSteps(t *testing.T) {
	t.Parallel()
	last := 0.0
	for s := range scales() {
		if last > 0 {
			assert.Greater(t, s, last)
			assert.LessOrEqual(t, s/last, 1.29)
		}
		last = s
	}
	assert.Equal(t, 32000.0, last)
	assert.Equal(t, 250*time.Millisecond, window)
}
