package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// TraceBlockTokens is the number of tokens per id in hash_ids: 512 by the format.
const TraceBlockTokens = 512

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

// rawRow is a parsed line before the offset of the timestamps is known.
type rawRow struct {
	timestamp     float64 // milliseconds
	input, output int
	ids           []uint64
	unknown       bool // has fields beyond the format's
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
	if row.input, err = tokens(fields, "input_length"); err != nil {
		return rawRow{}, err
	}
	if row.output, err = tokens(fields, "output_length"); err != nil {
		return rawRow{}, err
	}
	known := 3
	if ids, ok := fields["hash_ids"]; ok {
		known++
		if err := json.Unmarshal(ids, &row.ids); err != nil {
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
