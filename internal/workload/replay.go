package workload

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/netkvlab/netkvlab/scenarios"
)

// replay reads the scenario's trace and turns its window into requests.
//
// The arrival of a row is (trace time - Start + jitter) / RateScale. The jitter is a uniform
// draw in [0, Spread) that depends only on seed and line, so that a row has the same jitter in
// every window. Without Spread the file's instants are kept, even if they are coarse (Mooncake's
// conversation trace has one every 3 s).
func replay(s *scenarios.Scenario, seed uint64) ([]Request, Report, error) {
	t := s.Workload.Trace
	if err := checkTrace(t); err != nil {
		return nil, Report{}, err
	}
	rows, read, err := readTraceFile(t)
	if err != nil {
		return nil, Report{}, err
	}
	report := Report{Trace: &read}
	read.Spread, read.RateScale = t.Spread, t.RateScale
	mend := mender{report: &read, rows: rows}
	reqs := make([]Request, 0, len(rows))
	for i := range rows {
		row := &rows[i]
		if row.InputTokens == 0 {
			read.EmptyPrompts++
			continue
		}
		r := Request{Arrival: arrival(t, row, seed), PromptTokens: row.InputTokens, OutputTokens: row.OutputTokens}
		if r.OutputTokens == 0 {
			read.ZeroOutputs++
			r.OutputTokens = 1
		}
		if r.Blocks = mend.blocks(row); r.Blocks != nil && s.Engine.BlockTokens != TraceBlockTokens {
			return nil, Report{}, &InputError{File: t.File, Line: row.Line, Err: fmt.Errorf(
				"hash_ids count blocks of %d tokens, engine.blockTokens is %d; set it to %d",
				TraceBlockTokens, s.Engine.BlockTokens, TraceBlockTokens)}
		}
		reqs = append(reqs, r)
	}
	if len(reqs) == 0 {
		return nil, Report{}, &InputError{File: t.File, Err: fmt.Errorf(
			"no request in the window from %v, length %v (0s: to the end): %d rows were read, %d of them before it, %d bad lines skipped; change workload.trace.start or length",
			t.Start, t.Length, read.Rows, read.Outside, read.BadLines)}
	}
	read.PrefixConflicts = countPrefixConflicts(reqs)
	return reqs, report, nil
}

func readTraceFile(t *scenarios.Trace) (rows []TraceRow, report TraceReport, err error) {
	f, err := openInput("workload.trace.file", t.File)
	if err != nil {
		return nil, TraceReport{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return ReadTrace(f, t.File, ReadOptions{
		Start: t.Start, Length: t.Length, MaxRows: t.MaxRequests, SkipBadLines: t.SkipBadLines,
	})
}

// arrival places a row on the trial's clock.
func arrival(t *scenarios.Trace, row *TraceRow, seed uint64) time.Duration {
	at := row.At - t.Start
	if t.Spread > 0 {
		at += time.Duration(rand.New(indexed(seed, streamSpread, row.Line)).Int64N(int64(t.Spread)))
	}
	if t.RateScale == 1 {
		return at // keep whole nanoseconds
	}
	return time.Duration(float64(at) / t.RateScale)
}

func checkTrace(t *scenarios.Trace) error {
	if t == nil {
		return errors.New("workload.trace is missing though workload.kind is trace")
	}
	const day = 24 * time.Hour
	return checkFields([]field{
		{"workload.trace.rateScale", t.RateScale, 1e-3, 1e6},
		{"workload.trace.start (ns)", float64(t.Start), 0, float64(3650 * day)},
		{"workload.trace.length (ns)", float64(t.Length), 0, float64(3650 * day)},
		{"workload.trace.spread (ns)", float64(t.Spread), 0, float64(day)},
		{"workload.trace.maxRequests", float64(t.MaxRequests), 0, 1e9},
	})
}
