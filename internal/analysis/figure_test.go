package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func ms(c Column) Figure { return Figure{Unit: MS, Policy: c} }

func gain(policy, baseline Column) Figure {
	return Figure{Unit: Percent, Policy: policy, Baseline: baseline}
}

func difference(keys []Key, b, a Column) Estimate {
	e, _ := ms(b).Minus(ms(a), keys)
	return e
}

// column makes up n requests of each seed around a mean.
func column(rng *rand.Rand, seeds, n int, mean, noise float64) Column {
	c := Column{}
	for s := range seeds {
		for id := range n {
			c[Key{uint64(s + 1), id}] = mean + noise*rng.NormFloat64()
		}
	}
	return c
}

func TestCommonListsWhatAllHaveInOrder(t *testing.T) {
	t.Parallel()
	a := Column{{2, 1}: 1, {1, 9}: 1, {1, 10}: 1, {3, 0}: 1}
	b := Column{{1, 10}: 1, {2, 1}: 1, {1, 9}: 1}
	assert.Equal(t, []Key{{1, 9}, {1, 10}, {2, 1}}, common(a, b))
	assert.Equal(t, common(a, b), common(b, a))
	assert.Empty(t, common(a, Column{}))
	assert.Empty(t, common())
}

func TestColumnComparedWithItselfDiffersByNothing(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	c, d := column(rng, 3, 40, 800, 300), column(rng, 3, 40, 600, 300)
	keys := common(c, d)
	e := difference(keys, c, c)
	assert.Zero(t, e.Value)
	require.NotNil(t, e.CI95)
	assert.Zero(t, *e.CI95)
	g, ok := gain(d, c).Minus(gain(d, c), keys)
	require.True(t, ok)
	assert.Zero(t, g.Value)
	assert.Zero(t, *g.CI95)
}

func TestStepsAddUp(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 2))
	for range 20 {
		var p, b []Column
		for range 5 {
			p, b = append(p, column(rng, 2, 30, 500, 200)), append(b, column(rng, 2, 30, 900, 200))
		}
		keys := common(append(p, b...)...)
		var means, gains float64
		for i := range 4 {
			means += difference(keys, p[i+1], p[i]).Value
			e, _ := gain(p[i+1], b[i+1]).Minus(gain(p[i], b[i]), keys)
			gains += e.Value
		}
		assert.InDelta(t, difference(keys, p[4], p[0]).Value, means, 1e-9)
		whole, _ := gain(p[4], b[4]).Minus(gain(p[0], b[0]), keys)
		assert.InDelta(t, whole.Value, gains, 1e-9)
	}
}

// Two requests per side, by hand: a gain from 10 + 30 to 5 + 25 is -25%, or -5 units.
func TestGainIsTheRatioOfMeans(t *testing.T) {
	t.Parallel()
	keys := []Key{{1, 0}, {1, 1}}
	of := func(first, second float64) Column { return Column{keys[0]: first, keys[1]: second} }
	g := gain(of(5, 25), of(10, 30))
	v, ok := g.Value(Requests(g))
	require.True(t, ok)
	assert.InDelta(t, -25, v, 1e-12)
	g.Unit = Points
	v, ok = g.Value(keys)
	require.True(t, ok)
	assert.InDelta(t, -500, v, 1e-12)
	_, ok = gain(of(5, 25), of(0, 0)).Value(keys)
	assert.False(t, ok, "no gain over nothing")
	_, ok = gain(of(5, 25), of(0, 0)).Estimate(keys, false)
	assert.False(t, ok)
	_, ok = ms(of(5, 25)).Value(nil)
	assert.False(t, ok, "nothing has no mean")
	_, ok = gain(of(5, 25), of(0, 0)).Minus(g, keys)
	assert.False(t, ok)
	_, ok = g.Minus(gain(of(5, 25), of(0, 0)), keys)
	assert.False(t, ok)
	assert.Equal(t, []Unit{MS, Points, Points}, []Unit{MS.OfDifference(), Percent.OfDifference(), Points.OfDifference()})
}

func TestIntervalRestsOn(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 3))
	for _, tt := range []struct {
		name         string
		seeds, n     int
		method       string
		means, alone int
	}{
		{"one long seed: its batches", 1, 20, MethodBatches, 10, 10},
		{"one short seed: nothing", 1, 19, "", 0, 0},
		{"three seeds: all their batches", 3, 40, MethodBatches, 30, 3},
		{"three short seeds: themselves", 3, 5, MethodBatches, 3, 3},
		{"ten seeds: themselves", 10, 40, MethodSeeds, 10, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, d := column(rng, tt.seeds, tt.n, 1, 1), column(rng, tt.seeds, tt.n, 1, 1)
			e := difference(common(c, d), c, d)
			assert.Equal(t, tt.method, e.Method)
			assert.Equal(t, tt.means, e.N)
			assert.Equal(t, tt.means > 0, e.CI95 != nil)
			own, ok := ms(c).Estimate(common(c), false)
			require.True(t, ok)
			assert.Equal(t, tt.alone, own.N, "compared with other requests, what is random in a seed counts")
			alone, ok := gain(c, d).Estimate(common(c, d), true)
			require.True(t, ok)
			assert.Equal(t, tt.alone, alone.N)
		})
	}
}

// The interval must contain the truth in about 95% of many made-up runs: here for a gain from
// 900 to 600, and for the difference between two such gains.
func TestIntervalsCoverTheTruth(t *testing.T) {
	t.Parallel()
	const runs = 400
	rng := rand.New(rand.NewPCG(4, 4))
	gains, gaps := 0, 0
	for range runs {
		b := column(rng, 3, 60, 900, 300)
		p, b2, p2 := column(rng, 3, 60, 0, 100), column(rng, 3, 60, 0, 30), column(rng, 3, 60, 0, 30)
		for k, v := range b { // policies see the same requests: correlated
			p[k] += v * 2 / 3
			b2[k] += v
			p2[k] += p[k]
		}
		keys := common(b, p)
		e, _ := gain(p, b).Estimate(keys, false)
		if math.Abs(e.Value+100./3) <= *e.CI95 {
			gains++
		}
		if e, _ = gain(p2, b2).Minus(gain(p, b), keys); math.Abs(e.Value) <= *e.CI95 {
			gaps++
		}
	}
	assert.InDelta(t, 0.95*runs, gains, 0.04*runs)
	assert.InDelta(t, 0.95*runs, gaps, 0.04*runs)
}

func TestIndependentAddsSquares(t *testing.T) {
	t.Parallel()
	three, four := 3.0, 4.0
	e := Independent(Estimate{Value: 10, CI95: &three, N: 3}, Estimate{Value: 7, CI95: &four, N: 20})
	assert.InDelta(t, 3, e.Value, 0)
	assert.InDelta(t, 5, *e.CI95, 1e-12)
	assert.Nil(t, Independent(Estimate{Value: 10}, e).CI95)
}

func ExampleFigure() {
	gain := Figure{
		Unit:     Percent,
		Policy:   Column{{Seed: 1, ID: 0}: 400, {Seed: 1, ID: 1}: 800},
		Baseline: Column{{Seed: 1, ID: 0}: 500, {Seed: 1, ID: 1}: 1000},
	}
	percent, _ := gain.Value(Requests(gain))
	fmt.Printf("%.0f%s\n", percent, gain.Unit)
	// Output: -20%
}
