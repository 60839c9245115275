package workload

import (
	"fmt"
	"strings"
	"time"
)

// Report says what was generated or read, and what was repaired. Show it to the user: a replay
// that cut, dropped or padded something must say so with its results.
type Report struct {
	Kind     string `json:"kind"` // synthetic | trace
	Requests int    `json:"requests"`
	// FirstArrival and LastArrival are paper time since the trial's start, in nanoseconds in JSON.
	FirstArrival time.Duration `json:"first_arrival_ns"`
	LastArrival  time.Duration `json:"last_arrival_ns"`
	// DistinctInstants counts the different arrival times after spreading.
	DistinctInstants int     `json:"distinct_instants"`
	MeanPromptTokens float64 `json:"mean_prompt_tokens"`
	MeanOutputTokens float64 `json:"mean_output_tokens"`
	// PromptsCut and OutputsCut count synthetic lengths that were cut to [min, max]: the more there
	// are, the further the mean is from the configured one.
	PromptsCut int `json:"prompts_cut"`
	OutputsCut int `json:"outputs_cut"`
	// SharedRequests and SharedBlocks count synthetic requests with a group
	// prefix of at least one block, and those blocks.
	SharedRequests int `json:"shared_requests"`
	SharedBlocks   int `json:"shared_blocks"`
	// Trace is set for traces only.
	Trace *TraceReport `json:"trace,omitempty"`
}

// TraceReport counts the contents of a trace file and its irregularities. The rule for each is
// stated at its field. A regular trace has zeros after Rows.
type TraceReport struct {
	File string `json:"file"`
	// Lines counts lines read, Rows the well-formed ones, of which Outside fell before the window.
	// Lines after the window's end or after the last wanted request are not read at all.
	Lines   int `json:"lines"`
	Rows    int `json:"rows"`
	Outside int `json:"outside_window"`
	// RateScale divided the gaps: 2 replays twice as fast.
	RateScale float64 `json:"rate_scale"`
	// Spread is the width of the seeded jitter, 0 when arrival times are the file's.
	Spread time.Duration `json:"spread_ns"`

	// BlankLines contain only white space and are ignored.
	BlankLines int `json:"blank_lines"`
	// BadLines were skipped because the scenario asked for it; BadExamples
	// are the first few messages.
	BadLines    int      `json:"bad_lines"`
	BadExamples []string `json:"bad_examples,omitempty"`
	// UnknownFields counts rows with fields that this format does not have; they are ignored.
	UnknownFields int `json:"rows_with_unknown_fields"`
	// EmptyPrompts are rows with input_length 0: they are dropped, since there is nothing to
	// prefill.
	EmptyPrompts int `json:"empty_prompts_dropped"`
	// ZeroOutputs are rows with output_length 0: raised to 1, since the KV cache is moved and there
	// is a first token.
	ZeroOutputs int `json:"zero_outputs_raised"`
	// WithoutIDs are rows whose hash_ids are absent, null or empty: they share no prefix.
	WithoutIDs int `json:"rows_without_ids"`
	// SurplusIDs are rows with more ids than blocks: the extra ids are dropped.
	SurplusIDs int `json:"rows_with_surplus_ids"`
	// MissingIDs are rows with fewer ids than blocks: the missing ones become ids that no other row
	// has.
	MissingIDs int `json:"rows_with_missing_ids"`
	// RepeatedIDs are rows with an id twice, which is impossible in a prefix: from the repetition
	// on, blocks get ids that no other row has.
	RepeatedIDs int `json:"rows_with_repeated_ids"`
	// PrefixConflicts are rows with an id that followed another block in an
	// earlier row, so that equal ids do not mean equal prefixes. They are kept as they are.
	PrefixConflicts int `json:"rows_with_prefix_conflicts"`
}

// Remarks describes a replayed trace for the reader of results: whether its instants were kept,
// and which irregularities it had and how they were treated. A synthetic workload has no
// remarks.
func (r *Report) Remarks() []string {
	t := r.Trace
	if t == nil {
		return nil
	}
	arrivals := "arrivals as stamped"
	if t.Spread > 0 {
		arrivals = fmt.Sprintf("arrivals moved on by a seeded draw below %v", t.Spread)
	}
	if t.RateScale != 1 {
		arrivals += fmt.Sprintf(", replayed %g times as fast", t.RateScale)
	}
	notes := []string{fmt.Sprintf("trace %s: %d requests at %d instants, %s", t.File, r.Requests, r.DistinctInstants, arrivals)}
	if odd := t.oddities(); len(odd) > 0 {
		notes = append(notes, fmt.Sprintf("trace %s, oddities: %s", t.File, strings.Join(odd, "; ")))
	}
	return notes
}

func (t *TraceReport) oddities() []string {
	var list []string
	if t.BadLines > 0 {
		list = append(list, fmt.Sprintf("skipped %d bad lines, first: %s", t.BadLines, t.BadExamples[0]))
	}
	for _, o := range []struct {
		n    int
		what string
	}{
		{t.UnknownFields, "rows with fields that the format does not have, ignored"},
		{t.EmptyPrompts, "rows with an empty prompt, dropped"},
		{t.ZeroOutputs, "rows with an empty answer, raised to one token"},
		{t.WithoutIDs, "rows without hash_ids, which share nothing"},
		{t.SurplusIDs, "rows with more hash_ids than blocks, cut"},
		{t.MissingIDs, "rows with fewer hash_ids than blocks, filled up"},
		{t.RepeatedIDs, "rows with a hash id twice, its later blocks taken as new"},
		{t.PrefixConflicts, "rows with a hash id that followed another before, kept"},
	} {
		if o.n > 0 {
			list = append(list, fmt.Sprintf("%d %s", o.n, o.what))
		}
	}
	return list
}
