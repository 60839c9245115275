package flowsim_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/netkvlab/netkvlab/flowsim"
)

func TestDurationsSurviveTheRoundTrip(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{0, 1, 999_999_999, time.Second, time.Hour + 1, 1<<62 + 12345, -1, -time.Second - 1} {
		assert.Equal(t, d, flowsim.At(d).Duration())
	}
	assert.Equal(t, time.Duration(math.MaxInt64), flowsim.Seconds(1e12).Duration())
	assert.Equal(t, time.Duration(math.MinInt64), flowsim.Seconds(-1e12).Duration())
}

func TestInstantsKeepWhatAFloatLoses(t *testing.T) {
	t.Parallel()
	week := flowsim.At(7 * 24 * time.Hour)
	later := week
	for range 1000 {
		later = later.Add(1e-12)
	}
	assert.InEpsilon(t, 1e-9, later.Sub(week), 1e-12)
	assert.Equal(t, week.Duration()+1, later.Duration())
	assert.True(t, week.Before(later))
	assert.False(t, later.Before(later))
	assert.Equal(t, -1, week.Compare(week.Add(1e-20)))
	assert.Equal(t, 0, week.Compare(week))
	assert.Equal(t, 1, later.Compare(week))
	assert.Equal(t, 604800.0, week.Seconds())
}
