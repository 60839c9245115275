package controller

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
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
	movement // of the current attempt

	req     *workload.Request
	shown   scheduler.Request // what the scheduler sees of it
	stage   stage
	attempt int // of reservation and transfer, from 1
	retries int // attempts that failed
	order   int // number of the latest deadline (watch)
	refused int // reservations refused since the last successful one

	prefill, decode int
	decision        scheduler.Decision
	computed        bool // the prefill has finished
	unsent          bool // no bytes to move; the transfer is reported when the prefill has finished

	payload, emulated int64
	wasted            int64 // emulated bytes that earlier attempts moved

	started, prefilled, transferDone, admitted, firstToken, finished time.Duration

	decisionNanos int64
	reason        string
}

func newFlight(r *workload.Request) flight {
	return flight{
		req:     r,
		shown:   scheduler.Request{PromptTokens: r.PromptTokens, OutputTokens: r.OutputTokens, Blocks: r.Blocks, TieBreak: r.TieBreak},
		prefill: -1, decode: -1, movement: movement{issued: nothing, sent: nothing}, started: nothing,
		prefilled: nothing, transferDone: nothing, admitted: nothing, firstToken: nothing, finished: nothing,
	}
}

// placed reports whether a decision is counted in the scheduler's state.
func (f *flight) placed() bool { return f.stage >= stageReserving && f.stage <= stageDecoding }

var statusOf = map[stage]string{stageCompleted: results.Completed, stageFailed: results.Failed}

// record is a request's record. Of an unfinished one it has what is known so far.
func (f *flight) record(cfg *Config) results.Record {
	r := results.Record{
		World: cfg.World, Policy: cfg.Policy, Seed: cfg.Seed, ID: f.req.ID, Status: statusOf[f.stage], Reason: f.reason,
		ArrivalMS: results.MS(f.req.Arrival), PromptTokens: f.req.PromptTokens, OutputTokens: f.req.OutputTokens,
		Tier: -1, Attempts: f.attempt, DecisionUS: float64(f.decisionNanos) / 1e3, WastedBytesEmulated: f.wasted,
	}
	if r.Status == "" {
		r.Status = results.Incomplete
		if r.Reason == "" {
			r.Reason = "in progress"
		}
	}
	if len(cfg.Tenants) > 1 {
		r.Tenant = f.req.Tenant + 1
	}
	if f.prefill >= 0 {
		r.Prefill = cfg.PrefillNames[f.prefill]
	}
	if f.attempt > 0 {
		r.Decode, r.Tier, r.HitTokens = cfg.DecodeNames[f.decode], f.decision.Tier, f.decision.HitTokens
		r.PayloadBytes, r.PayloadBytesEmulated = f.payload, f.emulated
	}
	f.recordTimes(&r, f.movement.record(&r))
	return r
}

// recordTimes splits the time to first token into parts that add up to it exactly. With overlap
// the transfer's visible part starts when the prefill ends.
func (f *flight) recordTimes(r *results.Record, transferStart time.Duration) {
	from := f.req.Arrival
	for _, mark := range []struct {
		to   time.Duration
		into *float64
	}{
		{f.started, &r.PrefillWaitMS}, {f.prefilled, &r.PrefillMS}, {max(transferStart, f.prefilled), &r.ReserveMS},
		{f.transferDone, &r.TransferMS}, {f.admitted, &r.DecodeWaitMS}, {f.firstToken, &r.FirstStepMS},
	} {
		if mark.to == nothing {
			return
		}
		*mark.into = results.MS(mark.to - from)
		from = mark.to
	}
	ttft := results.MS(f.firstToken - f.req.Arrival)
	r.TTFTMS = &ttft
	if f.finished == nothing {
		return
	}
	finish := results.MS(f.finished)
	r.FinishMS = &finish
	if f.req.OutputTokens > 1 {
		tbt := results.MS(f.finished-f.firstToken) / float64(f.req.OutputTokens-1)
		r.TBTMS = &tbt
	}
}

// dispatcher places the requests of a trial on the instances, and takes them away again.
type dispatcher struct {
	course
	cfg      Config
	prefills *prefillPool
	decodes  decodePool
	flights  []flight
	watches  watches
}

