// Package flowworld is the flow world: it carries out a controller's actions with the instance
// model and a fluid network, on a virtual clock.
//
// It is the counterpart of internal/packetworld, with the same drivers and the same engines
// (there inside agents). Instead of TCP over an emulated fabric it uses the max-min shares of
// flowsim on the same plan. It decides nothing. Times and bytes are paper units. Equal inputs
// give exactly equal events. Start reading at World.
package flowworld

import (
	"container/heap"
	"context"
	"fmt"
	"time"

	"github.com/netkvlab/netkvlab/flowsim"
	"github.com/netkvlab/netkvlab/internal/controller"
	"github.com/netkvlab/netkvlab/kvagent/engine"
)

// World is one trial's cluster.
type World struct {
	cfg      Config
	net      *flowsim.Network
	prefills []*engine.Prefill
	decodes  []*engine.Decode
	now      time.Duration

	events  eventQueue
	seq     uint64
	attempt map[uint64]int // of each request at its decode instance

	transfers map[attemptKey]*transfer // not yet ended
	owner     map[uint64]*transfer     // by flow id
	flowID    uint64                   // of the next flow
	polls     uint64
}

// New builds the cluster of a trial.
func New(cfg Config) (*World, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	net, err := cfg.network()
	if err != nil {
		return nil, err
	}
	w := &World{
		cfg: cfg, net: net, attempt: map[uint64]int{}, transfers: map[attemptKey]*transfer{}, owner: map[uint64]*transfer{},
	}
	if cfg.Decode == nil {
		return w, nil
	}
	for range cfg.Senders {
		p, err := engine.NewPrefill(cfg.Prefill)
		if err != nil {
			return nil, err
		}
		w.prefills = append(w.prefills, p)
	}
	for range cfg.Receivers {
		d, err := engine.NewDecode(*cfg.Decode)
		if err != nil {
			return nil, err
		}
		w.decodes = append(w.decodes, d)
	}
	if cfg.Refresh > 0 {
		w.later(cfg.Refresh, w.poll)
	}
	return w, nil
}

// Run drives the trial to its end. A cancelled context cuts it.
func (w *World) Run(ctx context.Context, d controller.Driver) error {
	for steps := 0; !d.Done(); steps++ {
		if steps%1024 == 0 && ctx.Err() != nil {
			d.Cut(w.now, "interrupted")
			return ctx.Err()
		}
		if err := w.step(d); err != nil {
			return err
		}
	}
	return nil
}

// step processes the next event. The order at one instant is fixed, so that equal inputs give
// equal runs: arrivals of bytes, the instances by index, their reports in order, the driver's
// own timers.
func (w *World) step(d controller.Driver) error {
	what, at := w.next(d)
	if what == nothing { // a fault of the driver or of this package
		return fmt.Errorf("flow world at %v: nothing is left to happen and the trial is not done", w.now)
	}
	w.now = max(w.now, at)
	switch what {
	case network:
		return w.arrivals()
	case instances:
		w.advance()
	case queued:
		return heap.Pop(&w.events).(item).do(d)
	case driver:
		return w.carryOut(d.Wake(w.now))
	}
	return nil
}

type source uint8

const (
	nothing source = iota
	network
	instances
	queued
	driver
)

func (w *World) next(d controller.Driver) (what source, at time.Duration) {
	consider := func(s source, t time.Duration, ok bool) {
		if ok && (what == nothing || t < at) {
			what, at = s, t
		}
	}
	arrival, ok := w.net.Next()
	consider(network, arrival.Duration(), ok)
	for _, p := range w.prefills {
		t, ok := p.Next()
		consider(instances, t, ok)
	}
	for _, e := range w.decodes {
		t, ok := e.Next()
		consider(instances, t, ok)
	}
	if len(w.events) > 0 {
		consider(queued, w.events[0].at, true)
	}
	t, ok := d.Next()
	consider(driver, t, ok)
	return what, at
}

// advance collects what the instances have done by now.
func (w *World) advance() {
	for i, p := range w.prefills {
		for _, e := range p.Advance(w.now) {
			kind := controller.PrefillStarted
			if e.Kind == engine.PrefillDone {
				kind = controller.PrefillDone
			}
			w.tell(controller.Event{Kind: kind, Request: int(e.ID), At: e.At, Prefill: i})
		}
	}
	for i, d := range w.decodes {
		for _, e := range d.Advance(w.now) {
			w.tell(w.decoded(i, e))
		}
	}
}

