package workload

import (
	"fmt"
	"strings"
	"time"
)

// Report says what was generated or read, and what was repaired. Show its Remarks to the user: a
// replay that cut, dropped or padded something must say so with its results.
type Report struct {
	Requests         int
	DistinctInstants int          // the different arrival times after spreading
	Trace            *TraceReport // nil for a synthetic workload
}

// TraceReport counts the contents of a trace file and its irregularities. The rule for each is
// stated at its field. A regular trace has zeros after Rows.
type TraceReport struct {
	File string
	// Lines counts lines read, Rows the well-formed ones, of which Outside fell before the window.
	// Lines after the window's end or after the last wanted request are not read at all.
	Lines, Rows, Outside int
	// RateScale divided the gaps: 2 replays twice as fast.
	RateScale float64
	// Spread is the width of the seeded jitter, 0 when arrival times are the file's.
	Spread time.Duration

	// BlankLines contain only white space and are ignored.
	BlankLines int
	// BadLines were skipped because the scenario asked for it; BadExamples
	// are the first few messages.
	BadLines    int
	BadExamples []string
	// UnknownFields counts rows with fields that this format does not have; they are ignored.
	UnknownFields int
	// EmptyPrompts are rows with input_length 0: they are dropped, since there is nothing to prefill.
	EmptyPrompts int
	// ZeroOutputs are rows with output_length 0: raised to 1, since the KV cache is moved and there
	// is a first token.
	ZeroOutputs int
	// WithoutIDs are rows whose hash_ids are absent, null or empty: they share no prefix.
	WithoutIDs int
	// SurplusIDs are rows with more ids than blocks: the extra ids are dropped.
	SurplusIDs int
	// MissingIDs are rows with fewer ids than blocks: the missing ones become ids that no other row has.
	MissingIDs int
	// RepeatedIDs are rows with an id twice, which is impossible in a prefix: from the repetition
	// on, blocks get ids that no other row has.
	RepeatedIDs int
	// PrefixConflicts are rows with an id that followed another block in an
	// earlier row, so that equal ids do not mean equal prefixes. They are kept as they are.
	PrefixConflicts int
}

// Remarks describes a replayed trace for the reader of results: whether its instants were kept, and
// which irregularities it had and how they were treated. A synthetic workload has no remarks.
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
