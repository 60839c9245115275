package flowsim_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/flowsim"
)

const scripts = 300

// tiny is the relative difference that rounding may make in these tests.
const tiny = 1e-9

// assertFair checks the definition of max-min fairness, which has one solution.
func assertFair(tb testing.TB, n *flowsim.Network, flows []*flowsim.Flow) {
	tb.Helper()
	rates := make([]float64, len(flows))
	moving := make([]bool, len(flows))
	for i, f := range flows {
		rate, ok := n.Rate(f.ID)
		moved, _ := n.Moved(f.ID, n.Clock())
		// A flow that waits for its delay is not on its links yet.
		rates[i], moving[i] = rate, ok && (rate > 0 || moved > 0 || f.Delay == 0)
	}
	fastest := make([]float64, n.Links())
	for l := range fastest {
		load := n.LinkLoad(flowsim.LinkIndex(l))
		require.LessOrEqual(tb, load, n.Capacity(flowsim.LinkIndex(l))*(1+tiny), "link %d is over its capacity", l)
		for i, f := range flows {
			if moving[i] && slices.Contains(f.Path, flowsim.LinkIndex(l)) {
				fastest[l] = max(fastest[l], rates[i])
			}
		}
	}
	for i, f := range flows {
		if !moving[i] || f.MaxRate > 0 && rates[i] >= f.MaxRate*(1-tiny) || f.Bytes == 0 {
			continue
		}
		require.True(tb, slices.ContainsFunc(f.Path, func(l flowsim.LinkIndex) bool {
			return n.LinkLoad(l) >= n.Capacity(l)*(1-tiny) && rates[i] >= fastest[l]*(1-tiny)
		}), "flow %d at %v has no bottleneck", f.ID, rates[i])
	}
}

func started(steps []step) []*flowsim.Flow {
	var flows []*flowsim.Flow
	for _, s := range steps {
		if s.start != nil {
			flows = append(flows, s.start)
		}
	}
	return flows
}

func TestNoLinkIsOverCapacityAndEveryFlowHasABottleneck(t *testing.T) {
	t.Parallel()
	for seed := range uint64(scripts) {
		capacities, steps := randomScript(seed, everything)
		flows := started(steps)
		play(t, capacities, steps, func(n *flowsim.Network, _ int) { assertFair(t, n, flows) })
	}
}

func TestEventsAgreeWithFillingEverythingAnew(t *testing.T) {
	t.Parallel()
	for seed := range uint64(scripts) {
		capacities, steps := randomScript(1000+seed, everything)
		t.Run(fmt.Sprintf("script %d", seed), func(t *testing.T) { assertSameAsSlow(t, capacities, steps) })
	}
}

// assertSameAsSlow compares all rates after each step and all ends with the slow network's.
func assertSameAsSlow(tb testing.TB, capacities []float64, steps []step) {
	tb.Helper()
	flows := started(steps)
	at := make([]map[uint64]float64, len(steps))
	want := slowPlay(capacities, steps, func(n *slowNetwork, i int) {
		at[i] = map[uint64]float64{}
		for _, f := range n.flows {
			if f.moving(n.now) && f.left > f.Bytes*tiny {
				at[i][f.ID] = f.rate
			}
		}
	})
	got := play(tb, capacities, steps, func(n *flowsim.Network, i int) {
		if i < 0 || ending(want, flows, steps[i].at) {
			return // between steps; at a step rounding would decide which flows are still there
		}
		for _, f := range flows {
			if w, ok := at[i][f.ID]; ok {
				rate, _ := n.Rate(f.ID)
				require.InDelta(tb, w, rate, tiny*w+1e-6, "rate of flow %d after step %d", f.ID, i)
			}
		}
	})
	require.Len(tb, got, len(want))
	for _, f := range flows {
		w, g := want[f.ID], got[f.ID]
		if w.at == g.at {
			require.InDelta(tb, w.moved, g.moved, tiny*f.Bytes+1e-6, "bytes of flow %d", f.ID)
			continue
		}
		require.InDelta(tb, w.at, g.at, tiny*(1+w.at), "end of flow %d", f.ID)
		require.InDelta(tb, w.moved, g.moved, tiny*f.Bytes+1e-6, "bytes of flow %d", f.ID)
	}
}

// ending reports whether a flow completes at about this time.
func ending(ends map[uint64]outcome, flows []*flowsim.Flow, then float64) bool {
	return slices.ContainsFunc(flows, func(f *flowsim.Flow) bool {
		e := ends[f.ID]
		return f.Bytes > 0 && e.moved == f.Bytes && math.Abs(e.at-then) <= tiny*(1+then)
	})
}

func TestBytesAreConserved(t *testing.T) {
	t.Parallel()
	for seed := range uint64(scripts) {
		capacities, steps := randomScript(2000+seed, everything)
		flows := started(steps)
		// What a flow has moved is the integral of its rate, for all events in between.
		integral := map[uint64]float64{}
		rate := map[uint64]float64{}
		last := 0.0
		ends := play(t, capacities, steps, func(n *flowsim.Network, _ int) {
			now := n.Clock().Seconds()
			for _, f := range flows {
				integral[f.ID] += rate[f.ID] * (now - last)
				r, ok := n.Rate(f.ID)
				rate[f.ID] = r
				if moved, _ := n.Moved(f.ID, n.Clock()); ok {
					require.InDelta(t, integral[f.ID], moved, 1e-7*f.Bytes+1, "flow %d", f.ID)
				}
			}
			last = now
		})
		for _, f := range flows {
			if end := ends[f.ID]; end.at <= last {
				require.InDelta(t, end.moved, integral[f.ID], 1e-7*f.Bytes+1, "flow %d", f.ID)
			}
		}
	}
}

