package controller

import (
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
