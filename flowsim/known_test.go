package flowsim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/flowsim"
)

const gbit = 1e9 / 8

// ends runs to the end and returns when each flow ended.
func ends(tb testing.TB, n *flowsim.Network) map[uint64]time.Duration {
	tb.Helper()
	at := map[uint64]time.Duration{}
	for next, ok := n.Next(); ok; next, ok = n.Next() {
		done, err := n.Advance(next)
		require.NoError(tb, err)
		for _, c := range done {
			at[c.ID] = c.At.Duration()
		}
	}
	return at
}

func mustNetwork(tb testing.TB, capacities ...float64) *flowsim.Network {
	tb.Helper()
	n, err := flowsim.New(capacities, flowsim.Options{})
	require.NoError(tb, err)
	return n
}

func mustStart(tb testing.TB, n *flowsim.Network, at time.Duration, id uint64, bytes float64, path ...flowsim.LinkIndex) {
	tb.Helper()
	require.NoError(tb, n.Start(flowsim.At(at), flowsim.Flow{ID: id, Path: path, Bytes: bytes}))
}

func TestHopsDoNotStoreAndForward(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		capacities []float64
	}{
		{"one hop", []float64{gbit}},
		{"three hops", []float64{gbit, gbit, gbit}},
		{"five hops", []float64{gbit, gbit, gbit, gbit, gbit}},
		{"the slow hop first", []float64{gbit, 4 * gbit, 4 * gbit}},
		{"the slow hop in the middle", []float64{4 * gbit, gbit, 4 * gbit}},
		{"the slow hop last", []float64{4 * gbit, 4 * gbit, gbit}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := mustNetwork(t, c.capacities...)
			path := make([]flowsim.LinkIndex, len(c.capacities))
			for i := range path {
				path[i] = flowsim.LinkIndex(i)
			}
			mustStart(t, n, 0, 1, 125e6, path...)
			assert.Equal(t, map[uint64]time.Duration{1: time.Second}, ends(t, n))
		})
	}
}

func TestEqualFlowsTakeNTimesAsLong(t *testing.T) {
	t.Parallel()
	for _, flows := range []int{1, 2, 4, 8} {
		t.Run(fmt.Sprint(flows), func(t *testing.T) {
			t.Parallel()
			n := mustNetwork(t, gbit)
			for id := range flows {
				mustStart(t, n, 0, uint64(id), 125e6, 0)
			}
			for id, at := range ends(t, n) {
				assert.Equal(t, time.Duration(flows)*time.Second, at, "flow %d", id)
			}
		})
	}
}

func TestSharesChangeAsFlowsComeAndGo(t *testing.T) {
	t.Parallel()
	n := mustNetwork(t, gbit)
	mustStart(t, n, 0, 1, 100e6, 0)
	mustStart(t, n, 400*time.Millisecond, 2, 100e6, 0)
	assert.Equal(t, map[uint64]time.Duration{1: 1200 * time.Millisecond, 2: 1600 * time.Millisecond}, ends(t, n))
}

func TestALongFlowYieldsWhereItIsHeldBack(t *testing.T) {
	t.Parallel()
	n := mustNetwork(t, gbit, 2*gbit)
	mustStart(t, n, 0, 1, 1e9, 0, 1)
	mustStart(t, n, 0, 2, 1e9, 0)
	mustStart(t, n, 0, 3, 1e9, 1)
	for id, want := range map[uint64]float64{1: 0.5, 2: 0.5, 3: 1.5} {
		rate, ok := n.Rate(id)
		require.True(t, ok)
		assert.Equal(t, want*gbit, rate, "flow %d", id)
	}
}

func TestFourStreamsGetFourSharesOneStreamGetsOne(t *testing.T) {
	t.Parallel()
	// The same 100 MB as one flow and as four, beside a flow that does not end.
	for streams, want := range map[int]time.Duration{1: 1600 * time.Millisecond, 4: time.Second} {
		n := mustNetwork(t, gbit)
		mustStart(t, n, 0, 99, 1e12, 0)
		for id := range streams {
			mustStart(t, n, 0, uint64(id), 100e6/float64(streams), 0)
		}
		done, err := n.Advance(flowsim.Seconds(10))
		require.NoError(t, err)
		require.Len(t, done, streams)
		assert.Equal(t, want, done[streams-1].At.Duration(), "%d streams", streams)
	}
}

