package workload

import (
	"errors"
	"fmt"
	"math"
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
		r.Blocks = mend.blocks(row)
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
	return ReadTrace(f, t)
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

// mender turns rows into requests' blocks: ceil(tokens/512) ids per row, each at most once. It
// counts its repairs.
type mender struct {
	report *TraceReport
	used   map[uint64]struct{} // ids of all rows; filled on first need
	next   uint64
	rows   []TraceRow
}

// blocks returns the row's repaired ids, or nil when it has none.
func (m *mender) blocks(row *TraceRow) []uint64 {
	if len(row.IDs) == 0 {
		m.report.WithoutIDs++
		return nil
	}
	want := ceilDiv(row.InputTokens, TraceBlockTokens)
	ids := make([]uint64, 0, want)
	ids = append(ids, row.IDs[:min(len(row.IDs), want)]...)
	switch {
	case len(row.IDs) > want:
		m.report.SurplusIDs++
	case len(row.IDs) < want:
		m.report.MissingIDs++
	}
	if at := firstRepeat(ids); at < len(ids) {
		m.report.RepeatedIDs++
		ids = ids[:at]
	}
	for len(ids) < want {
		ids = append(ids, m.fresh())
	}
	return ids
}

// firstRepeat returns the index of the first id that occurred before, or len(ids).
func firstRepeat(ids []uint64) int {
	increasing := true // as in the public traces: no set needed
	for i := 1; i < len(ids) && increasing; i++ {
		increasing = ids[i] > ids[i-1]
	}
	if increasing {
		return len(ids)
	}
	seen := make(map[uint64]struct{}, len(ids))
	for i, id := range ids {
		if _, ok := seen[id]; ok {
			return i
		}
		seen[id] = struct{}{}
	}
	return len(ids)
}

// fresh returns an id that no row of the trace holds. The search goes down from the top of the
// range, which ids that count from 0 do not reach.
func (m *mender) fresh() uint64 {
	if m.used == nil {
		m.used = map[uint64]struct{}{}
		for i := range m.rows {
			for _, id := range m.rows[i].IDs {
				m.used[id] = struct{}{}
			}
		}
		m.next = math.MaxUint64
	}
	for {
		id := m.next
		m.next--
		if _, taken := m.used[id]; !taken {
			return id
		}
	}
}

// countPrefixConflicts counts the requests with a block whose id followed
// another block when it was first seen: ids that do not identify prefixes.
func countPrefixConflicts(reqs []Request) int {
	type parent struct {
		id   uint64
		root bool
	}
	parents := map[uint64]parent{}
	conflicts := 0
	for i := range reqs {
		bad := false
		before := parent{root: true}
		for _, id := range reqs[i].Blocks {
			if known, ok := parents[id]; !ok {
				parents[id] = before
			} else if known != before {
				bad = true
			}
			before = parent{id: id}
		}
		if bad {
			conflicts++
		}
	}
	return conflicts
}
