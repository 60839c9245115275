package workload

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// WriteTrace writes rows in Mooncake's JSONL format, one per line. Timestamps are milliseconds,
// with a decimal fraction if needed, so that ReadTrace returns the same rows. Rows must be in
// time order.
func WriteTrace(w io.Writer, rows []TraceRow) error {
	out := bufio.NewWriter(w)
	var line []byte
	for i := range rows {
		r := &rows[i]
		if i > 0 && r.At < rows[i-1].At {
			return fmt.Errorf("write trace: row %d at %v comes after one at %v: rows must be in time order", i, r.At, rows[i-1].At)
		}
		line = appendRow(line[:0], r)
		if _, err := out.Write(line); err != nil {
			return fmt.Errorf("write trace: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write trace: %w", err)
	}
	return nil
}

func appendRow(line []byte, r *TraceRow) []byte {
	line = append(line, `{"timestamp": `...)
	line = strconv.AppendFloat(line, float64(r.At)/float64(time.Millisecond), 'f', -1, 64)
	line = append(line, `, "input_length": `...)
	line = strconv.AppendInt(line, int64(r.InputTokens), 10)
	line = append(line, `, "output_length": `...)
	line = strconv.AppendInt(line, int64(r.OutputTokens), 10)
	line = append(line, `, "hash_ids": [`...)
	for i, id := range r.IDs {
		if i > 0 {
			line = append(line, ", "...)
		}
		line = strconv.AppendUint(line, id, 10)
	}
	return append(line, "]}\n"...)
}

// TraceRows turns generated requests into rows, so that a synthetic workload can be kept and
// shared as a trace. Arrivals are rounded down to whole milliseconds, as in the public traces.
// Each block must have TraceBlockTokens tokens.
func TraceRows(reqs []Request, blockTokens int) ([]TraceRow, error) {
	if blockTokens != TraceBlockTokens {
		return nil, errors.New("a trace counts blocks of 512 tokens: generate the requests with engine.blockTokens: 512")
	}
	rows := make([]TraceRow, len(reqs))
	for i := range reqs {
		r := &reqs[i]
		rows[i] = TraceRow{
			Line: i + 1, At: r.Arrival.Truncate(time.Millisecond),
			InputTokens: r.PromptTokens, OutputTokens: r.OutputTokens, IDs: r.Blocks,
		}
	}
	return rows, nil
}
