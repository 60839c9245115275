package results

import "time"

// Record is one line of requests.jsonl: one request (or explicit flow) in one
// world under one policy and seed. Times are paper units, in milliseconds.
// ttft = prefill_wait + prefill + reserve + transfer + decode_wait + first_step.
type Record struct {
	World  string `json:"world"` // packet | flow | replay
	Policy string `json:"policy"`
	Seed   uint64 `json:"seed"`
	ID     int    `json:"id"`
	// Status is completed, failed, or incomplete (the run was cut off).
	Status string `json:"status"`
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

// TransferEndMS is when the last byte arrived, since the trial's start. With overlap transfer_ms
// is only the part after the prefill, so the end is computed from the earlier parts too.
// Explicit flows have no such parts.
func (r *Record) TransferEndMS() float64 {
	return max(r.TransferStartMS, r.ArrivalMS+r.PrefillWaitMS+r.PrefillMS+r.ReserveMS) + r.TransferMS
}

// StreamRecord is one TCP connection's part of a transfer.
type StreamRecord struct {
	SourcePort int      `json:"sport"`
	NIC        int      `json:"nic"`            // which of the sender's NICs, 0-based
	Slot       int      `json:"slot"`           // which equal-cost path, 0-based
	Path       []string `json:"path,omitempty"` // node names from source to destination
	// BackSlot and BackPath are the path of the acknowledgements, from destination to source: the
	// number of the equal-cost path, and its nodes. Absent if not known.
	BackSlot    *int     `json:"back_slot,omitempty"`
	BackPath    []string `json:"back_path,omitempty"`
	Bytes       int64    `json:"bytes_emulated"`
	FirstMS     float64  `json:"first_ms"` // first byte at the receiver, after the transfer's start
	LastMS      float64  `json:"last_ms"`
	Retransmits int      `json:"retransmits"`
}

// MS converts a duration to the milliseconds of a Record.
func MS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
