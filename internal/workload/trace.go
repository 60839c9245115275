package workload

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/netkvlab/netkvlab/scenarios"
)

// maxLine bounds a line of a trace: 16 MiB hold a prompt of a billion tokens.
const maxLine = 16 << 20

// ReadTrace reads a trace in Mooncake's JSONL format, one object per line:
//
//	{"timestamp": ms, "input_length": tokens, "output_length": tokens, "hash_ids": [one a block of 512 tokens]}
//
// Timestamps are milliseconds, possibly with a fraction. Trace time 0 is the first row, whether
// its timestamp is 0 or the Unix time. Timestamps must not decrease: this is always an error,
// since a single wrong timestamp would otherwise shift the whole replay. Rows of equal time keep
// the file's order. A byte order mark, CRLF, white-space lines, a missing last line break and
// unknown fields are accepted. Errors are *InputError with the line. They wrap the kernel's own
// errors (a folder, a failing disk).
//
// Rows are those with Start <= At < Start+Length of o (Length 0: to the end), at most MaxRequests
// of them. With SkipBadLines, lines that cannot be parsed are counted instead of returned as an
// error; o.File only names the trace. It is read as a stream and only as far as needed; lines
// after the window are not checked.
func ReadTrace(r io.Reader, o *scenarios.Trace) ([]TraceRow, TraceReport, error) {
	t := traceReader{in: bufio.NewReaderSize(r, 1<<16), opts: o, report: TraceReport{File: o.File}}
	for done := false; !done; {
		line, err := t.line()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			done, err = t.take(line)
		}
		if err = t.tolerate(err); err != nil {
			return nil, TraceReport{}, &InputError{File: o.File, Line: t.report.Lines, Err: err}
		}
	}
	return t.rows, t.report, nil
}

// badLine is an error that SkipBadLines only counts.
type badLine struct{ error }

func (b badLine) Unwrap() error { return b.error }

type traceReader struct {
	in     *bufio.Reader
	buf    []byte
	opts   *scenarios.Trace
	rows   []TraceRow
	report TraceReport

	seen     bool    // a row was read
	first    float64 // its timestamp
	last     float64 // the latest timestamp
	lastLine int
}

