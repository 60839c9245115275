package results

import (
	"errors"
	"fmt"
	"math"
)

// toleranceMS is the largest difference between a time and the sum of its parts: 1 us.
const toleranceMS = 0.001

// Key identifies a record in a run.
func (r *Record) Key() string {
	return fmt.Sprintf("%s/%s/seed %d/request %d", r.World, r.Policy, r.Seed, r.ID)
}

// Check returns an error for every law of Record that r breaks, joined, or nil. The laws are: a
// known status, a reason if it did not complete, finite non-negative times, parts that add up to
// the TTFT within 1 us, no time between tokens for an answer of one token, and the due number of
// bytes at the receiver.
func (r *Record) Check() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch r.Status {
	case Completed:
		r.checkCompleted(add)
	case Failed, Incomplete:
		if r.Reason == "" {
			add("status %s without a reason", r.Status)
		}
	default:
		add("status %q: want %s, %s or %s", r.Status, Completed, Failed, Incomplete)
	}
	if r.World == "" || r.Policy == "" {
		add("world %q and policy %q must both be named", r.World, r.Policy)
	}
	if r.Tier < -1 || r.Tier > 3 {
		add("tier %d: want -1 (none) to 3", r.Tier)
	}
	r.checkTimes(add)
	r.checkBytes(add)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", r.Key(), err)
	}
	return nil
}

// HasEngine reports whether an engine served the record. Explicit flows have no
// tokens, and so neither TTFT, TBT nor SLO.
func (r *Record) HasEngine() bool { return r.PromptTokens > 0 }

func (r *Record) checkCompleted(add func(string, ...any)) {
	if r.Tier < 0 {
		add("completed without a decode instance (tier %d)", r.Tier)
	}
	if r.HasEngine() && r.TTFTMS == nil {
		add("completed without a ttft_ms")
	}
	if r.MovedBytesEmulated != r.PayloadBytesEmulated {
		add("the receiver counted %d emulated bytes, %d were due", r.MovedBytesEmulated, r.PayloadBytesEmulated)
	}
}

func (r *Record) checkTimes(add func(string, ...any)) {
	parts := []struct {
		name  string
		value float64
	}{
		{"prefill_wait_ms", r.PrefillWaitMS},
		{"prefill_ms", r.PrefillMS},
		{"reserve_ms", r.ReserveMS},
		{"transfer_ms", r.TransferMS},
		{"decode_wait_ms", r.DecodeWaitMS},
		{"first_step_ms", r.FirstStepMS},
		{"arrival_ms", r.ArrivalMS},
		{"decision_us", r.DecisionUS},
		{"transfer_start_ms", r.TransferStartMS},
	}
	var sum float64
	for i, p := range parts {
		if !(p.value >= 0) || math.IsInf(p.value, 0) {
			add("%s is %g: want a finite number, 0 or more", p.name, p.value)
		}
		if i < 6 { // the parts of the TTFT
			sum += p.value
		}
	}
	if t := r.TTFTMS; t != nil {
		if !(*t > 0) || math.IsInf(*t, 0) {
			add("ttft_ms is %g: want a finite number above 0", *t)
		} else if math.Abs(sum-*t) > toleranceMS {
			add("parts add up to %.6f ms, ttft_ms is %.6f", sum, *t)
		}
	}
	if t := r.TBTMS; t != nil {
		if !(*t >= 0) || math.IsInf(*t, 0) {
			add("tbt_ms is %g: want a finite number, 0 or more", *t)
		}
		if r.OutputTokens < 2 {
			add("tbt_ms of an answer of %d tokens: there is no time between tokens", r.OutputTokens)
		}
	}
	if t := r.FinishMS; t != nil && !(*t >= r.ArrivalMS-toleranceMS && !math.IsInf(*t, 0)) {
		add("finish_ms is %g, before arrival_ms %g", *t, r.ArrivalMS)
	}
}

func (r *Record) checkBytes(add func(string, ...any)) {
	for _, b := range []struct {
		name  string
		value int64
	}{
		{"payload_bytes", r.PayloadBytes},
		{"payload_bytes_emulated", r.PayloadBytesEmulated},
		{"moved_bytes_emulated", r.MovedBytesEmulated},
		{"wasted_bytes_emulated", r.WastedBytesEmulated},
		{"retransmits", int64(r.Retransmits)},
	} {
		if b.value < 0 {
			add("%s is %d: want 0 or more", b.name, b.value)
		}
	}
}