func (c *dispatcher) tenantOf(f *flight) *tenant { return &c.decodes.tenants[f.req.Tenant] }

// expect notes that a request must leave its stage within the given time.
func (c *dispatcher) expect(f *flight, from, within time.Duration) {
	if c.cfg.AnswerTimeout > 0 {
		f.order++
		heap.Push(&c.watches, watch{from + within + c.cfg.AnswerTimeout, f.req.ID, f.order, f.stage})
	}
}

// startPrefill sends a prompt to the least loaded prefill instance. The choice is made for the
// time of arrival, not of the wake-up: a late wake-up must not change it. The instance's
// deadline counts from now.
func (c *dispatcher) startPrefill(now, at time.Duration, f *flight) {
	if f.prefill >= 0 {
		c.prefills.forget(f.prefill, at, f.req) // a prompt that was cancelled
	}
	p, ok := c.prefills.choose(at, f.req)
	if !ok {
		c.fail(f, "no prefill instance is up")
		return
	}
	f.prefill, f.shown.Prefill, f.stage, f.computed = p, p, stagePrefill, false
	c.act(Action{Kind: DoPrefill, Request: f.req.ID, Attempt: f.attempt, Prefill: p, Tokens: f.req.PromptTokens})
	c.expect(f, now, c.prefills.finish(p, now, f.req.PromptTokens)-now)
}

// choose picks a decode instance for a request whose prefill has finished (or, with overlap,
// begun) and reserves memory there. Without a feasible instance the request is held, in order,
// until memory is freed.
func (c *dispatcher) choose(now time.Duration, f *flight) {
	r, t := &f.shown, c.tenantOf(f)
	start := c.cfg.Stopwatch()
	d, ok := t.Scheduler.Pick(r, t.State)
	f.decisionNanos += c.cfg.Stopwatch() - start
	if !ok {
		c.hold(f)
		return
	}
	t.State.Begin(r, d)
	f.decision, f.decode, f.stage = d, d.Decode, stageReserving
	f.attempt++
	t.booked[d.Decode] += c.cfg.need(f)
	c.act(Action{
		Kind: DoReserve, Request: f.req.ID, Attempt: f.attempt, Prefill: f.prefill, Decode: d.Decode,
		Tokens: f.req.PromptTokens, OutputTokens: f.req.OutputTokens, Blocks: f.req.Blocks,
	})
	c.expect(f, now, 0)
}

const noDecode = "no decode instance is up"

// hold keeps a request that no instance can take now. If none will ever be able to, the request
// fails.
func (c *dispatcher) hold(f *flight) {
	t := c.tenantOf(f)
	if need, have := t.State.Footprint(&f.shown), t.State.Usable(); need > have {
		c.fail(f, fmt.Sprintf("needs %d bytes of KV memory in whole blocks, an instance has %d", need, have))
		return
	}
	if c.decodes.lost() {
		c.fail(f, noDecode)
		return
	}
	f.stage = stageHeld
	t.held = append(t.held, f.req.ID)
}

// retryHeld tries held requests again, oldest first, as long as they fit. A request that does
// not fit keeps its place, and the later ones of its tenant wait.
func (c *dispatcher) retryHeld(now time.Duration) {
	for i := range c.decodes.tenants {
		c.decodes.tenants[i].blocked = false
	}
	for t := c.decodes.oldestHeld(); t != nil; t = c.decodes.oldestHeld() {
		f := &c.flights[t.held[0]]
		t.held = t.held[1:]
		if f.stage != stageHeld {
			continue
		}
		c.choose(now, f)
		if f.stage == stageHeld { // hold has put it at the end
			t.held = slices.Insert(t.held[:len(t.held)-1], 0, f.req.ID)
			t.blocked = true
		}
	}
}

// stuck fails the held requests when nothing can help them any more: all others have ended, and
// the instances are idle with all their memory free.
func (c *dispatcher) stuck() {
	held := c.decodes.held()
	if held == 0 || c.next < len(c.flights) || c.ended+held < len(c.flights) || !c.decodes.idle() {
		return
	}
	for i := range c.flights {
		if s := c.flights[i].stage; s < stageCompleted && s != stageHeld {
			return
		}
	}
	for i := range c.flights {
		c.fail(&c.flights[i], "no decode instance can take it, though all are idle: too little of engine.decode.memory is left above minFree")
	}
}

