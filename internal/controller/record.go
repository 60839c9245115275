package controller

import (
	"slices"
	"time"

	"github.com/netkvlab/netkvlab/internal/results"
)

var statusOf = map[stage]string{
	stageCompleted: results.Completed, stageFailed: results.Failed,
}

// Records implements Driver.
func (c *Serving) Records() []results.Record {
	out := make([]results.Record, len(c.flights))
	for i := range c.flights {
		out[i] = c.record(&c.flights[i])
	}
	return out
}

func (c *Serving) record(f *flight) results.Record {
	r := results.Record{
		World: c.cfg.World, Policy: c.cfg.Policy, Seed: c.cfg.Seed, ID: f.req.ID,
		Status: statusOf[f.stage], Reason: f.reason,
		ArrivalMS: results.MS(f.req.Arrival), PromptTokens: f.req.PromptTokens, OutputTokens: f.req.OutputTokens,
		Tier: -1, Attempts: f.attempt, DecisionUS: float64(f.decisionNanos) / 1e3,
		MovedBytesEmulated: f.moved, WastedBytesEmulated: f.wasted,
		Streams: slices.Clone(f.streams),
	}
	if r.Status == "" {
		r.Status = results.Incomplete
		if r.Reason == "" {
			r.Reason = "in progress"
		}
	}
	if len(c.tenants) > 1 {
		r.Tenant = f.req.Tenant + 1
	}
	if f.prefill >= 0 {
		r.Prefill = c.cfg.PrefillNames[f.prefill]
	}
	if f.attempt > 0 {
		r.Decode, r.Tier = c.cfg.DecodeNames[f.decode], f.decision.Tier
		r.HitTokens = f.decision.HitTokens
		r.PayloadBytes, r.PayloadBytesEmulated = f.payload, f.emulated
	}
	for _, s := range f.streams {
		r.Retransmits += s.Retransmits
	}
	c.recordTimes(&r, f)
	return r
}

// recordTimes splits the time to first token into parts that add up to it exactly. With overlap
// the transfer's visible part starts when the prefill ends.
func (c *Serving) recordTimes(r *results.Record, f *flight) {
	start := f.senderStart
	if start == nothing {
		start = f.startIssued
	}
	if start != nothing {
		r.TransferStartMS = results.MS(start)
		for i := range r.Streams {
			r.Streams[i].FirstMS -= r.TransferStartMS
			r.Streams[i].LastMS -= r.TransferStartMS
		}
	}
	visible := max(start, f.prefilled)
	marks := []struct {
		to   time.Duration
		into *float64
	}{
		{f.started, &r.PrefillWaitMS}, {f.prefilled, &r.PrefillMS}, {visible, &r.ReserveMS},
		{f.transferDone, &r.TransferMS}, {f.admitted, &r.DecodeWaitMS}, {f.firstToken, &r.FirstStepMS},
	}
	from := f.req.Arrival
	for _, m := range marks {
		if m.to == nothing {
			return
		}
		*m.into = results.MS(m.to - from)
		from = m.to
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
