package flowsim_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/flowsim"
)

// step is one call to a network.
type step struct {
	at       float64 // seconds, not before the step before
	start    *flowsim.Flow
	cancel   *uint64
	link     flowsim.LinkIndex
	capacity float64 // for link, where the step is neither start nor cancel
}

// outcome is how a flow ended: by itself, by a cancel, or not at all (at = +Inf).
type outcome struct{ at, moved float64 }

// play runs a script to the end. After each step, and after each event when
// check is set, it calls check.
func play(tb testing.TB, capacities []float64, steps []step, check func(n *flowsim.Network, i int)) map[uint64]outcome {
	tb.Helper()
	n, err := flowsim.New(capacities, flowsim.Options{})
	require.NoError(tb, err)
	ends := map[uint64]outcome{}
	advance := func(to flowsim.Instant) {
		done, err := n.Advance(to)
		require.NoError(tb, err)
		for _, c := range done {
			ends[c.ID] = outcome{at: c.At.Seconds(), moved: c.Bytes}
		}
	}
	for i, s := range steps {
		now := flowsim.Seconds(s.at)
		for check != nil {
			next, ok := n.Next()
			if !ok || !next.Before(now) {
				break
			}
			advance(next)
			check(n, -1)
		}
		switch {
		case s.start != nil:
			require.NoError(tb, n.Start(now, *s.start))
			ends[s.start.ID] = outcome{at: math.Inf(1)}
		case s.cancel != nil:
			if moved, err := n.Cancel(now, *s.cancel); err == nil {
				ends[*s.cancel] = outcome{at: s.at, moved: moved}
			} else {
				require.ErrorIs(tb, err, flowsim.ErrUnknownFlow)
			}
		default:
			require.NoError(tb, n.SetCapacity(now, s.link, s.capacity))
		}
		if check != nil {
			advance(now)
			check(n, i)
		}
	}
	for next, ok := n.Next(); ok; next, ok = n.Next() {
		advance(next)
		if check != nil {
			check(n, -1)
		}
	}
	return ends
}

// variety says what a random script may contain.
type variety struct{ weights, maxRates, delays, cancels, capacities bool }

var everything = variety{weights: true, maxRates: true, delays: true, cancels: true, capacities: true}

// randomScript makes a network of up to 12 links and a script of up to 60 steps for it.
func randomScript(seed uint64, v variety) (capacities []float64, steps []step) {
	r := rand.New(rand.NewPCG(seed, 8))
	for range 1 + r.IntN(12) {
		capacities = append(capacities, odd(r, 1+r.IntN(20))*1e8)
	}
	now := 0.0
	for id := range uint64(1 + r.IntN(60)) {
		if r.IntN(3) > 0 {
			now += r.ExpFloat64() * 0.2
		}
		link := flowsim.LinkIndex(r.IntN(len(capacities)))
		switch {
		case v.cancels && id > 2 && r.IntN(6) == 0:
			victim := r.Uint64N(id)
			steps = append(steps, step{at: now, cancel: &victim})
		case v.capacities && r.IntN(6) == 0:
			steps = append(steps, step{at: now, link: link, capacity: odd(r, r.IntN(20)) * 1e8})
		default:
			steps = append(steps, step{at: now, start: randomFlow(r, id, len(capacities), v)})
		}
	}
	return capacities, steps
}

// odd is n, which causes ties, or a number slightly above, which equals no other draw and makes sums inexact.
func odd(r *rand.Rand, n int) float64 {
	if n > 0 && r.IntN(2) == 0 {
		return float64(n) + r.Float64()
	}
	return float64(n)
}

func randomFlow(r *rand.Rand, id uint64, links int, v variety) *flowsim.Flow {
	f := &flowsim.Flow{ID: id, Bytes: r.ExpFloat64() * 5e8}
	for _, l := range r.Perm(links)[:1+r.IntN(min(links, 4))] {
		f.Path = append(f.Path, flowsim.LinkIndex(l))
		if v.weights {
			f.Weights = append(f.Weights, 1/odd(r, 1+r.IntN(4)))
		}
	}
	if v.maxRates && r.IntN(4) == 0 {
		f.MaxRate = odd(r, 1+r.IntN(10)) * 5e7
	}
	if v.delays && r.IntN(4) == 0 {
		f.Delay = time.Duration(r.IntN(1e9))
	}
	return f
}
