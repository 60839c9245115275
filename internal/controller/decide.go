package controller

import (
	"fmt"
	"time"

	"github.com/netkvlab/netkvlab/scheduler"
)

// choose picks a decode instance for a request whose prefill has finished (or, with overlap,
// begun) and reserves memory there. Without a feasible instance the request is held, in order,
// until memory is freed.
func (c *Serving) choose(now time.Duration, f *flight) {
	r := c.shown(f)
	var t0 int64
	if c.cfg.Stopwatch != nil {
		t0 = c.cfg.Stopwatch()
	}
	t := c.tenantOf(f)
	d, ok := t.Scheduler.Pick(r, t.State)
	if c.cfg.Stopwatch != nil {
		f.decisionNanos += c.cfg.Stopwatch() - t0
	}
	if !ok {
		c.hold(f)
		return
	}
	t.State.Begin(r, d)
	f.decision, f.decode, f.hasDecode, f.released = d, d.Decode, true, false
	f.attempt++
	f.stage = stageReserving
	t.booked[d.Decode] += c.need(f)
	c.act(Action{
		Kind: DoReserve, Request: f.req.ID, Attempt: f.attempt, Prefill: f.prefill, Decode: d.Decode,
		Tokens: f.req.PromptTokens, OutputTokens: f.req.OutputTokens, Blocks: f.req.Blocks,
	})
	c.expect(f, now, 0)
}

// shown is what the scheduler sees of a request, until the next call.
func (c *Serving) shown(f *flight) *scheduler.Request {
	r := &c.scratch
	r.Prefill, r.PromptTokens, r.OutputTokens = f.prefill, f.req.PromptTokens, f.req.OutputTokens
	r.Blocks, r.TieBreak = f.req.Blocks, f.req.TieBreak
	return r
}

// hold keeps a request that no instance can take now. If none will ever be able to, the request
// fails.
func (c *Serving) hold(f *flight) {
	t := c.tenantOf(f)
	if need, have := t.State.Footprint(c.shown(f)), t.State.Usable(); need > have {
		c.fail(f, fmt.Sprintf("needs %d bytes of KV memory in whole blocks, an instance has %d", need, have))
		return
	}
	if !c.anyDecodeUp() {
		c.fail(f, "no decode instance is up")
		return
	}
	f.stage = stageHeld
	t.held = append(t.held, f.req.ID)
}

func (c *Serving) anyDecodeUp() bool {
	for _, down := range c.downD {
		if !down {
			return true
		}
	}
	return false
}

// retryHeld tries held requests again, oldest first, as long as they fit. A request that does
// not fit keeps its place, and the later ones of its tenant wait.
func (c *Serving) retryHeld(now time.Duration) {
	for i := range c.tenants {
		c.tenants[i].blocked = false
	}
	for t := c.oldestHeld(); t != nil; t = c.oldestHeld() {
		f := &c.flights[t.held[0]]
		t.held = t.held[1:]
		if f.stage != stageHeld {
			continue
		}
		c.choose(now, f)
		if f.stage == stageHeld { // hold has put it at the end
			t.held = append([]int{f.req.ID}, t.held[:len(t.held)-1]...)
			t.blocked = true
		}
	}
}

// stuck fails the held requests when nothing can help them any more: all others have ended, and
// the instances are idle with all their memory free.
func (c *Serving) stuck() {
	held := c.heldCount()
	if held == 0 || c.next < len(c.flights) || c.ended+held < len(c.flights) {
		return
	}
	for d, down := range c.downD {
		if !down && (c.bookedAt(d) || c.free[d] < c.tenants[0].State.Usable()) {
			return
		}
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

// need is the memory that the scheduler's state subtracts from an instance's free memory for a
// reservation.
func (c *Serving) need(f *flight) int64 {
	return int64(f.req.PromptTokens-f.decision.HitTokens+f.req.OutputTokens) * c.cfg.KVBytesPerToken
}

// setFree gives an instance's report of its free memory to all tenants. Each subtracts its own
// reservations that are not answered yet. It does not know those of the others.
func (c *Serving) setFree(d int, reported int64) {
	if c.downD[d] || reported < 0 {
		return
	}
	c.free[d] = reported
	for i := range c.tenants {
		t := &c.tenants[i]
		t.State.SetFree(d, reported-t.booked[d])
	}
}

func (c *Serving) onReserved(now time.Duration, ev Event) {
	f := c.live(ev, stageReserving)
	if f == nil {
		return
	}
	c.tenantOf(f).booked[f.decode] -= c.need(f)
	c.setFree(f.decode, ev.FreeBytes)
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
	f.stage, f.startIssued, f.senderStart = stageTransfer, now, nothing
	a := c.transfer(f)
	// On a full prefix hit no bytes wait for the prefill, but the first token does.
	f.unsent = a.Pieces > 0 && len(a.Streams) == 0
	if !f.unsent {
		c.act(a)
	}
	c.expect(f, max(now, a.ReleaseTo), c.cfg.TransferTimeout)
}

// transfer returns the action that moves a payload; with overlap its pieces leave as they are
// computed.
func (c *Serving) transfer(f *flight) Action {
	a := Action{
		Kind: DoTransfer, Request: f.req.ID, Attempt: f.attempt, Prefill: f.prefill, Decode: f.decode,
		Streams: c.streams(f),
	}
	if c.cfg.OverlapPieces != nil && !f.computed {
		a.Pieces = c.cfg.OverlapPieces(f.req.PromptTokens)
		a.ReleaseFrom = f.started
		a.ReleaseTo = f.started + c.cfg.Prefill.Model.Prefill(f.req.PromptTokens)
	}
	return a
}

// streams splits the payload; a full prefix hit needs no streams.
func (c *Serving) streams(f *flight) []Stream {
	if f.emulated == 0 {
		return nil
	}
	paths := uint64(max(1, c.cfg.Paths(f.prefill, f.decode)))
	return splitStreams(f.emulated, f.payload, c.cfg.Streams, func(s int) (nic, path int) {
		draw := f.req.PathDraws[s]
		if c.cfg.Sticky {
			draw = uint64(f.prefill*len(c.cfg.DecodeNames)+f.decode) + uint64(s)
		}
		return s % c.cfg.NICs, int(draw % paths)
	})
}
