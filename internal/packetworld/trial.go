package packetworld

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/netkvlab/netkvlab/internal/controller"
	"github.com/netkvlab/netkvlab/kvagent"
	"github.com/netkvlab/netkvlab/kvagent/control"
)

// Session is the connection to one agent in a trial: commands in, events out.
type Session interface {
	// Send queues a command; it does not wait for the agent.
	Send(*control.Command) error
	// Events is closed when the session ends; Err then says why.
	Events() <-chan *control.Event
	Err() error
	Close() error
}

// Member is one agent that takes part.
type Member struct {
	Node string
	// Prefill and Decode are the instance's indices in the trial, -1 if it is no such
	// instance. The endpoint of explicit flows has the same index in both.
	Prefill, Decode int
	Session         Session
}

// Sample is what the oracle's poll found.
type Sample struct {
	Congestion [4]float64
	OK         bool // false: the sample was lost
}

// Trial is one run of a driver against the agents.
type Trial struct {
	Driver  controller.Driver
	Members []Member
	// Epoch is paper time 0 on the monotonic clock, as given to the sessions.
	Epoch     int64
	TimeScale float64 // T
	// Now reads the monotonic clock that Epoch is on; nil is the host's.
	Now func() int64
	// Samples delivers the oracle's samples; nil when congestion is not watched.
	Samples <-chan Sample
	// Background switches the background members on and off around the trial.
	Background []Session
	// OnBackgroundLost is called when background traffic has ended too early.
	OnBackgroundLost func(node, reason string)
	// OnStall receives how long, in real time, this program or the whole host was stopped.
	// The instances get that much more time to answer.
	OnStall func(late time.Duration)
	// OnProgress receives, from time to time, how many requests have ended.
	OnProgress func(ended, total int)
}

// Epoch returns a start for a trial with the given number of agents: far enough in the
// future to reach every one of them before it.
func Epoch(agents int) int64 {
	return monotonic() + int64(100*time.Millisecond) + int64(agents)*int64(2*time.Millisecond)
}

// message is an agent's event, or its end.
type message struct {
	member int
	ev     *control.Event
	gone   error
}

// Run drives the trial to its end. A cancelled context cuts it: what has ended
// keeps its record, the rest is incomplete, and the context's error is returned.
func (t *Trial) Run(ctx context.Context) error {
	if len(t.Members) == 0 {
		return errors.New("packet trial: no agents")
	}
	inner, stop := context.WithCancel(ctx)
	inbox := make(chan message, 1024)
	done := make(chan struct{})
	for i := range t.Members {
		go t.listen(inner, i, inbox, done)
	}
	defer func() {
		stop()
		for range t.Members {
			<-done
		}
	}()
	if err := t.switchBackground(true); err != nil {
		return err
	}
	return t.loop(ctx, t.clock(), inbox)
}

// listen forwards one agent's events until it stops or the trial ends.
func (t *Trial) listen(ctx context.Context, i int, inbox chan<- message, done chan<- struct{}) {
	defer func() { done <- struct{}{} }()
	s := t.Members[i].Session
	for {
		m := message{member: i}
		select {
		case <-ctx.Done():
			return
		case ev, ok := <-s.Events():
			m.ev = ev
			if !ok {
				m.gone = s.Err()
				if m.gone == nil {
					m.gone = errors.New("closed its session")
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case inbox <- m:
		}
		if m.gone != nil {
			return
		}
	}
}

func (t *Trial) switchBackground(on bool) error {
	for _, s := range t.Background {
		cmd := &control.Command{Command: &control.Command_Background{Background: &control.BackgroundSwitch{On: on}}}
		if err := s.Send(cmd); err != nil {
			return fmt.Errorf("switch background traffic: %w", err)
		}
	}
	return nil
}

func (t *Trial) clock() clock {
	c := clock{epoch: t.Epoch, scale: t.TimeScale, read: t.Now}
	if c.read == nil {
		c.read = monotonic
	}
	return c
}

func (t *Trial) loop(ctx context.Context, clk clock, inbox <-chan message) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !t.Driver.Done() {
		at, timed := t.Driver.Next()
		if timed {
			timer.Reset(max(0, clk.until(at)))
		} else {
			timer.Stop()
		}
		var actions []controller.Action
		select {
		case <-ctx.Done():
			t.Driver.Cut(clk.now(), "interrupted")
			return ctx.Err()
		case <-timer.C:
			t.forgive(clk, at)
			actions = t.Driver.Wake(clk.now())
		case m := <-inbox:
			actions = t.handle(clk.now(), m)
		case s := <-t.Samples:
			if s.OK {
				actions = t.Driver.Handle(clk.now(), controller.Event{Kind: controller.Congestion, Congestion: s.Congestion})
			}
		}
		t.carryOut(clk, actions)
		if t.OnProgress != nil {
			ended, total := t.Driver.Progress()
			t.OnProgress(ended, total)
		}
	}
	return t.switchBackground(false)
}

// stallAfter is the lateness of a wake-up from which the program counts as stopped, not
// merely busy.
const stallAfter = time.Second

// forgive gives the instances more time after a pause of this program. They may have
// answered during the pause, or have been stopped too.
func (t *Trial) forgive(clk clock, due time.Duration) {
	late := -clk.until(due)
	if late < stallAfter {
		return
	}
	if d, ok := t.Driver.(interface{ Postpone(by time.Duration) }); ok {
		// Add stallAfter for events that are still on their way.
		d.Postpone(time.Duration(float64(late+stallAfter) / clk.scale))
	}
	if t.OnStall != nil {
		t.OnStall(late)
	}
}

// handle turns a message into events. An agent that is gone takes its instances with it.
func (t *Trial) handle(now time.Duration, m message) []controller.Action {
	mem := &t.Members[m.member]
	if m.gone == nil {
		if f := m.ev.GetFailed(); f.GetStage() == kvagent.StageBackground {
			if t.OnBackgroundLost != nil {
				t.OnBackgroundLost(mem.Node, f.GetReason())
			}
			return nil // it concerns no request, although it has a number
		}
		if ev, ok := toEvent(mem, m.ev); ok {
			return t.Driver.Handle(now, ev)
		}
		return nil
	}
	reason := fmt.Sprintf("agent %s is gone: %v", mem.Node, m.gone)
	var all []controller.Action
	if mem.Prefill >= 0 {
		all = append(all, t.Driver.Handle(now, controller.Event{Kind: controller.PrefillDown, Prefill: mem.Prefill, At: now, Reason: reason})...)
	}
	if mem.Decode >= 0 {
		all = append(all, t.Driver.Handle(now, controller.Event{Kind: controller.DecodeDown, Decode: mem.Decode, At: now, Reason: reason})...)
	}
	return all
}

// carryOut sends the actions. If a command cannot be sent, the agent is gone. The end of
// its session reports this too; here the driver learns it at once.
func (t *Trial) carryOut(clk clock, actions []controller.Action) {
	queue := append([]controller.Action(nil), actions...)
	for len(queue) > 0 {
		a := queue[0]
		queue = queue[1:]
		for _, o := range t.orders(a) {
			if err := t.Members[o.member].Session.Send(o.cmd); err != nil {
				queue = append(queue, t.handle(clk.now(), message{member: o.member, gone: err})...)
			}
		}
	}
}
