package telemetry

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestTheOraclesErrorIsThatOfWhatWasHeld(t *testing.T) {
	t.Parallel()
	const sec = time.Second
	level := func(v float64) [4]float64 { return [4]float64{2: v} }
	for _, tt := range []struct {
		name      string
		staleness time.Duration
		truth     []float64
		said      []float64 // negative: lost
		want      float64
	}{
		{"nothing happened", 0, []float64{0, 0, 0}, []float64{0, 0, 0}, 0},
		{"constant: nothing is held before the first sample", 0, []float64{0.2, 0.2, 0.2, 0.2}, []float64{0.2, 0.2, 0.2, 0.2}, 0},
		{"a step is seen a period late", 0, []float64{0, 0, 0.4, 0.4}, []float64{0, 0, 0.4, 0.4}, 0.4 / 3},
		{"a period and a half of staleness: two late", 1500 * time.Millisecond, []float64{0, 0.4, 0.4, 0.4}, []float64{0, 0.4, 0.4, 0.4}, 0.2},
		{"a lost sample leaves the last", 0, []float64{0.2, 0.4, 0.4, 0.4}, []float64{0.2, -1, 0.4, 0.4}, (0.2 + 0.2) / 3},
		{"noise", 0, []float64{0, 0, 0}, []float64{0.1, 0.1, 0.1}, 0.1},
	} {
		var g gauge
		for i := range tt.truth {
			g.observe(time.Duration(i+1)*sec, tt.staleness, level(tt.truth[i]), level(tt.said[i]), tt.said[i] >= 0)
		}
		a := g.Accuracy()
		assert.Equal(t, len(tt.truth), a.Polls, tt.name)
		assert.InDelta(t, tt.want, a.Error[2], 1e-12, tt.name)
		assert.Zero(t, a.Error[3], tt.name)
	}
	assert.Zero(t, (&gauge{}).Accuracy().Error)
}

func TestTrialsAreWeighedByTheirPolls(t *testing.T) {
	t.Parallel()
	var a Accuracy
	a.Add(Accuracy{})
	assert.Zero(t, a)
	a.Add(Accuracy{Polls: 1, Truth: [4]float64{2: 0.1}, Error: [4]float64{2: 0.04}})
	a.Add(Accuracy{Polls: 3, Truth: [4]float64{2: 0.3}})
	assert.Equal(t, 4, a.Polls)
	assert.InDelta(t, 0.25, a.Truth[2], 1e-12)
	assert.InDelta(t, 0.01, a.Error[2], 1e-12)
}
