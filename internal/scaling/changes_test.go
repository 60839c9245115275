package scaling

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

func TestWhatScalingChangesOnThePapersCluster(t *testing.T) {
	t.Parallel()
	s := load64(t)
	s, err := s.Rescale(200)
	require.NoError(t, err)
	got, err := Changes(s, 2.684e9)
	require.NoError(t, err)
	// 25 Gbit/s x 30 us = 62 frames; at 125 Mbit/s the host's 25 us are a quarter of a frame.
	// Queues: 5 ms at the rate, at least 64 KiB.
	assert.Equal(t, []results.ScalingFigure{
		{What: "mean transfer", Unit: "packets", Unscaled: 1850000, Scaled: 9270},
		{What: "in flight on a tier 3 path", Unit: "packets", Unscaled: 61.9, Scaled: 0.258},
		{What: "its narrowest switch queue", Unit: "packets", Unscaled: 10300, Scaled: 51.6},
		{What: "that queue's delay when full", Unit: "ms", Unscaled: 5, Scaled: 5},
		{What: "latency of an idle path", Unit: "ms", Unscaled: 0.0167, Scaled: 2.73},
	}, got)
	text := Sentence(s.Scenario.Scale, got)
	assert.Contains(t, text, "S = 200 against the unscaled cluster")
	assert.Contains(t, text, "mean transfer 9270 packets instead of 1850000")
	assert.NotContains(t, text, "T =")
}

func TestUnscaledOnlyTheHostsOwnLatencyDiffers(t *testing.T) {
	t.Parallel()
	s := load64(t, "topology.buffers.segmentsPerBurst=1")
	got, err := Changes(s, 1e9)
	require.NoError(t, err)
	for _, c := range got {
		if c.What != "in flight on a tier 3 path" && c.What != "latency of an idle path" {
			assert.InEpsilon(t, c.Unscaled, c.Scaled, 1e-9, c.What)
		}
	}
}

func TestAClusterInOneServerHasNothingToCompare(t *testing.T) {
	t.Parallel()
	s, err := scenarios.Load("quickstart", "topology.pods=1", "topology.racksPerPod=1", "placement={prefill: [0], decode: [1]}")
	require.NoError(t, err)
	s.Scale.Rate = 400
	c, err := trials.New(s)
	require.NoError(t, err)
	got, err := Changes(c, 1e9)
	require.NoError(t, err)
	assert.Empty(t, got)
	assert.Empty(t, Sentence(s.Scale, got))
}

func TestSignificantKeepsThreeDigits(t *testing.T) {
	t.Parallel()
	for in, want := range map[float64]float64{1853867: 1850000, 61.92: 61.9, 0.25803: 0.258, 5: 5, 0: 0, 0.016666: 0.0167} {
		assert.InDelta(t, want, significant(in), 1e-12)
	}
}
