package controller

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"time"

	"github.com/netkvlab/netkvlab/scheduler"
)

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
