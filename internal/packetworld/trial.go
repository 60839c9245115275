package packetworld

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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

// Trial is one run of a driver against the agents.
type Trial struct {
	Driver  controller.Driver
	Members []Member
	// Epoch is paper time 0 on the monotonic clock, as given to the sessions.
	Epoch     int64
	TimeScale float64 // T
	// Now reads the monotonic clock that Epoch is on; nil is the host's.
	Now func() int64
	// Samples delivers the oracle's congestion by tier; nil when congestion is not watched.
	Samples <-chan [4]float64
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

// message is an agent's event, or its end.
type message struct {
	member int
	ev     *control.Event
	gone   error
}

// Run drives the trial to its end. A cancelled context cuts it: what has ended
// keeps its record, the rest is incomplete, and the context's error is returned.
func (t *Trial) Run(ctx context.Context) error {
	inner, stop := context.WithCancel(ctx)
	inbox := make(chan message, 1024)
	var listeners sync.WaitGroup
	for i := range t.Members {
		listeners.Go(func() { t.listen(inner, i, inbox) })
	}
	defer listeners.Wait()
	defer stop()
	if err := t.switchBackground(true); err != nil {
		return err
	}
	clk := clock{epoch: t.Epoch, scale: t.TimeScale, read: t.Now}
	if clk.read == nil {
		clk.read = kvagent.Monotonic
	}
	return t.loop(ctx, clk, inbox)
}

// listen forwards one agent's events until it stops or the trial ends.
func (t *Trial) listen(ctx context.Context, i int, inbox chan<- message) {
	s := t.Members[i].Session
	for m := (message{member: i}); m.gone == nil; {
		select {
		case <-ctx.Done():
			return
		case ev, ok := <-s.Events():
			if m.ev = ev; !ok {
				m.gone = cmp.Or(s.Err(), errors.New("closed its session"))
			}
		}
		select {
		case <-ctx.Done():
			return
		case inbox <- m:
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
		case c := <-t.Samples:
			actions = t.Driver.Handle(clk.now(), controller.Event{Kind: controller.Congestion, Congestion: c})
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
	// Add stallAfter for events that are still on their way.
	t.Driver.Postpone(time.Duration(float64(late+stallAfter) / clk.scale))
	if t.OnStall != nil {
		t.OnStall(late)
	}
}

// handle turns a message into events. An agent that is gone takes its instances with it.
func (t *Trial) handle(now time.Duration, m message) (actions []controller.Action) {
	mem := &t.Members[m.member]
	if m.gone != nil {
		reason := fmt.Sprintf("agent %s is gone: %v", mem.Node, m.gone)
		if mem.Prefill >= 0 {
			ev := controller.Event{Kind: controller.PrefillDown, Prefill: mem.Prefill, At: now, Reason: reason}
			actions = slices.Clone(t.Driver.Handle(now, ev))
		}
		if mem.Decode >= 0 {
			ev := controller.Event{Kind: controller.DecodeDown, Decode: mem.Decode, At: now, Reason: reason}
			actions = append(actions, t.Driver.Handle(now, ev)...)
		}
		return actions
	}
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

// carryOut sends the actions. If a command cannot be sent, the agent is gone. The end of
// its session reports this too; here the driver learns it at once.
func (t *Trial) carryOut(clk clock, actions []controller.Action) {
	for queue := slices.Clone(actions); len(queue) > 0; queue = queue[1:] {
		for _, o := range t.orders(queue[0]) {
			if err := t.Members[o.member].Session.Send(o.cmd); err != nil {
				queue = append(queue, t.handle(clk.now(), message{member: o.member, gone: err})...)
			}
		}
	}
}

// Stopwatch is the clock that decisions are timed with.
func Stopwatch() int64 { return kvagent.Monotonic() }

// clock maps real onto paper time of one trial.
type clock struct {
	epoch int64   // monotonic nanoseconds at paper time 0
	scale float64 // T
	read  func() int64
}

func (c clock) now() time.Duration { return c.paper(c.read()) }

func (c clock) paper(mono int64) time.Duration {
	return time.Duration(float64(mono-c.epoch) / c.scale)
}

// until is how long to wait, in real time, for a paper time to come.
func (c clock) until(at time.Duration) time.Duration {
	return time.Duration(float64(c.epoch) + float64(at)*c.scale - float64(c.read()))
}

type order struct {
	member int
	cmd    *control.Command
}

// orders translates an action into commands. Both ends receive the command for a transfer:
// the receiver must know how many bytes to expect.
func (t *Trial) orders(a controller.Action) []order {
	id, attempt := uint64(a.Request), uint32(a.Attempt)
	prefill := slices.IndexFunc(t.Members, func(m Member) bool { return m.Prefill == a.Prefill })
	decode := slices.IndexFunc(t.Members, func(m Member) bool { return m.Decode == a.Decode })
	cancel := &control.Command{Command: &control.Command_Cancel{Cancel: &control.Cancel{Request: id, Attempt: attempt, Reason: a.Reason}}}
	switch a.Kind {
	case controller.DoPrefill:
		return []order{{prefill, &control.Command{Command: &control.Command_Prefill{
			Prefill: &control.Prefill{Request: id, Tokens: int64(a.Tokens)},
		}}}}
	case controller.DoReserve:
		return []order{{decode, &control.Command{Command: &control.Command_Reserve{Reserve: &control.Reserve{
			Request: id, Attempt: attempt, PromptTokens: int64(a.Tokens), OutputTokens: int64(a.OutputTokens), Blocks: a.Blocks,
		}}}}}
	case controller.DoTransfer:
		return []order{
			{decode, transferCommand(a, t.Members[prefill].Node, true)},
			{prefill, transferCommand(a, t.Members[decode].Node, false)},
		}
	case controller.DoCancelPrefill:
		return []order{{prefill, cancel}}
	case controller.DoCancelDecode:
		return []order{{decode, cancel}}
	}
	return nil
}

// transferCommand tells one end of a transfer about the other.
func transferCommand(a controller.Action, peer string, receive bool) *control.Command {
	streams := make([]*control.StreamSpec, len(a.Streams))
	for i, s := range a.Streams {
		streams[i] = &control.StreamSpec{Nic: uint32(s.NIC), Path: uint32(s.Path), Bytes: s.BytesEmulated}
	}
	return &control.Command{Command: &control.Command_Transfer{Transfer: &control.Transfer{
		Request: uint64(a.Request), Attempt: uint32(a.Attempt), Peer: peer, Receive: receive, Streams: streams,
		Pieces: int32(a.Pieces), ReleaseFromPaperNs: int64(a.ReleaseFrom), ReleaseToPaperNs: int64(a.ReleaseTo),
	}}}
}

// toEvent translates an agent's event; ok is false if the driver does not need it.
func toEvent(m *Member, e *control.Event) (ev controller.Event, ok bool) {
	ev = controller.Event{
		Request: int(e.GetRequest()), Attempt: int(e.GetAttempt()), At: time.Duration(e.GetAtPaperNs()),
		Prefill: m.Prefill, Decode: m.Decode, FreeBytes: -1,
	}
	switch x := e.GetEvent().(type) {
	case *control.Event_PrefillStarted:
		ev.Kind = controller.PrefillStarted
	case *control.Event_PrefillDone:
		ev.Kind = controller.PrefillDone
	case *control.Event_Reserved:
		r := x.Reserved
		ev.Kind, ev.OK, ev.Reason = controller.Reserved, r.GetOk(), r.GetReason()
		ev.HitTokens, ev.FreeBytes = int(r.GetHitTokens()), r.GetFreePaperBytes()
	case *control.Event_TransferSent:
		ev.Kind, ev.Start = controller.TransferSent, time.Duration(x.TransferSent.GetStartPaperNs())
		ev.Streams = reports(x.TransferSent.GetStreams())
	case *control.Event_TransferDone:
		ev.Kind, ev.BytesEmulated = controller.TransferDone, x.TransferDone.GetBytes()
		ev.Streams = reports(x.TransferDone.GetStreams())
	case *control.Event_Admitted:
		ev.Kind = controller.Admitted
	case *control.Event_FirstToken:
		ev.Kind = controller.FirstToken
	case *control.Event_Finished:
		ev.Kind, ev.FreeBytes = controller.Finished, x.Finished.GetFreePaperBytes()
	case *control.Event_Failed:
		ev.Kind, ev.Reason, ev.BytesEmulated = controller.Failed, x.Failed.GetReason(), x.Failed.GetBytes()
		ev.BySender = m.Decode < 0
	case *control.Event_Cache:
		ev.Kind, ev.FreeBytes = controller.CacheChanged, x.Cache.GetFreePaperBytes()
		ev.Stored, ev.Evicted = x.Cache.GetStored(), x.Cache.GetEvicted()
	}
	return ev, ev.Kind != 0
}

func reports(in []*control.StreamReport) []controller.StreamReport {
	out := make([]controller.StreamReport, len(in))
	for i, s := range in {
		out[i] = controller.StreamReport{
			NIC: int(s.GetNic()), Path: int(s.GetPath()), SourcePort: int(s.GetSourcePort()), BytesEmulated: s.GetBytes(),
			First: time.Duration(s.GetFirstPaperNs()), Last: time.Duration(s.GetLastPaperNs()), Retransmits: int(s.GetRetransmits()),
		}
	}
	return out
}
