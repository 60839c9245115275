package analysis

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/results"
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
	s := ofTransfers([]float64{0, 2}, []float64{2}, []float64{3, 3, 3})
	require.NotNil(t, s.CI95)
	assert.InDelta(t, 4.302652729911275/math.Sqrt(3), *s.CI95, 1e-9)
	assert.Equal(t, MethodSeeds, s.CIMethod)
	assert.Equal(t, 3, s.CIN)
	assert.Equal(t, 6, s.N)
	assert.InDelta(t, 13.0/6, s.Mean, 1e-12)
}

func TestIntervalOfOneSeedRestsOnBatches(t *testing.T) {
	t.Parallel()
	v := make([]float64, 25)
	for i := range v {
		v[i] = float64(i)
	}
	s := ofTransfers(v)
	require.NotNil(t, s.CI95)
	assert.Equal(t, MethodBatches, s.CIMethod)
	assert.Equal(t, Batches, s.CIN)

	few := ofTransfers(v[:19])
	assert.Nil(t, few.CI95, "19 values make no ten batches of two")
	assert.Empty(t, few.CIMethod)
}

func TestNoValueHasNoStatistics(t *testing.T) {
	t.Parallel()
	assert.Nil(t, ofTransfers())
}

// values makes a column of the values of seeds 1, 2 and so on.
// ofTransfers describes transfers that took the given times, by seed.
func ofTransfers(seeds ...[]float64) *results.Stats {
	var records []*results.Record
	for i, v := range seeds {
		for id := range v {
			records = append(records, &results.Record{Seed: uint64(i + 1), ID: id, Status: results.Completed, TransferMS: v[id]})
		}
	}
	return describe(records, func(r *results.Record) *float64 { return &r.TransferMS })
}

func TestBatchesCoverEveryValueOnce(t *testing.T) {
	t.Parallel()
	for n := range 200 {
		keys := []Key{{1, 0}, {1, 1}, {1, 2}}
		for id := range n {
			keys = append(keys, Key{2, id})
		}
		runs, method := cut(keys, 10)
		require.Equal(t, MethodBatches, method)
		at := 0
		for _, r := range runs {
			require.Equal(t, at, r.from)
			require.Greater(t, r.to, r.from)
			at = r.to
		}
		require.Equal(t, n+3, at)
		require.Equal(t, n >= 2*Batches, len(runs) == Batches+1, "%d values", n)
	}
}

func TestMeanAndItsInterval(t *testing.T) {
	t.Parallel()
	mean, ci := Mean([]float64{1, 2, 3, math.NaN()})
	assert.InDelta(t, 2, mean, 1e-12)
	assert.InDelta(t, 4.303/math.Sqrt(3), ci, 1e-3, "t(0.975, 2) x s / sqrt(3)")
	mean, ci = Mean([]float64{5})
	assert.InDelta(t, 5, mean, 0)
	assert.True(t, math.IsNaN(ci))
	mean, ci = Mean(nil)
	assert.True(t, math.IsNaN(mean))
	assert.True(t, math.IsNaN(ci))
	assert.InDelta(t, -20, Change(80, 100), 1e-12)
}
