package workload

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"
)

// maxLine bounds a line of a trace: 16 MiB hold a prompt of a billion tokens.
const maxLine = 16 << 20

// ReadOptions choose the part of a trace to read.
type ReadOptions struct {
	// Start and Length are the window in trace time; Length 0 means to the end.
	Start, Length time.Duration
	// MaxRows ends the reading after that many rows of the window; 0 means no limit.
	MaxRows int
	// SkipBadLines counts lines that cannot be parsed instead of returning an error. Timestamps out
	// of order are still an error.
	SkipBadLines bool
}

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
// Rows are those with Start <= At < Start+Length. The file is read as a stream and only as far
// as needed; lines after the window are not checked.
func ReadTrace(r io.Reader, name string, o ReadOptions) ([]TraceRow, TraceReport, error) {
	t := traceReader{in: bufio.NewReaderSize(r, 1<<16), opts: o, report: TraceReport{File: name}}
	for {
		line, err := t.line()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			var done bool
			done, err = t.take(line)
			if done {
				break
			}
		}
		if err != nil {
			if err = t.tolerate(err); err != nil {
				return nil, TraceReport{}, &InputError{File: name, Line: t.report.Lines, Err: err}
			}
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
	opts   ReadOptions
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
	row := TraceRow{
		Line: t.report.Lines, At: time.Duration(at), InputTokens: raw.input, OutputTokens: raw.output, IDs: raw.ids,
	}
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
	return t.opts.MaxRows > 0 && len(t.rows) >= t.opts.MaxRows, nil
}

// tolerate counts a bad line if the options allow it, else returns the error.
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
