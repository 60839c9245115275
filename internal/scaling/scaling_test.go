package scaling

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

// two is a host of two cores like the one that docs/fidelity.md measures.
func two() host.Capacity {
	return host.Capacity{Cores: 2, Calibrated: true, Steps: []host.Step{
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

func choose(t *testing.T, s *trials.Cluster, h host.Capacity, fabrics int) Choice {
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
	assert.Contains(t, choose(t, load64(t), host.Uncalibrated(2), 1).String(), "cautious constants")
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
		host    host.Capacity
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
	slow := host.Capacity{Cores: 1, Steps: []host.Step{{Rate: 1, Segments: 1, HopsPerCore: 10}}}
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
	narrowest, _ := host.Grain(p)
	assert.GreaterOrEqual(t, narrowest, slowest, "no link is slowed down further for company")
}

func TestFabricsSideBySideAskForAllTheirTraffic(t *testing.T) {
	t.Parallel()
	l := &trialLoads{background: 600, agents: 16, windows: make([][]slot, 3)}
	d := l.sideBySide(3)
	assert.InDelta(t, 1800, d.background, 1e-9)
	assert.Equal(t, 48, d.agents)
	mean, _ := d.busy(1e3, 2)
	assert.InDelta(t, 48*coresPerAgent+1800.0/2/1e3, mean, 1e-9)
}

// TestALightLastSetDoesNotHelpTheOthers: of nine trials in eight fabrics the ninth runs alone.
func TestALightLastSetDoesNotHelpTheOthers(t *testing.T) {
	t.Parallel()
	trial := slices.Repeat([]slot{{hops: 100}}, 100)
	l := &trialLoads{windows: [][]slot{trial, trial, trial}}
	three, _ := l.sideBySide(2).busy(1e3, 1)
	l.windows = l.windows[:2]
	two, _ := l.sideBySide(2).busy(1e3, 1)
	assert.InDelta(t, two, three, 1e-9)
	assert.Greater(t, two, 0.7, "of one core")
}

func TestAChoiceSaysWhatIsExpectedToBeIdle(t *testing.T) {
	t.Parallel()
	text := Choice{Auto: true, Rate: 800, Fabrics: 3, Calibrated: true, Idle: 0.55, PeakIdle: 0.3}.String()
	assert.Equal(t, "scale.rate: auto chose 800 for 3 fabrics side by side by this host's calibration: 55% idle expected on average, 30% in the busiest hundredth of the time", text)
	text = Choice{Auto: true, Rate: 800, Fabrics: 1, Idle: 0.45, PeakIdle: -0.2}.String()
	assert.Contains(t, text, " 0% in the busiest hundredth", "no host is less than not idle")
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
		want += host.AckShare * 2 * float64(records[i].Tier) * float64(records[i].MovedBytesEmulated) / fabric.SegmentBytes
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
	for _, s := range scales {
		if last > 0 {
			assert.Greater(t, s, last)
			assert.LessOrEqual(t, s/last, 1.29)
		}
		last = s
	}
	assert.Equal(t, 32000.0, last)
	assert.Equal(t, 250*time.Millisecond, window)
}

func TestPeaksOfFabricsSideBySideNeedAReserve(t *testing.T) {
	t.Parallel()
	one := Choice{Fabrics: 1, Idle: 0.6, PeakIdle: 0.2}
	assert.True(t, one.fits())
	three := one
	three.Fabrics = 3
	assert.False(t, three.fits(), "other peaks may coincide than in the estimate")
	three.PeakIdle = 0.3
	assert.True(t, three.fits())
}
