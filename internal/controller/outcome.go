package controller

import (
	"fmt"
	"time"

	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/scheduler"
)

func (c *Serving) onSent(ev Event) {
	if ev.Request < 0 || ev.Request >= len(c.flights) {
		return
	}
	f := &c.flights[ev.Request]
	if ev.Attempt != f.attempt {
		return
	}
	f.senderStart = ev.Start
	for _, s := range ev.Streams {
		mergeStream(&f.streams, s).Retransmits = s.Retransmits
	}
}

func (c *Serving) onTransferDone(ev Event) {
	f := c.live(ev, stageTransfer)
	if f == nil {
		return
	}
	f.moved = ev.BytesEmulated
	f.transferDone, f.stage = ev.At, stageWaiting
	c.showArrived(f)
	for _, s := range ev.Streams {
		r := mergeStream(&f.streams, s)
		r.Bytes, r.FirstMS, r.LastMS = s.BytesEmulated, results.MS(s.First), results.MS(s.Last)
	}
	c.release(f)
}

// release decrements n_inflight, once per attempt.
func (c *Serving) release(f *flight) {
	if f.hasDecode && !f.released {
		f.released = true
		c.tenantOf(f).State.TransferEnded(f.prefill, f.decode, f.decision.Tier)
	}
}

// abandon removes a request from the state of its chosen decode instance.
func (c *Serving) abandon(f *flight) {
	if !f.hasDecode {
		return
	}
	c.release(f)
	switch f.stage {
	case stageReserving, stageTransfer: // no other tenant knows it
		c.tenantOf(f).State.Abandoned(f.decode, f.req.PromptTokens)
	case stageWaiting:
		c.tellAll(func(s *scheduler.State) { s.Abandoned(f.decode, f.req.PromptTokens) })
	case stageDecoding:
		c.tellAll(func(s *scheduler.State) { s.Finished(f.decode, f.req.PromptTokens) })
	}
	f.hasDecode, f.stage = false, stageHeld
}

func (c *Serving) onDecode(now time.Duration, ev Event) {
	switch ev.Kind {
	case Admitted:
		if f := c.live(ev, stageWaiting); f != nil {
			f.admitted, f.stage = ev.At, stageDecoding
			c.tellAll(func(s *scheduler.State) { s.Admitted(f.decode, f.req.PromptTokens) })
		}
	case FirstToken:
		if f := c.live(ev, stageDecoding); f != nil {
			f.firstToken = ev.At
		}
	case Finished:
		f := c.live(ev, stageDecoding)
		if f == nil {
			return
		}
		f.finished = ev.At
		c.tellAll(func(s *scheduler.State) { s.Finished(f.decode, f.req.PromptTokens) })
		f.hasDecode = false
		c.setFree(f.decode, ev.FreeBytes)
		c.end(f, stageCompleted, "")
		c.retryHeld(now)
	}
}

func (c *Serving) end(f *flight, s stage, reason string) {
	f.stage, f.reason = s, reason
	c.ended++
}

// fail ends a request for good and removes it from all state.
func (c *Serving) fail(f *flight, reason string) {
	if f.stage >= stageCompleted {
		return
	}
	c.giveUp(f, reason)
	c.end(f, stageFailed, reason)
}

// giveUp cancels all work on the request's current attempt.
func (c *Serving) giveUp(f *flight, reason string) {
	if f.stage == stageReserving {
		c.tenantOf(f).booked[f.decode] -= c.need(f)
	}
	if f.hasDecode && !c.downD[f.decode] {
		c.act(Action{Kind: DoCancelDecode, Request: f.req.ID, Attempt: f.attempt, Decode: f.decode, Reason: reason})
	}
	// With overlap the prompt may still be computing in any stage before the last byte.
	busy := f.stage == stagePrefill || f.stage == stageTransfer || !f.computed && (f.stage == stageHeld || f.stage == stageReserving)
	if f.prefill >= 0 && !c.pool.down[f.prefill] && busy {
		c.act(Action{Kind: DoCancelPrefill, Request: f.req.ID, Attempt: f.attempt, Prefill: f.prefill, Reason: reason})
	}
	f.wasted += f.moved
	f.moved = 0
	f.streams = nil
	c.abandon(f)
}

// again retries a request whose attempt failed, elsewhere if the policy says so.
func (c *Serving) again(now time.Duration, f *flight, reason string) {
	c.giveUp(f, reason)
	if f.retries >= c.cfg.Retries {
		f.hasDecode = false
		c.end(f, stageFailed, fmt.Sprintf("%s (attempt %d of %d)", reason, f.retries+1, c.cfg.Retries+1))
		return
	}
	f.retries++
	f.transferDone, f.admitted, f.firstToken = nothing, nothing, nothing
	if !f.computed || c.pool.down[f.prefill] {
		f.started, f.prefilled = nothing, nothing
		c.startPrefill(now, now, f)
		return
	}
	c.choose(now, f)
}

func (c *Serving) onFailed(now time.Duration, ev Event) {
	f := c.live(ev, stagePrefill, stageReserving, stageTransfer, stageWaiting, stageDecoding)
	if f == nil {
		return
	}
	if ev.BySender && (f.stage == stageWaiting || f.stage == stageDecoding) {
		return // the receiver counted every byte; only its acknowledgement was lost
	}
	f.moved = max(f.moved, ev.BytesEmulated)
	c.again(now, f, ev.Reason)
}

func (c *Serving) onPrefillDown(now time.Duration, ev Event) {
	if c.pool.down[ev.Prefill] {
		return
	}
	c.pool.down[ev.Prefill] = true
	for i := range c.flights {
		f := &c.flights[i]
		if f.prefill != ev.Prefill {
			continue
		}
		switch f.stage {
		case stagePrefill, stageHeld, stageReserving, stageTransfer:
			c.again(now, f, ev.Reason)
		}
	}
}

func (c *Serving) onDecodeDown(now time.Duration, ev Event) {
	if c.downD[ev.Decode] {
		return
	}
	c.downD[ev.Decode] = true
	c.tellAll(func(s *scheduler.State) { s.SetAlive(ev.Decode, false) })
	for i := range c.flights {
		f := &c.flights[i]
		if f.decode != ev.Decode || !f.hasDecode {
			continue
		}
		switch f.stage {
		case stageReserving, stageTransfer, stageWaiting, stageDecoding:
			c.again(now, f, ev.Reason)
		}
	}
	if !c.anyDecodeUp() {
		for i := range c.flights {
			if c.flights[i].stage == stageHeld {
				c.fail(&c.flights[i], "no decode instance is up")
			}
		}
	}
}

// Cut implements Driver.
func (c *Serving) Cut(_ time.Duration, reason string) {
	for i := range c.flights {
		f := &c.flights[i]
		if f.stage < stageCompleted {
			c.abandon(f)
			c.end(f, stageIncomplete, reason)
		}
	}
}
