package packetworld

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/netkvlab/netkvlab/internal/controller"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/kvagent"
	"github.com/netkvlab/netkvlab/kvagent/control"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeSession is an agent that answers commands by a function.
type fakeSession struct {
	mu     sync.Mutex
	events chan *control.Event
	err    error
	sent   []*control.Command
	answer func(*fakeSession, *control.Command)
}

func newFake(answer func(*fakeSession, *control.Command)) *fakeSession {
	return &fakeSession{events: make(chan *control.Event, 100), answer: answer}
}

func (f *fakeSession) Send(c *control.Command) error {
	f.mu.Lock()
	f.sent = append(f.sent, c)
	f.mu.Unlock()
	if f.answer != nil {
		f.answer(f, c)
	}
	return nil
}
func (f *fakeSession) Events() <-chan *control.Event { return f.events }
func (f *fakeSession) Err() error                    { return f.err }
func (f *fakeSession) Close() error                  { return nil }

// flows is a driver of two transfers from node 0 to node 1.
func flows(t *testing.T, drain time.Duration) *controller.Flows {
	d, err := controller.NewFlows(controller.FlowsConfig{
		World: results.WorldPacket, Endpoints: []string{"i0", "i1"}, RateScale: 1, NICs: 1, Drain: drain,
		Flows: []controller.FlowSpec{
			{ID: 0, To: 1, Tier: 3, Bytes: 1000, Slots: []int{2}},
			{ID: 1, Start: 10 * time.Millisecond, To: 1, Tier: 3, Bytes: 500, Slots: []int{0}},
		},
	})
	require.NoError(t, err)
	return d
}

func done(c *control.Command, at time.Duration) *control.Event {
	tr := c.GetTransfer()
	return &control.Event{
		Request: tr.GetRequest(), Attempt: tr.GetAttempt(), AtPaperNs: int64(at),
		Event: &control.Event_TransferDone{TransferDone: &control.TransferDone{Bytes: tr.GetStreams()[0].GetBytes()}},
	}
}

func trial(d controller.Driver, a, b Session) *Trial {
	return &Trial{
		Driver: d, Epoch: kvagent.Monotonic(), TimeScale: 1,
		Members: []Member{{Node: "i0", Session: a}, {Node: "i1", Prefill: 1, Decode: 1, Session: b}},
	}
}

func TestBothEndsOfATransferAreTold(t *testing.T) {
	sender := newFake(nil)
	receiver := newFake(func(f *fakeSession, c *control.Command) {
		if c.GetTransfer().GetReceive() {
			f.events <- done(c, 42*time.Millisecond)
		}
	})
	d := flows(t, time.Minute)
	require.NoError(t, trial(d, sender, receiver).Run(t.Context()))
	require.Len(t, sender.sent, 2)
	require.Len(t, receiver.sent, 2)
	assert.Equal(t, "i1", sender.sent[0].GetTransfer().GetPeer())
	assert.Equal(t, "i0", receiver.sent[0].GetTransfer().GetPeer())
	assert.Equal(t, uint32(2), sender.sent[0].GetTransfer().GetStreams()[0].GetPath())
	rows := d.Records()
	assert.Equal(t, results.Completed, rows[0].Status)
	assert.Equal(t, int64(1000), rows[0].MovedBytesEmulated)
	assert.InDelta(t, 42, *rows[0].FinishMS, 1e-9, "the receiver's stamp counts, not when it was heard")
}

func TestAnAgentThatDiesTakesItsTransfersWithIt(t *testing.T) {
	sender := newFake(nil)
	receiver := newFake(nil)
	receiver.answer = func(f *fakeSession, _ *control.Command) {
		if f.err == nil {
			f.err = errors.New("connection reset")
			close(f.events)
		}
	}
	d := flows(t, time.Minute)
	require.NoError(t, trial(d, sender, receiver).Run(t.Context()))
	for _, r := range d.Records() {
		assert.Equal(t, results.Failed, r.Status)
		assert.Contains(t, r.Reason, "agent i1 is gone: connection reset")
	}
}

func TestInterruptionCutsTheTrial(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	sender := newFake(func(*fakeSession, *control.Command) { cancel() })
	d := flows(t, time.Minute)
	err := trial(d, sender, newFake(nil)).Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	for _, r := range d.Records() {
		assert.Equal(t, results.Incomplete, r.Status)
	}
}

func TestSilenceEndsAtTheDrainLimit(t *testing.T) {
	d := flows(t, 50*time.Millisecond)
	require.NoError(t, trial(d, newFake(nil), newFake(nil)).Run(t.Context()))
	for _, r := range d.Records() {
		assert.Contains(t, r.Reason, "not finished 50ms after the last start")
	}
}

func TestTimeScaleStretchesTheClock(t *testing.T) {
	c := clock{epoch: 1000, scale: 4, read: kvagent.Monotonic}
	assert.Equal(t, time.Duration(250), c.paper(2000))
	later := clock{epoch: kvagent.Monotonic(), scale: 4, read: kvagent.Monotonic}
	assert.InDelta(t, float64(4*time.Second), float64(later.until(time.Second)), float64(50*time.Millisecond))
}

func TestAPauseOfTheControllerIsNotHeldAgainstTheAgents(t *testing.T) {
	var jumped atomic.Int64
	var orders []*control.Command
	receiver := newFake(func(_ *fakeSession, c *control.Command) {
		if orders = append(orders, c); len(orders) == 2 {
			jumped.Store(int64(100 * time.Second)) // past the drain limit, before anyone could answer
		}
	})
	d := flows(t, 10*time.Second)
	tr := trial(d, newFake(nil), receiver)
	tr.Now = func() int64 { return kvagent.Monotonic() + jumped.Load() }
	var stood time.Duration
	tr.OnStall = func(late time.Duration) {
		stood = late
		for _, c := range orders {
			receiver.events <- done(c, 42*time.Millisecond)
		}
	}
	require.NoError(t, tr.Run(t.Context()))
	assert.Greater(t, stood, 80*time.Second)
	for _, r := range d.Records() {
		assert.Equal(t, results.Completed, r.Status, r.Reason)
	}
}

func TestLostBackgroundTrafficIsNotARequestsFailure(t *testing.T) {
	receiver := newFake(func(f *fakeSession, c *control.Command) {
		f.events <- &control.Event{Event: &control.Event_Failed{Failed: &control.Failed{Stage: kvagent.StageBackground, Reason: "cut"}}}
		f.events <- done(c, 42*time.Millisecond)
	})
	d := flows(t, time.Minute)
	tr := trial(d, newFake(nil), receiver)
	var lost []string
	tr.OnBackgroundLost = func(node, reason string) { lost = append(lost, node+": "+reason) }
	require.NoError(t, tr.Run(t.Context()))
	assert.Equal(t, []string{"i1: cut", "i1: cut"}, lost)
	for _, r := range d.Records() {
		assert.Equal(t, results.Completed, r.Status, r.Reason)
	}
}