func TestTwiceTheCapacityIsHalfTheTimeToTheBit(t *testing.T) {
	t.Parallel()
	for seed := range uint64(scripts) {
		capacities, steps := randomScript(3000+seed, variety{weights: true, maxRates: true, cancels: true, capacities: true})
		fast := make([]float64, len(capacities))
		for i, c := range capacities {
			fast[i] = 2 * c
		}
		quick := slices.Clone(steps)
		for i, s := range quick {
			quick[i].at, quick[i].capacity = s.at/2, 2*s.capacity
			if s.start != nil {
				f := *s.start
				f.MaxRate *= 2
				quick[i].start = &f
			}
		}
		want, got := play(t, capacities, steps, nil), play(t, fast, quick, nil)
		for id, w := range want {
			require.Equal(t, outcome{at: w.at / 2, moved: w.moved}, got[id], "script %d, flow %d", seed, id)
		}
	}
}

func TestOrderOfSimultaneousCallsIsIrrelevant(t *testing.T) {
	t.Parallel()
	for seed := range uint64(scripts) {
		capacities, steps := randomScript(4000+seed, variety{weights: true, maxRates: true, delays: true})
		r := rand.New(rand.NewPCG(seed, 1))
		for i := range steps {
			steps[i].at = float64(i/8) * 0.1 // eight at once
		}
		want := play(t, capacities, steps, nil)
		mixed := slices.Clone(steps)
		for i := 0; i < len(mixed); i += 8 {
			group := mixed[i:min(i+8, len(mixed))]
			r.Shuffle(len(group), func(a, b int) { group[a], group[b] = group[b], group[a] })
		}
		require.Equal(t, want, play(t, capacities, mixed, nil), "script %d", seed)
	}
}

func TestMoreCapacityNeverLowersTheSumOfRatesOfASingleBottleneck(t *testing.T) {
	t.Parallel()
	for seed := range uint64(scripts) {
		r := rand.New(rand.NewPCG(seed, 2))
		// Link 0 is the bottleneck of all flows; each flow also has its own link.
		flows := 1 + r.IntN(10)
		capacities := []float64{1e9}
		for range flows {
			capacities = append(capacities, float64(1+r.IntN(30))*1e8)
		}
		n, err := flowsim.New(capacities, flowsim.Options{})
		require.NoError(t, err)
		for id := range flows {
			require.NoError(t, n.Start(flowsim.Instant{}, flowsim.Flow{ID: uint64(id), Path: []flowsim.LinkIndex{0, flowsim.LinkIndex(1 + id)}, Bytes: 1e12}))
		}
		before := n.LinkLoad(0)
		for range 10 {
			l := flowsim.LinkIndex(r.IntN(len(capacities)))
			require.NoError(t, n.SetCapacity(flowsim.Instant{}, l, n.Capacity(l)*(1+r.Float64())))
			require.GreaterOrEqual(t, n.LinkLoad(0), before*(1-tiny))
			before = n.LinkLoad(0)
		}
	}
}

func TestOneFlowOfHalvesIsTheMeanOfTwoPaths(t *testing.T) {
	t.Parallel()
	// A flow split over two links of 1 moves at 2; beside a whole flow on one of
	// them the fair rates are r/2 + r = 1.
	n, err := flowsim.New([]float64{1e9, 1e9}, flowsim.Options{})
	require.NoError(t, err)
	split := flowsim.Flow{ID: 1, Path: []flowsim.LinkIndex{0, 1}, Weights: []float64{0.5, 0.5}, Bytes: 1e9}
	require.NoError(t, n.Start(flowsim.Instant{}, split))
	rate, _ := n.Rate(1)
	assert.Equal(t, 2e9, rate)
	require.NoError(t, n.Start(flowsim.Instant{}, flowsim.Flow{ID: 2, Path: []flowsim.LinkIndex{0}, Bytes: 1e9}))
	for id := range uint64(2) {
		rate, _ = n.Rate(1 + id)
		assert.InEpsilon(t, 2e9/3, rate, 1e-15)
	}
}

func TestAFlowInItsDelayTakesNothing(t *testing.T) {
	t.Parallel()
	n, err := flowsim.New([]float64{1e9}, flowsim.Options{})
	require.NoError(t, err)
	path := []flowsim.LinkIndex{0}
	require.NoError(t, n.Start(flowsim.Instant{}, flowsim.Flow{ID: 1, Path: path, Bytes: 1e9}))
	require.NoError(t, n.Start(flowsim.Instant{}, flowsim.Flow{ID: 2, Path: path, Bytes: 1e9, Delay: 500 * time.Millisecond}))
	rate, ok := n.Rate(2)
	assert.True(t, ok)
	assert.Zero(t, rate)
	assert.Equal(t, 1e9, n.LinkLoad(0))
	done, err := n.Advance(flowsim.Seconds(10))
	require.NoError(t, err)
	require.Len(t, done, 2)
	assert.Equal(t, 1500*time.Millisecond, done[0].At.Duration())
	assert.Equal(t, 2*time.Second, done[1].At.Duration())
}
