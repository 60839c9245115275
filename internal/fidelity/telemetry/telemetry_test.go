package telemetry

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/scenarios"
)

// ports: an NVLink, two rack uplinks and a core link of 8 Mbit/s = 1 MB/s each.
func ports() []PortRef {
	mb := scenarios.BitsPerSecond(8_000_000)
	return []PortRef{
		{Name: "nv", Tier: 0, Rate: mb}, {Name: "a", Tier: 2, Rate: mb, Shared: true},
		{Name: "b", Tier: 2, Rate: mb, Shared: true}, {Name: "c", Tier: 3, Rate: mb, Shared: true},
	}
}

func counters(total, others uint64) []Counters {
	c := make([]Counters, 4)
	for i := range c {
		c[i] = Counters{Bytes: total, OthersBytes: others, Drops: total / 1000, Marks: total / 500, Backlog: 7}
	}
	return c
}

func TestTheFirstPollOnlySetsTheBase(t *testing.T) {
	m := New(Options{Ports: ports(), Separate: true})
	_, rows, ok := m.Poll(0, 0, counters(5_000_000, 0))
	assert.False(t, ok)
	assert.Empty(t, rows)
}

func TestOwnTrafficIsNotCongestion(t *testing.T) {
	m := New(Options{Ports: ports(), Separate: true})
	m.Poll(0, 0, counters(0, 0))
	c, rows, ok := m.Poll(time.Second, time.Second, counters(700_000, 200_000))
	require.True(t, ok)
	assert.InDelta(t, 0.2, c[2], 1e-12)
	assert.InDelta(t, 0.2, c[3], 1e-12)
	assert.Zero(t, c[0], "an NVLink is nobody else's")
	require.Len(t, rows, 4)
	assert.InDelta(t, 0.7, rows[1].Utilization, 1e-12, "utilisation counts everything")
}

func TestAPortReadLateIsJudgedByItsOwnTime(t *testing.T) {
	m := New(Options{Ports: ports(), Separate: true})
	start := time.Now()
	first, second := counters(0, 0), counters(700_000, 0)
	for i := range first {
		first[i].At, second[i].At = start, start.Add(time.Second)
	}
	second[1].At = start.Add(1400 * time.Millisecond)
	m.Poll(0, 0, first)
	_, rows, ok := m.Poll(time.Second, time.Second, second)
	require.True(t, ok)
	assert.InDelta(t, 0.7, rows[0].Utilization, 1e-12)
	assert.InDelta(t, 0.5, rows[1].Utilization, 1e-12)
	assert.Equal(t, 1400*time.Millisecond, rows[1].Since)
	assert.Equal(t, rows[0].At, rows[1].At, "a poll is one row of the series' time")
}

func TestWithoutSeparationEverythingIsCongestion(t *testing.T) {
	m := New(Options{Ports: ports()})
	m.Poll(0, 0, counters(0, 0))
	c, _, _ := m.Poll(time.Second, time.Second, counters(700_000, 700_000))
	assert.InDelta(t, 0.7, c[3], 1e-12)
}

func TestSeriesCountFromTheTrialsStart(t *testing.T) {
	m := New(Options{Ports: ports(), Separate: true})
	m.Poll(0, 0, counters(1_000_000, 0))
	m.Poll(time.Second, time.Second, counters(1_500_000, 0))
	_, rows, _ := m.Poll(2*time.Second, 2*time.Second, counters(1_600_000, 0))
	assert.Equal(t, uint64(600_000), rows[0].Bytes)
	assert.Equal(t, uint64(600), rows[0].Drops)
	assert.Equal(t, uint64(1200), rows[0].Marks)
	assert.InDelta(t, 0.1, rows[0].Utilization, 1e-12, "of the last interval")
}

func TestCongestionStaysBelowOne(t *testing.T) {
	m := New(Options{Ports: ports(), Separate: true})
	m.Poll(0, 0, counters(0, 0))
	c, _, _ := m.Poll(time.Second, time.Second, counters(3_000_000, 3_000_000))
	assert.Equal(t, maxCongestion, c[3])
}

func TestNoiseAndLossAreTheSeedsOwn(t *testing.T) {
	run := func(seed uint64) (values []float64, lost int) {
		m := New(Options{Ports: ports(), Separate: true, Noise: 0.1, Loss: 0.3, Seed: seed})
		m.Poll(0, 0, counters(0, 0))
		for i := 1; i <= 200; i++ {
			at := time.Duration(i) * time.Second
			c, _, ok := m.Poll(at, at, counters(uint64(i)*500_000, uint64(i)*500_000))
			values = append(values, c[3])
			if !ok {
				lost++
			}
		}
		return values, lost
	}
	a, lostA := run(1)
	b, lostB := run(1)
	other, _ := run(2)
	assert.Equal(t, a, b)
	assert.Equal(t, lostA, lostB)
	assert.NotEqual(t, a, other)
	assert.InDelta(t, 60, lostA, 25, "three in ten of 200")
	mean := 0.0
	for _, v := range a {
		mean += v / float64(len(a))
	}
	assert.InDelta(t, 0.5, mean, 0.03)
}

func TestLinksThatNoTransferCanCrossDoNotCount(t *testing.T) {
	t.Parallel()
	s, err := scenarios.Load("paper-64gpu", "background.utilization={tier2: 0.2, tier3: 0.2}")
	require.NoError(t, err)
	p, err := fabric.New(s, scenarios.Scale{Rate: 400, Time: 1})
	require.NoError(t, err)
	background := 0
	for _, port := range Ports(p) {
		l := &p.Links[port.Hop.Link]
		host := p.Nodes[l.A.Node].Kind == fabric.KindBackground || p.Nodes[l.B.Node].Kind == fabric.KindBackground
		if host {
			background++
		}
		assert.Equal(t, l.Tier > 0 && !host, port.Shared, port.Name)
	}
	assert.Positive(t, background)
}