func TestNothingToMove(t *testing.T) {
	t.Parallel()
	n := mustNetwork(t, gbit, 0)
	mustStart(t, n, time.Second, 7, 0, 0)
	mustStart(t, n, time.Second, 3, 0, 1) // a link without capacity does not stop a flow of 0 bytes
	mustStart(t, n, time.Second, 5, 1e9)  // no link and no bound
	require.NoError(t, n.Start(flowsim.At(time.Second), flowsim.Flow{ID: 6, Bytes: 1e9, MaxRate: 1e9}))
	mustStart(t, n, time.Second, 4, 1, 1) // never ends
	next, ok := n.Next()
	require.True(t, ok)
	assert.Equal(t, time.Second, next.Duration())
	done, err := n.Advance(next)
	require.NoError(t, err)
	require.Len(t, done, 3)
	for i, id := range []uint64{3, 5, 7} {
		assert.Equal(t, id, done[i].ID)
		assert.Equal(t, next, done[i].At)
	}
	assert.Equal(t, map[uint64]time.Duration{6: 2 * time.Second}, ends(t, n))
	_, ok = n.Rate(4)
	assert.True(t, ok)
}

func TestCancelReturnsWhatWasMoved(t *testing.T) {
	t.Parallel()
	n := mustNetwork(t, gbit)
	mustStart(t, n, 0, 1, 125e6, 0)
	mustStart(t, n, 0, 2, 125e6, 0)
	moved, err := n.Cancel(flowsim.Seconds(1), 1)
	require.NoError(t, err)
	assert.Equal(t, 62.5e6, moved)
	_, err = n.Cancel(flowsim.Seconds(1), 1)
	require.ErrorIs(t, err, flowsim.ErrUnknownFlow)
	assert.Equal(t, map[uint64]time.Duration{2: 1500 * time.Millisecond}, ends(t, n))
}

func TestALinkThatStopsAndComesBack(t *testing.T) {
	t.Parallel()
	n := mustNetwork(t, gbit)
	mustStart(t, n, 0, 1, 125e6, 0)
	require.NoError(t, n.SetCapacity(flowsim.Seconds(0.5), 0, 0))
	_, ok := n.Next()
	assert.False(t, ok, "nothing moves")
	require.NoError(t, n.SetCapacity(flowsim.Seconds(3), 0, 2*gbit))
	assert.Equal(t, map[uint64]time.Duration{1: 3250 * time.Millisecond}, ends(t, n))
}

func TestALinkThatDiesWithTheLastByteStrandsNobody(t *testing.T) {
	t.Parallel()
	// However a k-th of the link is rounded, all flows are done after 3 s.
	for k := 1; k <= 100; k++ {
		n := mustNetwork(t, gbit)
		for id := range 3 * k {
			mustStart(t, n, time.Duration(id)*7*time.Millisecond, uint64(id), gbit/float64(k), 0)
		}
		require.NoError(t, n.SetCapacity(flowsim.Seconds(3), 0, 0))
		done, err := n.Advance(flowsim.Seconds(3))
		require.NoError(t, err)
		assert.Len(t, done, 3*k)
	}
}

func TestSmallChangesAreFollowed(t *testing.T) {
	t.Parallel()
	// Flow 1 is held back on link 0, and flow 2 gets what it leaves of link 1.
	n := mustNetwork(t, gbit, 3*gbit)
	mustStart(t, n, 0, 1, 1e9, 0, 1)
	mustStart(t, n, 0, 2, 1e9, 1)
	for _, c := range []float64{1 + 1e-10, 1 - 1e-9, 1 + 1e-6} {
		require.NoError(t, n.SetCapacity(n.Clock(), 0, c*gbit))
		one, _ := n.Rate(1)
		two, _ := n.Rate(2)
		assert.InEpsilon(t, c*gbit, one, 1e-12)
		assert.InEpsilon(t, (3-c)*gbit, two, 1e-12)
	}
}

