// Package results is the format of the run folder (docs/results.md): one Record per request, the
// Summary of them, which package analysis computes, and the files that hold both.
//
// What cannot be known is absent, never 0 or NaN. Counts obey submitted = completed + failed + incomplete.
// Times are paper time in milliseconds and bytes are paper bytes, unless a name ends in emulated.
//
// A Writer is safe for concurrent use; all other types are plain data. Start reading at Record,
// then Create.
package results

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Record is one line of requests.jsonl: one request (or explicit flow) in one world under one
// policy and seed. Times are paper units, in milliseconds.
// ttft = prefill_wait + prefill + reserve + transfer + decode_wait + first_step.
type Record struct {
	World  string `json:"world"` // packet | flow | replay
	Policy string `json:"policy"`
	Seed   uint64 `json:"seed"`
	ID     int    `json:"id"`
	Status string `json:"status"`           // completed, failed, or incomplete (the run was cut off)
	Reason string `json:"reason,omitempty"` // why it failed or is incomplete

	ArrivalMS    float64 `json:"arrival_ms"`
	PromptTokens int     `json:"prompt_tokens,omitempty"`
	OutputTokens int     `json:"output_tokens,omitempty"`
	HitTokens    int     `json:"hit_tokens"`
	Tenant       int     `json:"tenant,omitempty"` // from 1; 0, left out, with one tenant

	Prefill  string `json:"prefill,omitempty"` // instance names
	Decode   string `json:"decode,omitempty"`
	Tier     int    `json:"tier"` // -1 when no decode instance was chosen
	Attempts int    `json:"attempts"`

	PrefillWaitMS float64  `json:"prefill_wait_ms"`
	PrefillMS     float64  `json:"prefill_ms"`
	ReserveMS     float64  `json:"reserve_ms"` // from prefill completion to the transfer's start: decision, reservation, failed attempts
	TransferMS    float64  `json:"transfer_ms"`
	DecodeWaitMS  float64  `json:"decode_wait_ms"`
	FirstStepMS   float64  `json:"first_step_ms"`
	TTFTMS        *float64 `json:"ttft_ms,omitempty"` // absent when there was no first token
	TBTMS         *float64 `json:"tbt_ms,omitempty"`  // mean time between tokens; absent with fewer than two
	FinishMS      *float64 `json:"finish_ms,omitempty"`
	DecisionUS    float64  `json:"decision_us"` // wall time of the decode decision

	PayloadBytes         int64 `json:"payload_bytes"`          // effective payload in paper units
	PayloadBytesEmulated int64 `json:"payload_bytes_emulated"` // to send over the emulated fabric
	MovedBytesEmulated   int64 `json:"moved_bytes_emulated"`   // what the receiver counted
	WastedBytesEmulated  int64 `json:"wasted_bytes_emulated"`  // of failed attempts

	TransferStartMS float64        `json:"transfer_start_ms,omitempty"`
	Streams         []StreamRecord `json:"streams,omitempty"`
	Retransmits     int            `json:"retransmits"`
}

// TransferEndMS is when the last byte arrived, since the trial's start. With overlap transfer_ms is
// only the part after the prefill, so the end is computed from the earlier parts too, if there are any.
func (r *Record) TransferEndMS() float64 {
	return max(r.TransferStartMS, r.ArrivalMS+r.PrefillWaitMS+r.PrefillMS+r.ReserveMS) + r.TransferMS
}

// StreamRecord is one TCP connection's part of a transfer.
type StreamRecord struct {
	SourcePort int      `json:"sport"`
	NIC        int      `json:"nic"`            // which of the sender's NICs, 0-based
	Slot       int      `json:"slot"`           // which equal-cost path, 0-based
	Path       []string `json:"path,omitempty"` // node names from source to destination
	// BackSlot and BackPath are the path of the acknowledgements from destination to source; absent if not known.
	BackSlot    *int     `json:"back_slot,omitempty"`
	BackPath    []string `json:"back_path,omitempty"`
	Bytes       int64    `json:"bytes_emulated"`
	FirstMS     float64  `json:"first_ms"` // first byte at the receiver, after the transfer's start
	LastMS      float64  `json:"last_ms"`
	Retransmits int      `json:"retransmits"`
}

// LinkSample is one line of links.csv: one direction of a link, seen at one moment.
type LinkSample struct {
	TimeMS        float64 // paper time since the trial's start
	World, Policy string
	Seed          uint64
	Link          string // "tor0-0>agg0-1" or any name that is unique in the plan
	Direction     string // up (away from the hosts) or down
	// BytesEmulated is since the trial's start: of frames in the packet world, of payload in the flow world.
	BytesEmulated int64
	Utilization   float64 // the share of the link's rate used since the previous sample, 0..1
	Drops         int64   // packets dropped since the trial's start; 0 in the flow world
	BacklogBytes  int64   // what waits in the port's queue at this time
	Marks         int64   // packets marked (ECN) since the trial's start; 0 where queues only drop
}

// MS converts a duration to the milliseconds of a Record.
func MS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

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
	r.checkCounts(add)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", r.Key(), err)
	}
	return nil
}

// HasEngine is false for explicit flows: they have no tokens, and so neither TTFT, TBT nor SLO.
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
	finite := func(name string, v float64) {
		if !(v >= 0) || math.IsInf(v, 0) {
			add("%s is %g: want a finite number, 0 or more", name, v)
		}
	}
	finite("prefill_wait_ms", r.PrefillWaitMS)
	finite("prefill_ms", r.PrefillMS)
	finite("reserve_ms", r.ReserveMS)
	finite("transfer_ms", r.TransferMS)
	finite("decode_wait_ms", r.DecodeWaitMS)
	finite("first_step_ms", r.FirstStepMS)
	finite("arrival_ms", r.ArrivalMS)
	finite("decision_us", r.DecisionUS)
	finite("transfer_start_ms", r.TransferStartMS)
	if t := r.TTFTMS; t != nil {
		sum := r.PrefillWaitMS + r.PrefillMS + r.ReserveMS + r.TransferMS + r.DecodeWaitMS + r.FirstStepMS
		if !(*t > 0) || math.IsInf(*t, 0) {
			add("ttft_ms is %g: want a finite number above 0", *t)
		} else if math.Abs(sum-*t) > toleranceMS {
			add("parts add up to %.6f ms, ttft_ms is %.6f", sum, *t)
		}
	}
	if t := r.TBTMS; t != nil {
		finite("tbt_ms", *t)
		if r.OutputTokens < 2 {
			add("tbt_ms of an answer of %d tokens: there is no time between tokens", r.OutputTokens)
		}
	}
	if t := r.FinishMS; t != nil && !(*t >= r.ArrivalMS-toleranceMS && !math.IsInf(*t, 0)) {
		add("finish_ms is %g, before arrival_ms %g", *t, r.ArrivalMS)
	}
}

func (r *Record) checkCounts(add func(string, ...any)) {
	notNegative := func(name string, n int64) {
		if n < 0 {
			add("%s is %d: want 0 or more", name, n)
		}
	}
	notNegative("payload_bytes", r.PayloadBytes)
	notNegative("payload_bytes_emulated", r.PayloadBytesEmulated)
	notNegative("moved_bytes_emulated", r.MovedBytesEmulated)
	notNegative("wasted_bytes_emulated", r.WastedBytesEmulated)
	notNegative("retransmits", int64(r.Retransmits))
}