var decodeKinds = map[engine.DecodeKind]controller.EventKind{
	engine.Admitted: controller.Admitted, engine.FirstToken: controller.FirstToken,
	engine.Finished: controller.Finished, engine.CacheChanged: controller.CacheChanged,
}

func (w *World) decoded(i int, e engine.DecodeEvent) controller.Event {
	ev := controller.Event{
		Kind: decodeKinds[e.Kind], Request: int(e.ID), Attempt: w.attempt[e.ID], At: e.At, Decode: i,
		FreeBytes: e.FreeBytes, Stored: e.Stored, Evicted: e.Evicted,
	}
	if e.Kind == engine.Finished {
		delete(w.attempt, e.ID)
	}
	return ev
}

// carryOut carries out the driver's actions at this instant.
func (w *World) carryOut(actions []controller.Action) error {
	for i := range actions {
		a := &actions[i]
		var err error
		switch a.Kind {
		case controller.DoPrefill:
			err = w.prefills[a.Prefill].Submit(w.now, uint64(a.Request), a.Tokens)
		case controller.DoReserve:
			w.reserve(a)
		case controller.DoTransfer:
			err = w.send(a)
		case controller.DoCancelPrefill:
			w.prefills[a.Prefill].Cancel(w.now, uint64(a.Request))
			err = w.drop(attemptKey{a.Request, a.Attempt})
		case controller.DoCancelDecode:
			w.decodes[a.Decode].Release(w.now, uint64(a.Request))
			err = w.drop(attemptKey{a.Request, a.Attempt})
		}
		if err != nil {
			return fmt.Errorf("flow world at %v: request %d: %w", w.now, a.Request, err)
		}
	}
	w.advance()
	return nil
}

func (w *World) reserve(a *controller.Action) {
	d := w.decodes[a.Decode]
	hit, err := d.Reserve(w.now, engine.Reservation{
		ID: uint64(a.Request), PromptTokens: a.Tokens, OutputTokens: a.OutputTokens, Blocks: a.Blocks,
	})
	ev := controller.Event{
		Kind: controller.Reserved, Request: a.Request, Attempt: a.Attempt, At: w.now, Decode: a.Decode,
		OK: err == nil, HitTokens: hit, FreeBytes: d.FreeBytes(),
	}
	if err != nil {
		ev.Reason = err.Error()
	} else {
		w.attempt[uint64(a.Request)] = a.Attempt
	}
	w.tell(ev)
}

// poll is the oracle's poll of the switches: the share of each tier's links that others use,
// plus the transfers' own load if that cannot be separated.
func (w *World) poll(controller.Driver) error {
	w.polls++
	truth := w.cfg.Background
	if w.cfg.CountOwn {
		own := w.ownLoad()
		for t := range truth {
			truth[t] += own[t]
		}
	}
	said, ok := truth, true
	if w.cfg.Congestion != nil {
		said, ok = w.cfg.Congestion(w.polls, truth)
	}
	if ok {
		w.report(w.now+w.cfg.Staleness, controller.Event{Kind: controller.Congestion, At: w.now, Congestion: said})
	}
	w.later(w.now+w.cfg.Refresh, w.poll)
	return nil
}

// ownLoad is the transfers' mean share of each tier's links now.
func (w *World) ownLoad() [4]float64 {
	var sum, links [4]float64
	if w.cfg.ByTier {
		return sum
	}
	for l := range flowsim.LinkIndex(w.net.Links()) {
		link := &w.cfg.Plan.Links[flowsim.HopOf(l).Link]
		if link.Tier == 0 {
			continue
		}
		sum[link.Tier] += w.net.LinkLoad(l) / link.Rate.BytesPerSecond()
		links[link.Tier]++
	}
	for t := range sum {
		if links[t] > 0 {
			sum[t] /= links[t]
		}
	}
	return sum
}

// tell queues an event that has happened, for the driver to handle at this instant.
func (w *World) tell(ev controller.Event) { w.report(max(w.now, ev.At), ev) }

// report queues an event for the driver to handle at a time.
func (w *World) report(at time.Duration, ev controller.Event) {
	w.later(at, func(d controller.Driver) error { return w.carryOut(d.Handle(w.now, ev)) })
}

func (w *World) later(at time.Duration, do func(controller.Driver) error) {
	w.seq++
	heap.Push(&w.events, item{at, w.seq, do})
}

// item is what happens at a time: an event for the driver, a poll of the oracle, or a
// transfer's deadline.
type item struct {
	at  time.Duration
	seq uint64
	do  func(controller.Driver) error
}

type eventQueue []item

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(item)) }
func (q *eventQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}
