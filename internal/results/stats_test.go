package results

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPercentileInterpolates(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		sorted []float64
		p      float64
		want   float64
	}{
		{"one value is every percentile", []float64{7}, 99, 7},
		{"the median of two lies between", []float64{1, 2}, 50, 1.5},
		{"numpy.percentile([1,2,3,4], 90)", []float64{1, 2, 3, 4}, 90, 3.7},
		{"the 100th is the largest", []float64{1, 2, 3}, 100, 3},
		{"the 0th is the smallest", []float64{1, 2, 3}, 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.InDelta(t, tt.want, Percentile(tt.sorted, tt.p), 1e-12)
		})
	}
}

func TestIntervalOverSeedMeans(t *testing.T) {
	t.Parallel()
	// Means 1, 2, 3: s = 1, t(0.975, 2) = 4.30265 (any table), so 4.30265 / sqrt 3.
	s := describe([]seedValues{{0, 2}, {2}, {3, 3, 3}})
	require.NotNil(t, s.CI95)
	assert.InDelta(t, 4.302652729911275/math.Sqrt(3), *s.CI95, 1e-9)
	assert.Equal(t, methodSeeds, s.CIMethod)
	assert.Equal(t, 3, s.CIN)
	assert.Equal(t, 6, s.N)
	assert.InDelta(t, 13.0/6, s.Mean, 1e-12)
}

func TestIntervalOfOneSeedRestsOnBatches(t *testing.T) {
	t.Parallel()
	values := make(seedValues, 25)
	for i := range values {
		values[i] = float64(i)
	}
	s := describe([]seedValues{values})
	require.NotNil(t, s.CI95)
	assert.Equal(t, methodBatches, s.CIMethod)
	assert.Equal(t, batches, s.CIN)

	few := describe([]seedValues{values[:19]})
	assert.Nil(t, few.CI95, "19 values make no ten batches of two")
	assert.Empty(t, few.CIMethod)
}

func TestNoValueHasNoStatistics(t *testing.T) {
	t.Parallel()
	assert.Nil(t, describe(nil))
	assert.Nil(t, describe([]seedValues{{}, {}}))
}

func TestBatchesCoverEveryValueOnce(t *testing.T) {
	t.Parallel()
	for n := range 200 {
		at := 0
		for _, b := range splitBatches(n) {
			require.Equal(t, at, b[0])
			require.GreaterOrEqual(t, b[1]-b[0], 2)
			at = b[1]
		}
		if n >= 2*batches {
			require.Equal(t, n, at)
		}
	}
}
