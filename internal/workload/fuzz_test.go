package workload

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"github.com/netkvlab/netkvlab/scenarios"
)

// FuzzTraceLine checks that no line causes a panic, that accepted values are in their ranges,
// and that a row is the same after writing and reading it again.
func FuzzTraceLine(f *testing.F) {
	for _, seed := range []string{
		`{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2]}`,
		`{"timestamp": 27482.5, "input_length": 512.0, "output_length": 1e2}`,
		`{"timestamp": 1700000000000, "input_length": 0, "output_length": 0, "hash_ids": null, "x": {}}`,
		`{"timestamp": -0, "input_length": 1, "output_length": 1, "hash_ids": [18446744073709551615]}`,
		`{"timestamp": "0"}`, `null`, `[]`, `{`, "\xef\xbb\xbf{}", `{"hash_ids": [-1, 0.5, 1e3]}`, "{}\n{}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		raw, err := parseLine(line)
		if err != nil {
			return
		}
		if !(raw.timestamp >= 0 && raw.timestamp <= maxTimestamp) || math.IsInf(raw.timestamp, 0) {
			t.Fatalf("timestamp %g", raw.timestamp)
		}
		row := raw.TraceRow
		if row.InputTokens < 0 || row.InputTokens > maxTokens || row.OutputTokens < 0 || row.OutputTokens > maxTokens {
			t.Fatalf("lengths %d and %d", row.InputTokens, row.OutputTokens)
		}
		again, err := json.Marshal(map[string]any{"timestamp": 0, "input_length": row.InputTokens, "output_length": row.OutputTokens, "hash_ids": row.IDs})
		if err != nil {
			t.Fatal(err)
		}
		back, _, err := ReadTrace(bytes.NewReader(again), &scenarios.Trace{File: "again"})
		if err != nil {
			t.Fatal(err)
		}
		if len(back) != 1 || back[0].InputTokens != row.InputTokens || back[0].OutputTokens != row.OutputTokens || len(back[0].IDs) != len(row.IDs) {
			t.Fatalf("wrote %+v, read %+v", row, back)
		}
		for i, id := range row.IDs {
			if back[0].IDs[i] != id {
				t.Fatalf("id %d: wrote %d, read %d", i, id, back[0].IDs[i])
			}
		}
		checkMended(t, row)
	})
}

// checkMended checks the law of blocks: ceil(tokens/512) distinct ids, or none.
func checkMended(t *testing.T, row TraceRow) {
	t.Helper()
	if row.InputTokens == 0 || row.InputTokens > 1<<20 {
		return // such rows are dropped before, or are only slow
	}
	m := mender{report: &TraceReport{}, rows: []TraceRow{row}}
	ids := m.blocks(&row)
	if ids == nil {
		return
	}
	if want := ceilDiv(row.InputTokens, TraceBlockTokens); len(ids) != want {
		t.Fatalf("%d ids for %d tokens", len(ids), row.InputTokens)
	}
	if at := firstRepeat(ids); at != len(ids) {
		t.Fatalf("id %d occurs twice in %v", ids[at], ids)
	}
}