func TestFramingTakesItsShareOfTheLinks(t *testing.T) {
	t.Parallel()
	n, err := flowsim.New([]float64{gbit}, flowsim.Options{Framing: flowsim.FullSegmentFraming})
	require.NoError(t, err)
	mustStart(t, n, 0, 1, 125e6, 0)
	assert.InEpsilon(t, gbit, n.LinkLoad(0), 1e-15)
	assert.Equal(t, map[uint64]time.Duration{1: 1045580110}, ends(t, n)) // 1514/1448 s
}

func TestTimesAreExactAfterAMonth(t *testing.T) {
	t.Parallel()
	const month = 30 * 24 * time.Hour
	n := mustNetwork(t, gbit)
	mustStart(t, n, month, 1, 125e3, 0) // 1 ms
	done, err := n.Advance(flowsim.At(month + time.Second))
	require.NoError(t, err)
	require.Len(t, done, 1)
	assert.InEpsilon(t, 1e-3, done[0].At.Sub(done[0].Started), 1e-12)
	assert.Equal(t, month+time.Millisecond, done[0].At.Duration())
}

func TestCompletionsBeforeALaterCallAreNotLost(t *testing.T) {
	t.Parallel()
	n := mustNetwork(t, gbit)
	mustStart(t, n, 0, 2, 125e6, 0)
	mustStart(t, n, 5*time.Second, 1, 125e6, 0) // flow 2 ended at 1 s
	next, ok := n.Next()
	require.True(t, ok)
	assert.Equal(t, n.Clock(), next)
	done, err := n.Advance(flowsim.At(6 * time.Second))
	require.NoError(t, err)
	require.Len(t, done, 2)
	assert.Equal(t, []uint64{2, 1}, []uint64{done[0].ID, done[1].ID})
	assert.Equal(t, time.Second, done[0].At.Duration())
	done, err = n.Advance(flowsim.At(6 * time.Second))
	require.NoError(t, err)
	assert.Empty(t, done)
}

func TestBadInputIsRefusedAndChangesNothing(t *testing.T) {
	t.Parallel()
	_, err := flowsim.New([]float64{1, -1}, flowsim.Options{})
	require.ErrorContains(t, err, "link 1")
	_, err = flowsim.New(nil, flowsim.Options{Framing: 0.5})
	require.ErrorContains(t, err, "framing")

	n := mustNetwork(t, gbit)
	mustStart(t, n, time.Second, 1, 125e6, 0)
	for name, f := range map[string]flowsim.Flow{
		"in use":      {ID: 1, Path: []flowsim.LinkIndex{0}},
		"link 1":      {ID: 2, Path: []flowsim.LinkIndex{0, 1}},
		"link -1":     {ID: 2, Path: []flowsim.LinkIndex{-1}},
		"bytes":       {ID: 2, Bytes: -1},
		"maximal":     {ID: 2, MaxRate: -1},
		"delay":       {ID: 2, Delay: -1},
		"weights":     {ID: 2, Path: []flowsim.LinkIndex{0}, Weights: []float64{1, 1}},
		"weight 0 on": {ID: 2, Path: []flowsim.LinkIndex{0}, Weights: []float64{0}},
	} {
		err := n.Start(flowsim.At(time.Second), f)
		if name == "in use" {
			name = "has not ended"
		}
		require.ErrorContains(t, err, name)
	}
	require.ErrorIs(t, n.Start(flowsim.Seconds(0.9), flowsim.Flow{ID: 2}), flowsim.ErrPast)
	require.NoError(t, n.Start(flowsim.At(time.Second-1), flowsim.Flow{ID: 9}), "a rounded nanosecond is forgiven")
	require.Error(t, n.SetCapacity(n.Clock(), 1, 1))
	require.Error(t, n.SetCapacity(n.Clock(), 0, -1))
	assert.Equal(t, map[uint64]time.Duration{1: 2 * time.Second, 9: time.Second}, ends(t, n))
}
