package controller

import (
	"container/heap"
	"fmt"
	"slices"
	"time"

	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/scheduler"
)

// Serving is the Driver of a serving trial. It takes time and events in; its dispatcher does what
// follows from them.
type Serving struct{ dispatcher }

var _ Driver = (*Serving)(nil)

// NewServing checks the configuration and returns the trial at time 0.
func NewServing(cfg Config) (*Serving, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	prefills, err := newPrefillPool(len(cfg.PrefillNames), cfg.Prefill)
	if err != nil {
		return nil, err
	}
	decodes, err := newDecodePool(&cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Stopwatch == nil {
		cfg.Stopwatch = func() int64 { return 0 }
	}
	c := &Serving{dispatcher{
		course: course{drain: cfg.Drain}, cfg: cfg, prefills: prefills, decodes: decodes, flights: make([]flight, len(cfg.Requests)),
	}}
	for i := range cfg.Requests {
		c.flights[i] = newFlight(&cfg.Requests[i])
		c.arrive(cfg.Requests[i].Arrival)
	}
	return c, nil
}

// Next implements Driver.
func (c *Serving) Next() (time.Duration, bool) {
	at, ok := c.course.Next()
	if w, watched := c.watches.first(c.flights); watched && (!ok || w.due < at) {
		return w.due, true
	}
	return at, ok
}

// Wake implements Driver: requests whose time has come arrive.
func (c *Serving) Wake(now time.Duration) []Action {
	c.actions = c.actions[:0]
	for i, ok := c.due(now); ok; i, ok = c.due(now) {
		c.startPrefill(now, c.arrivals[i], &c.flights[i])
	}
	c.overdue(now)
	if c.overtime(now) {
		for i := range c.flights {
			c.fail(&c.flights[i], fmt.Sprintf("not finished %v after the last arrival", c.cfg.Drain))
		}
	}
	c.stuck()
	return c.actions
}

// overdue takes instances that did not answer out of service.
func (c *Serving) overdue(now time.Duration) {
	for {
		w, ok := c.watches.first(c.flights)
		if !ok || w.due > now {
			return
		}
		heap.Pop(&c.watches)
		f := &c.flights[w.request]
		switch f.stage {
		case stagePrefill:
			c.onPrefillDown(now, f.prefill, fmt.Sprintf("%s did not finish a prefill in time", c.cfg.PrefillNames[f.prefill]))
		case stageReserving:
			c.onDecodeDown(now, f.decode, fmt.Sprintf("%s did not answer a reservation in time", c.cfg.DecodeNames[f.decode]))
		case stageTransfer:
			c.again(now, f, fmt.Sprintf("no word of the transfer from %s to %s in time", c.cfg.PrefillNames[f.prefill], c.cfg.DecodeNames[f.decode]))
		}
	}
}

// Postpone implements Driver.
func (c *Serving) Postpone(by time.Duration) {
	c.watches.postpone(by)
	c.course.Postpone(by)
}

// Cut implements Driver.
func (c *Serving) Cut(_ time.Duration, reason string) {
	for i := range c.flights {
		if f := &c.flights[i]; f.stage < stageCompleted {
			c.abandon(f)
			c.end(f, stageIncomplete, reason)
		}
	}
}

// Records implements Driver.
func (c *Serving) Records() []results.Record {
	out := make([]results.Record, len(c.flights))
	for i := range c.flights {
		out[i] = c.flights[i].record(&c.cfg)
	}
	return out
}

// flight finds the request of an event; nil if there is none.
func (c *Serving) flight(ev Event) *flight {
	if ev.Request < 0 || ev.Request >= len(c.flights) {
		return nil
	}
	return &c.flights[ev.Request]
}

// live finds the request of an event. It returns nil if the request has ended or the event
// belongs to an attempt that was given up.
func (c *Serving) live(ev Event, stages ...stage) *flight {
	f := c.flight(ev)
	if f == nil || !slices.Contains(stages, f.stage) || (f.stage != stagePrefill && ev.Attempt != f.attempt) {
		return nil
	}
	return f
}

// reactions are what the events of a live request do, and the stages in which they are expected.
var reactions = map[EventKind]struct {
	in []stage
	do func(c *Serving, now time.Duration, f *flight, ev Event)
}{
	PrefillStarted: {[]stage{stagePrefill}, (*Serving).onPrefillStarted},
	Reserved:       {[]stage{stageReserving}, (*Serving).onReserved},
	TransferDone:   {[]stage{stageTransfer}, (*Serving).onTransferDone},
	Admitted:       {[]stage{stageWaiting}, (*Serving).onAdmitted},
	FirstToken:     {[]stage{stageDecoding}, func(_ *Serving, _ time.Duration, f *flight, ev Event) { f.firstToken = ev.At }},
	Finished:       {[]stage{stageDecoding}, (*Serving).onFinished},
	Failed:         {[]stage{stagePrefill, stageReserving, stageTransfer, stageWaiting, stageDecoding}, (*Serving).onFailed},
}

// Handle implements Driver.
func (c *Serving) Handle(now time.Duration, ev Event) []Action {
	c.actions = c.actions[:0]
	switch ev.Kind {
	case PrefillDone:
		c.onPrefillDone(now, ev)
	case TransferSent:
		if f := c.flight(ev); f != nil && ev.Attempt == f.attempt {
			f.onSent(ev)
		}
	case CacheChanged:
		if !c.decodes.down[ev.Decode] {
			c.decodes.tellAll(func(s *scheduler.State) {
				s.Stored(ev.Decode, ev.Stored)
				s.Evicted(ev.Decode, ev.Evicted)
			})
			c.decodes.setFree(ev.Decode, ev.FreeBytes)
			c.retryHeld(now)
		}
	case PrefillDown:
		c.onPrefillDown(now, ev.Prefill, ev.Reason)
	case DecodeDown:
		c.onDecodeDown(now, ev.Decode, ev.Reason)
	case Congestion:
		c.decodes.tellAll(func(s *scheduler.State) { s.SetCongestion(ev.Congestion) })
	default:
		to := reactions[ev.Kind]
		if f := c.live(ev, to.in...); f != nil {
			to.do(c, now, f, ev)
		}
	}
	c.stuck()
	return c.actions
}

func (c *Serving) onPrefillStarted(now time.Duration, f *flight, ev Event) {
	if f.prefill != ev.Prefill {
		return
	}
	f.started = ev.At
	if c.cfg.OverlapPieces != nil {
		c.choose(now, f)
	}
}

func (c *Serving) onPrefillDone(now time.Duration, ev Event) {
	f := c.live(ev, stagePrefill, stageHeld, stageReserving, stageTransfer)
	if c.cfg.OverlapPieces != nil && f == nil {
		f = c.flight(ev) // the attempt counter has changed since the prefill was requested
	}
	if f == nil || f.prefill != ev.Prefill || f.stage >= stageCompleted {
		return
	}
	f.prefilled, f.computed = ev.At, true
	switch {
	case f.stage == stagePrefill:
		c.choose(now, f)
	case f.stage == stageTransfer && f.unsent:
		f.unsent, f.issued = false, now
		c.act(c.cfg.transfer(f))
	}
}

func (c *Serving) onReserved(now time.Duration, f *flight, ev Event) {
	c.tenantOf(f).booked[f.decode] -= c.cfg.need(f)
	c.decodes.setFree(f.decode, ev.FreeBytes)
	if !ev.OK {
		// The scheduler's state was older than the instance's and is now updated. One attempt per
		// instance is enough; then the request waits until memory is freed.
		c.abandon(f)
		if f.refused++; f.refused < len(c.cfg.DecodeNames) {
			c.choose(now, f)
		} else {
			f.refused = 0
			c.hold(f)
		}
		return
	}
	f.refused = 0
	f.decision.HitTokens = min(ev.HitTokens, f.req.PromptTokens)
	f.payload = int64(f.req.PromptTokens-f.decision.HitTokens) * c.cfg.KVBytesPerToken
	f.emulated = EmulatedBytes(f.payload, c.cfg.RateScale)
	f.stage, f.issued, f.sent = stageTransfer, now, nothing
	a := c.cfg.transfer(f)
	// On a full prefix hit no bytes wait for the prefill, but the first token does.
	if f.unsent = a.Pieces > 0 && len(a.Streams) == 0; !f.unsent {
		c.act(a)
	}
	c.expect(f, max(now, a.ReleaseTo), c.cfg.TransferTimeout)
}

func (c *Serving) onTransferDone(_ time.Duration, f *flight, ev Event) {
	f.transferDone, f.stage = ev.At, stageWaiting
	c.decodes.tellOthers(f.req.Tenant, func(s *scheduler.State) { s.Arrived(f.decode, f.req.PromptTokens) })
	f.onArrived(ev)
	c.tenantOf(f).State.TransferEnded(f.prefill, f.decode, f.decision.Tier)
}

func (c *Serving) onAdmitted(_ time.Duration, f *flight, ev Event) {
	f.admitted, f.stage = ev.At, stageDecoding
	c.decodes.tellAll(func(s *scheduler.State) { s.Admitted(f.decode, f.req.PromptTokens) })
}

func (c *Serving) onFinished(now time.Duration, f *flight, ev Event) {
	f.finished = ev.At
	c.abandon(f)
	c.decodes.setFree(f.decode, ev.FreeBytes)
	c.end(f, stageCompleted, "")
	c.retryHeld(now)
}

func (c *Serving) onFailed(now time.Duration, f *flight, ev Event) {
	if ev.BySender && (f.stage == stageWaiting || f.stage == stageDecoding) {
		return // the receiver counted every byte; only its acknowledgement was lost
	}
	f.moved = max(f.moved, ev.BytesEmulated)
	c.again(now, f, ev.Reason)
}

func (c *Serving) onPrefillDown(now time.Duration, prefill int, reason string) {
	down := &c.prefills.all[prefill].down
	if *down {
		return
	}
	*down = true
	for i := range c.flights {
		if f := &c.flights[i]; f.prefill == prefill && f.stage <= stageTransfer {
			c.again(now, f, reason)
		}
	}
}

func (c *Serving) onDecodeDown(now time.Duration, decode int, reason string) {
	if c.decodes.down[decode] {
		return
	}
	c.decodes.down[decode] = true
	c.decodes.tellAll(func(s *scheduler.State) { s.SetAlive(decode, false) })
	for i := range c.flights {
		if f := &c.flights[i]; f.decode == decode && f.placed() {
			c.again(now, f, reason)
		}
	}
	if c.decodes.lost() {
		for i := range c.flights {
			if c.flights[i].stage == stageHeld {
				c.fail(&c.flights[i], noDecode)
			}
		}
	}
}
