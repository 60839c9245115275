package controller

import (
	"fmt"
	"time"

	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/scheduler"
)

// stage is the state of a request.
type stage uint8

const (
	stageFuture     stage = iota // has not arrived
	stagePrefill                 // at a prefill instance
	stageHeld                    // prefilled, no decode instance feasible
	stageReserving               // a decode instance was asked for memory
	stageTransfer                // bytes are moving
	stageWaiting                 // all bytes arrived, not in the batch
	stageDecoding                // in the batch
	stageCompleted               // all tokens
	stageFailed                  // ended without all tokens
	stageIncomplete              // the trial was cut off
)

// flight is one request's state.
type flight struct {
	req     *workload.Request
	stage   stage
	attempt int // of reservation and transfer, from 1
	retries int // attempts that failed
	order   int // number of the latest deadline (watch)
	refused int // reservations refused since the last successful one

	prefill, decode int
	decision        scheduler.Decision
	hasDecode       bool // a decision is counted in the scheduler's state

	computed     bool // the prefill has finished
	unsent       bool // no bytes to move; the transfer is reported when the prefill has finished
	payload      int64
	emulated     int64
	startIssued  time.Duration // when the transfer was requested
	released     bool          // n_inflight was decremented
	transferDone time.Duration
	admitted     time.Duration
	started      time.Duration
	prefilled    time.Duration
	senderStart  time.Duration
	firstToken   time.Duration
	finished     time.Duration

	moved, wasted int64
	streams       []results.StreamRecord
	decisionNanos int64
	reason        string
}

// Serving is the Driver of a serving trial.
type Serving struct {
	cfg      Config
	pool     *prefillPool
	flights  []flight
	next     int // first request that has not arrived
	ended    int
	tenants  []tenant
	deadline time.Duration

	watches watchHeap
	free    []int64 // per decode: as last reported
	downD   []bool
	actions []Action
	scratch scheduler.Request
}

var _ Driver = (*Serving)(nil)

// NewServing checks the configuration and returns the trial at time 0.
func NewServing(cfg Config) (*Serving, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	pool, err := newPrefillPool(len(cfg.PrefillNames), cfg.Prefill)
	if err != nil {
		return nil, err
	}
	d := len(cfg.DecodeNames)
	c := &Serving{
		cfg: cfg, pool: pool, flights: make([]flight, len(cfg.Requests)),
		tenants: newTenants(cfg.Tenants, d), free: make([]int64, d), downD: make([]bool, d),
	}
	for i := range c.free {
		c.free[i] = cfg.MemoryBytes
	}
	var last time.Duration
	for i := range cfg.Requests {
		r := &cfg.Requests[i]
		c.flights[i] = flight{
			req: r, prefill: -1, decode: -1, startIssued: nothing, transferDone: nothing, admitted: nothing,
			started: nothing, prefilled: nothing, senderStart: nothing, firstToken: nothing, finished: nothing,
		}
		last = r.Arrival
	}
	c.deadline = last + cfg.Drain
	return c, nil
}

// Next implements Driver.
func (c *Serving) Next() (time.Duration, bool) {
	at, ok := c.nextWatch()
	if c.next < len(c.flights) {
		return earlier(at, ok, c.flights[c.next].req.Arrival), true
	}
	if c.ended < len(c.flights) && c.cfg.Drain > 0 {
		return earlier(at, ok, c.deadline), true
	}
	return at, ok
}

func earlier(at time.Duration, ok bool, other time.Duration) time.Duration {
	if ok && at < other {
		return at
	}
	return other
}

// Done implements Driver.
func (c *Serving) Done() bool { return c.ended == len(c.flights) }

// Progress implements Driver.
func (c *Serving) Progress() (ended, total int) { return c.ended, len(c.flights) }