// abandon removes a request from the state of its chosen decode instance.
func (c *dispatcher) abandon(f *flight) {
	if !f.placed() {
		return
	}
	switch f.stage {
	case stageReserving, stageTransfer: // no other tenant knows it
		c.tenantOf(f).State.TransferEnded(f.prefill, f.decode, f.decision.Tier)
		c.tenantOf(f).State.Abandoned(f.decode, f.req.PromptTokens)
	case stageWaiting:
		c.decodes.tellAll(func(s *scheduler.State) { s.Abandoned(f.decode, f.req.PromptTokens) })
	case stageDecoding:
		c.decodes.tellAll(func(s *scheduler.State) { s.Finished(f.decode, f.req.PromptTokens) })
	}
	f.stage = stageHeld
}

func (c *dispatcher) end(f *flight, s stage, reason string) {
	f.stage, f.reason = s, reason
	c.ended++
}

// fail ends a request for good and removes it from all state.
func (c *dispatcher) fail(f *flight, reason string) {
	if f.stage < stageCompleted {
		c.giveUp(f, reason)
		c.end(f, stageFailed, reason)
	}
}

// giveUp cancels all work on the request's current attempt.
func (c *dispatcher) giveUp(f *flight, reason string) {
	if f.stage == stageReserving {
		c.tenantOf(f).booked[f.decode] -= c.cfg.need(f)
	}
	if f.placed() && !c.decodes.down[f.decode] {
		c.act(Action{Kind: DoCancelDecode, Request: f.req.ID, Attempt: f.attempt, Decode: f.decode, Reason: reason})
	}
	// With overlap the prompt may still be computing in any stage before the last byte.
	busy := f.stage == stagePrefill || f.stage == stageTransfer || !f.computed && (f.stage == stageHeld || f.stage == stageReserving)
	if busy && f.prefill >= 0 && !c.prefills.all[f.prefill].down {
		c.act(Action{Kind: DoCancelPrefill, Request: f.req.ID, Attempt: f.attempt, Prefill: f.prefill, Reason: reason})
	}
	f.wasted += f.moved
	f.moved, f.streams = 0, nil
	c.abandon(f)
}

// again retries a request whose attempt failed, elsewhere if the policy says so.
func (c *dispatcher) again(now time.Duration, f *flight, reason string) {
	c.giveUp(f, reason)
	if f.retries >= c.cfg.Retries {
		c.end(f, stageFailed, fmt.Sprintf("%s (attempt %d of %d)", reason, f.retries+1, c.cfg.Retries+1))
		return
	}
	f.retries++
	f.transferDone, f.admitted, f.firstToken = nothing, nothing, nothing
	if !f.computed || c.prefills.all[f.prefill].down {
		f.started, f.prefilled = nothing, nothing
		c.startPrefill(now, now, f)
		return
	}
	c.choose(now, f)
}

// watch is a deadline for an instance to answer an action. If a process hangs or a host stops,
// no connection breaks, so without a deadline its requests would wait for ever.
type watch struct {
	due     time.Duration
	request int
	order   int // only the request's latest deadline counts
	stage   stage
}

// watches sorts deadlines by due time, then request, so that the order of failures does not
// depend on the order of actions.
type watches []watch

func (h watches) Len() int { return len(h) }
func (h watches) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].due, h[j].due), cmp.Compare(h[i].request, h[j].request)) < 0
}
func (h watches) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *watches) Push(x any)   { *h = append(*h, x.(watch)) }
func (h *watches) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	*h = (*h)[:last]
	return w
}

// first drops deadlines that were met and returns the first open one.
func (h *watches) first(flights []flight) (w watch, ok bool) {
	for len(*h) > 0 {
		w := (*h)[0]
		if f := &flights[w.request]; f.stage == w.stage && f.order == w.order {
			return w, true
		}
		heap.Pop(h)
	}
	return watch{}, false
}

func (h watches) postpone(by time.Duration) {
	for i := range h {
		h[i].due += by // the same for all, so the heap stays ordered
	}
}
