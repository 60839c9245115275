package engine

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// paperFit is the model inferred from the paper: 80.1 us per prompt token, 12.5 ms + 0.1 ms x batch per iteration.
var paperFit = Model{PrefillPerTokenNs: 80_100, DecodeBase: 12_500 * time.Microsecond, DecodePerSequence: 100 * time.Microsecond}

// measured is a fit to measurements of Llama-3-70B on four H100 under vLLM.
var measured = Model{
	PrefillBase: 43 * ms, PrefillPerTokenNs: 62_600, PrefillPerTokenSquaredNs: 1.30,
	DecodeBase: 17_700 * time.Microsecond, DecodePerSequence: 115 * time.Microsecond, DecodePerContextTokenNs: 25,
}

func TestModelTimes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		got, want time.Duration
	}{
		{"the paper's mean prompt of 12,035 tokens takes 964 ms", paperFit.Prefill(12_035), 964_003_500},
		{"no tokens take the base", measured.Prefill(0), 43 * ms},
		{"negative tokens count as none", measured.Prefill(-5), 43 * ms},
		{"the square counts", measured.Prefill(10_000), 43*ms + 626*ms + 130*ms},
		{"a batch of one", iteration(paperFit, 1, 8192), 12_600 * time.Microsecond},
		{"context is read each iteration", iteration(measured, 2, 20_000), 17_700_000 + 230_000 + 500_000},
		{"an endless prompt saturates", Model{PrefillPerTokenNs: 1e300}.Prefill(math.MaxInt), math.MaxInt64},
		{"an endless context saturates", iteration(Model{DecodePerContextTokenNs: 1e300}, 1, math.MaxInt), math.MaxInt64},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, tt.got)
		})
	}
}

func TestModelValidateNamesTheField(t *testing.T) {
	t.Parallel()
	tests := []struct {
		field string
		model Model
	}{
		{"PrefillBase", Model{PrefillBase: -1}},
		{"DecodeBase", Model{DecodeBase: 2 * time.Hour}},
		{"DecodePerSequence", Model{DecodePerSequence: -1}},
		{"PrefillPerTokenNs", Model{PrefillPerTokenNs: math.NaN()}},
		{"PrefillPerTokenSquaredNs", Model{PrefillPerTokenSquaredNs: math.Inf(1)}},
		{"DecodePerContextTokenNs", Model{DecodePerContextTokenNs: -0.1}},
	}
	for _, tt := range tests {
		t.Run(tt.field, func(t *testing.T) {
			t.Parallel()
			err := tt.model.Validate()
			require.ErrorIs(t, err, ErrInvalid)
			assert.ErrorContains(t, err, tt.field)
		})
	}
	require.NoError(t, measured.Validate())
}

func TestSegmentFloorInvertsAt(t *testing.T) {
	t.Parallel()
	for _, m := range []Model{paperFit, measured, {DecodeBase: 1}, {DecodeBase: 1, DecodePerContextTokenNs: 0.3}} {
		s := segment{model: m, anchor: 77, batch: 3, context: 5000}
		for k := int64(0); k < 2000; k += 7 {
			require.Equal(t, k, s.floor(s.at(k)))
			require.Equal(t, k-1, s.floor(s.at(k)-1))
		}
		assert.Equal(t, int64(-1), s.floor(76))
	}
}