// line returns the next line without its line break, valid until the next call; io.EOF at the
// end. A line that is too long is skipped completely.
func (t *traceReader) line() ([]byte, error) {
	t.buf = t.buf[:0]
	tooLong := false
	for {
		part, err := t.in.ReadSlice('\n')
		if len(t.buf)+len(part) > maxLine {
			tooLong = true
		} else {
			t.buf = append(t.buf, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && (len(t.buf) > 0 || tooLong): // last line without a line break
		case err != nil:
			if !errors.Is(err, io.EOF) {
				t.report.Lines++
			}
			return nil, err
		}
		break
	}
	t.report.Lines++
	if tooLong {
		return nil, badLine{fmt.Errorf("line is longer than %d MiB", maxLine>>20)}
	}
	if t.report.Lines == 1 {
		return bytes.TrimPrefix(t.buf, []byte("\xef\xbb\xbf")), nil
	}
	return t.buf, nil
}

// take parses a line and keeps its row if it is in the window; done: no more lines are needed.
func (t *traceReader) take(line []byte) (done bool, err error) {
	if len(bytes.TrimSpace(line)) == 0 {
		t.report.BlankLines++
		return false, nil
	}
	raw, err := parseLine(line)
	if err != nil {
		return false, badLine{err}
	}
	if t.seen && raw.timestamp < t.last {
		return false, fmt.Errorf("timestamp %.16g is before line %d's %.16g: rows must be in time order; sort the file by timestamp",
			raw.timestamp, t.lastLine, t.last)
	}
	if !t.seen {
		t.seen, t.first = true, raw.timestamp
	}
	t.last, t.lastLine = raw.timestamp, t.report.Lines
	at := (raw.timestamp - t.first) * float64(time.Millisecond)
	if at >= 1<<63 {
		return false, badLine{fmt.Errorf("timestamp %.16g is more than 292 years after the first, %.16g", raw.timestamp, t.first)}
	}
	row := raw.TraceRow
	row.Line, row.At = t.report.Lines, time.Duration(at)
	if t.opts.Length > 0 && row.At-t.opts.Start >= t.opts.Length {
		return true, nil
	}
	t.report.Rows++
	if row.At < t.opts.Start {
		t.report.Outside++
		return false, nil
	}
	if raw.unknown {
		t.report.UnknownFields++
	}
	t.rows = append(t.rows, row)
	return t.opts.MaxRequests > 0 && len(t.rows) >= t.opts.MaxRequests, nil
}

// tolerate counts a bad line if the options allow it, else returns the error, if any.
func (t *traceReader) tolerate(err error) error {
	const examples = 5
	var bad badLine
	if !t.opts.SkipBadLines || !errors.As(err, &bad) {
		return err
	}
	t.report.BadLines++
	if len(t.report.BadExamples) < examples {
		t.report.BadExamples = append(t.report.BadExamples, fmt.Sprintf("%s:%d: %v", t.report.File, t.report.Lines, err))
	}
	return nil
}

// TraceBlockTokens is the number of tokens per id in hash_ids: 512 by the format.
const TraceBlockTokens = 512

// maxTokens bounds any token count, so that sums and block counts stay small numbers.
const maxTokens = 100_000_000

// TraceRow is one line of a trace as in the file.
type TraceRow struct {
	Line int // in the file, 1-based
	// At is the row's timestamp less the file's first timestamp.
	At time.Duration
	// InputTokens and OutputTokens may be 0 here.
	InputTokens, OutputTokens int
	// IDs are the hash_ids, one per block of TraceBlockTokens; nil when the row has none.
	IDs []uint64
}

// rawRow is a parsed line; its Line and At follow when the first timestamp is known.
type rawRow struct {
	TraceRow
	timestamp float64 // milliseconds
	unknown   bool    // has fields beyond the format's
}

// maxTimestamp bounds timestamps to the milliseconds that a float64 represents exactly.
const maxTimestamp = 1 << 53

// parseLine parses one JSON object of a trace. Field names are case-sensitive; if a name occurs
// twice the last one counts, as in most JSON readers. Ids may use all 64 bits, since they are
// never converted to a float.
func parseLine(line []byte) (rawRow, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return rawRow{}, jsonError(err)
	}
	if fields == nil {
		return rawRow{}, errors.New("null is no request: want a JSON object")
	}
	var row rawRow
	var err error
	if row.timestamp, err = number(fields, "timestamp", maxTimestamp); err != nil {
		return rawRow{}, err
	}
	if row.InputTokens, err = tokens(fields, "input_length"); err != nil {
		return rawRow{}, err
	}
	if row.OutputTokens, err = tokens(fields, "output_length"); err != nil {
		return rawRow{}, err
	}
	known := 3
	if ids, ok := fields["hash_ids"]; ok {
		known++
		if err := json.Unmarshal(ids, &row.IDs); err != nil {
			return rawRow{}, fmt.Errorf("hash_ids: want a list of whole numbers from 0 to 2^64-1: %w", jsonError(err))
		}
	}
	row.unknown = len(fields) > known
	return row, nil
}

// number reads a JSON number from 0 to limit. A number in quotes is refused, since it may be
// another unit or a date.
func number(fields map[string]json.RawMessage, name string, limit float64) (float64, error) {
	raw, ok := fields[name]
	if !ok {
		return 0, fmt.Errorf("%s is missing", name)
	}
	if len(raw) == 0 || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return 0, fmt.Errorf("%s is %s: want a number", name, excerpt(raw))
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || v < 0 || v > limit {
		return 0, fmt.Errorf("%s is %s: want 0 to %.0f", name, excerpt(raw), limit)
	}
	return v, nil
}

// tokens reads a token count; 512.0 is 512, 512.5 is refused.
func tokens(fields map[string]json.RawMessage, name string) (int, error) {
	v, err := number(fields, name, maxTokens)
	if err != nil {
		return 0, err
	}
	if v != math.Trunc(v) {
		return 0, fmt.Errorf("%s is %s: want a whole number of tokens", name, excerpt(fields[name]))
	}
	return int(v), nil
}

// excerpt keeps messages short for any line.
func excerpt(raw []byte) string {
	const most = 40
	if len(raw) > most {
		return string(raw[:most]) + "..."
	}
	return string(raw)
}

// jsonError removes the decoder's Go types from a message for authors of traces.
func jsonError(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("not JSON at byte %d: %w", syntax.Offset, err)
	case errors.As(err, &kind):
		return fmt.Errorf("found a JSON %s at byte %d", kind.Value, kind.Offset)
	default:
		return err
	}
}