// Wake implements Driver: requests whose time has come arrive.
func (c *Serving) Wake(now time.Duration) []Action {
	c.actions = c.actions[:0]
	for c.next < len(c.flights) && c.flights[c.next].req.Arrival <= now {
		f := &c.flights[c.next]
		c.next++
		c.startPrefill(now, f.req.Arrival, f)
	}
	c.overdue(now)
	if c.next == len(c.flights) && c.cfg.Drain > 0 && now >= c.deadline && !c.Done() {
		for i := range c.flights {
			c.fail(&c.flights[i], fmt.Sprintf("not finished %v after the last arrival", c.cfg.Drain))
		}
	}
	c.stuck()
	return c.actions
}

// startPrefill sends a prompt to the least loaded prefill instance. The choice is made for the
// time of arrival, not of the wake-up: a late wake-up must not change it. The instance's
// deadline counts from now.
func (c *Serving) startPrefill(now, at time.Duration, f *flight) {
	if f.prefill >= 0 {
		c.pool.forget(f.prefill, at, f.req) // a prompt that was cancelled
	}
	p, ok := c.pool.choose(at, f.req)
	if !ok {
		c.fail(f, "no prefill instance is up")
		return
	}
	f.prefill, f.stage, f.computed = p, stagePrefill, false
	c.act(Action{Kind: DoPrefill, Request: f.req.ID, Attempt: f.attempt, Prefill: p, Tokens: f.req.PromptTokens})
	c.expect(f, now, c.pool.finish(p, now, f.req.PromptTokens)-now)
}

func (c *Serving) act(a Action) { c.actions = append(c.actions, a) }

// live finds the request of an event. It returns nil if the request has ended or the event
// belongs to an attempt that was given up.
func (c *Serving) live(ev Event, stages ...stage) *flight {
	if ev.Request < 0 || ev.Request >= len(c.flights) {
		return nil
	}
	f := &c.flights[ev.Request]
	for _, s := range stages {
		if f.stage == s && (s == stagePrefill || ev.Attempt == f.attempt) {
			return f
		}
	}
	return nil
}

// Handle implements Driver.
func (c *Serving) Handle(now time.Duration, ev Event) []Action {
	c.actions = c.actions[:0]
	switch ev.Kind {
	case PrefillStarted:
		c.onPrefillStarted(now, ev)
	case PrefillDone:
		c.onPrefillDone(now, ev)
	case Reserved:
		c.onReserved(now, ev)
	case TransferSent:
		c.onSent(ev)
	case TransferDone:
		c.onTransferDone(ev)
	case Admitted, FirstToken, Finished:
		c.onDecode(now, ev)
	case Failed:
		c.onFailed(now, ev)
	case CacheChanged:
		if !c.downD[ev.Decode] {
			c.tellAll(func(s *scheduler.State) {
				s.Stored(ev.Decode, ev.Stored)
				s.Evicted(ev.Decode, ev.Evicted)
			})
			c.setFree(ev.Decode, ev.FreeBytes)
			c.retryHeld(now)
		}
	case PrefillDown:
		c.onPrefillDown(now, ev)
	case DecodeDown:
		c.onDecodeDown(now, ev)
	case Congestion:
		c.tellAll(func(s *scheduler.State) { s.SetCongestion(ev.Congestion) })
	}
	c.stuck()
	return c.actions
}

func (c *Serving) onPrefillStarted(now time.Duration, ev Event) {
	f := c.live(ev, stagePrefill)
	if f == nil || f.prefill != ev.Prefill {
		return
	}
	f.started = ev.At
	if c.cfg.OverlapPieces != nil {
		c.choose(now, f)
	}
}

func (c *Serving) onPrefillDone(now time.Duration, ev Event) {
	f := c.live(ev, stagePrefill, stageHeld, stageReserving, stageTransfer)
	if c.cfg.OverlapPieces != nil && f == nil && ev.Request >= 0 && ev.Request < len(c.flights) {
		f = &c.flights[ev.Request] // the attempt counter has changed since the prefill was requested
	}
	if f == nil || f.prefill != ev.Prefill || f.stage >= stageCompleted {
		return
	}
	f.prefilled, f.computed = ev.At, true
	switch {
	case f.stage == stagePrefill:
		c.choose(now, f)
	case f.stage == stageTransfer && f.unsent:
		f.unsent, f.startIssued = false, now
		c.act(c.transfer(f))
	}
}
