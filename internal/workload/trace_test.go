package workload

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/scenarios"
)

// line makes a trace line at a timestamp.
func line(timestamp string) string {
	return `{"timestamp": ` + timestamp + `, "input_length": 513, "output_length": 2, "hash_ids": [0, 1]}` + "\n"
}

func read(t *testing.T, text string, o scenarios.Trace) ([]TraceRow, TraceReport) {
	t.Helper()
	o.File = "t.jsonl"
	rows, report, err := ReadTrace(strings.NewReader(text), &o)
	require.NoError(t, err)
	return rows, report
}

func times(rows []TraceRow) []time.Duration {
	out := []time.Duration{}
	for _, r := range rows {
		out = append(out, r.At)
	}
	return out
}

func TestTimestampsCountFromTheFirst(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	tests := []struct {
		name, text string
		want       []time.Duration
	}{
		{"seconds apart", line("0") + line("1000") + line("2000"), []time.Duration{0, 1000 * ms, 2000 * ms}},
		{"Unix time in milliseconds", line("1700000000000") + line("1700000000250"), []time.Duration{0, 250 * ms}},
		{"fractions of a millisecond", line("0.5") + line("1.75"), []time.Duration{0, 1250 * time.Microsecond}},
		{"exponents", line("0") + line("1e3"), []time.Duration{0, 1000 * ms}},
		{"many equal", line("5") + line("5") + line("5"), []time.Duration{0, 0, 0}},
		{"CRLF", strings.ReplaceAll(line("0")+line("1"), "\n", "\r\n"), []time.Duration{0, ms}},
		{"byte order mark", "\xef\xbb\xbf" + line("0") + line("1"), []time.Duration{0, ms}},
		{"blank lines", line("0") + "\n" + line("1") + " \t\r\n\n", []time.Duration{0, ms}},
		{"no last line break", strings.TrimSuffix(line("0")+line("1"), "\n"), []time.Duration{0, ms}},
		{"an empty file", "", []time.Duration{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rows, _ := read(t, tt.text, scenarios.Trace{})
			assert.Equal(t, tt.want, times(rows))
		})
	}
}

func TestBadLinesAreRefusedByFileAndLine(t *testing.T) {
	t.Parallel()
	row := func(fields string) string { return "{" + fields + "}\n" }
	tests := []struct{ name, bad, want string }{
		{"not JSON", "nonsense\n", "not JSON"},
		{"half a line", `{"timestamp": 5, "inp`, "not JSON"},
		{"two objects", strings.TrimSpace(line("5")) + line("6"), "not JSON"},
		{"null", "null\n", "want a JSON object"},
		{"a list", "[1]\n", "found a JSON array"},
		{"no timestamp", row(`"input_length": 1, "output_length": 1`), "timestamp is missing"},
		{"no input_length", row(`"timestamp": 5, "output_length": 1`), "input_length is missing"},
		{"another case", row(`"Timestamp": 5, "input_length": 1, "output_length": 1`), "timestamp is missing"},
		{"a string", line(`"5"`), `timestamp is "5": want a number`},
		{"a negative timestamp", line("-5"), "timestamp is -5: want 0 to"},
		{"a huge timestamp", line("1e300"), "timestamp is 1e300"},
		{"a timestamp beyond float64", line("1e999"), "timestamp is 1e999"},
		{"null timestamp", line("null"), "timestamp is null"},
		{"half a token", row(`"timestamp": 5, "input_length": 512.5, "output_length": 1`), "whole number of tokens"},
		{"negative tokens", row(`"timestamp": 5, "input_length": 5, "output_length": -1`), "output_length is -1"},
		{"too many tokens", row(`"timestamp": 5, "input_length": 1e9, "output_length": 1`), "input_length is 1e9"},
		{"a negative id", row(`"timestamp": 5, "input_length": 5, "output_length": 1, "hash_ids": [-1]`), "hash_ids"},
		{"a fractional id", row(`"timestamp": 5, "input_length": 5, "output_length": 1, "hash_ids": [0.5]`), "hash_ids"},
		{"an id beyond 64 bits", row(`"timestamp": 5, "input_length": 5, "output_length": 1, "hash_ids": [18446744073709551616]`), "hash_ids"},
		{"ids as text", row(`"timestamp": 5, "input_length": 5, "output_length": 1, "hash_ids": "0"`), "hash_ids"},
		{"a line of 17 MiB", strings.Repeat(" ", 17<<20) + "\n", "longer than 16 MiB"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := line("0") + tt.bad
			_, _, err := ReadTrace(strings.NewReader(text), &scenarios.Trace{File: "t.jsonl"})
			require.ErrorContains(t, err, "t.jsonl:2: ")
			require.ErrorContains(t, err, tt.want)

			if !strings.HasSuffix(text, "\n") {
				text += "\n"
			}
			rows, report := read(t, text+line("9"), scenarios.Trace{SkipBadLines: true})
			assert.Equal(t, []time.Duration{0, 9 * time.Millisecond}, times(rows))
			assert.Equal(t, 1, report.BadLines)
			require.Len(t, report.BadExamples, 1)
			assert.Contains(t, report.BadExamples[0], "t.jsonl:2: ")
		})
	}
}

func TestDisorderIsRefusedEvenWhenBadLinesAreSkipped(t *testing.T) {
	t.Parallel()
	for _, skip := range []bool{false, true} {
		_, _, err := ReadTrace(strings.NewReader(line("0")+line("1000")+line("500")), &scenarios.Trace{File: "t.jsonl", SkipBadLines: skip})
		require.ErrorContains(t, err, "t.jsonl:3: timestamp 500 is before line 2's 1000")
		require.ErrorContains(t, err, "sort the file")
	}
}

func TestALineOfTenMegabytesIsRead(t *testing.T) {
	t.Parallel()
	long := strings.Replace(line("0"), "{", `{"note": "`+strings.Repeat("x", 10<<20)+`", `, 1)
	rows, report := read(t, long+line("1"), scenarios.Trace{})
	assert.Len(t, rows, 2)
	assert.Equal(t, 1, report.UnknownFields)
}

func TestWindowAndLimit(t *testing.T) {
	t.Parallel()
	text := line("0") + line("1000") + line("2000") + line("3000") + "nonsense behind the window\n"
	tests := []struct {
		name    string
		o       scenarios.Trace
		want    []time.Duration
		outside int
	}{
		{"starts within", scenarios.Trace{Start: time.Second, Length: 2 * time.Second}, []time.Duration{time.Second, 2 * time.Second}, 1},
		{"the end is excluded", scenarios.Trace{Length: time.Second}, []time.Duration{0}, 0},
		{"at most two rows", scenarios.Trace{MaxRequests: 2}, []time.Duration{0, time.Second}, 0},
		{"two rows from the window", scenarios.Trace{Start: time.Second, MaxRequests: 2}, []time.Duration{time.Second, 2 * time.Second}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rows, report := read(t, text, tt.o)
			assert.Equal(t, tt.want, times(rows))
			assert.Equal(t, tt.outside, report.Outside)
		})
	}
}

// replayOf is a scenario that replays text.
func replayOf(t *testing.T, text string) *scenarios.Scenario {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return &scenarios.Scenario{
		Engine:   scenarios.Engine{BlockTokens: TraceBlockTokens},
		Transfer: scenarios.Transfer{Streams: 1},
		Workload: scenarios.Workload{Kind: "trace", Trace: &scenarios.Trace{File: path, RateScale: 1}},
	}
}

func TestBlockArithmetic(t *testing.T) {
	t.Parallel()
	const fresh = math.MaxUint64
	tests := []struct {
		name          string
		input, output string
		ids           string
		want          []uint64
		count         func(*TraceReport) int // the counter that must be 1
	}{
		{"10 tokens with 2 ids lose one", "10", "5", "[7, 8]", []uint64{7}, func(r *TraceReport) int { return r.SurplusIDs }},
		{"513 tokens with 1 id get one", "513", "5", "[7]", []uint64{7, fresh}, func(r *TraceReport) int { return r.MissingIDs }},
		{"512 tokens with 1 id", "512", "5", "[7]", []uint64{7}, nil},
		{"513 tokens with 2 ids", "513", "5", "[7, 8]", []uint64{7, 8}, nil},
		{"an empty list shares nothing", "513", "5", "[]", nil, func(r *TraceReport) int { return r.WithoutIDs }},
		{"null shares nothing", "513", "5", "null", nil, func(r *TraceReport) int { return r.WithoutIDs }},
		{"an id twice ends the known prefix", "1536", "5", "[7, 7, 8]", []uint64{7, fresh, fresh - 1}, func(r *TraceReport) int { return r.RepeatedIDs }},
		{"an id twice, apart", "1536", "5", "[7, 8, 7]", []uint64{7, 8, fresh}, func(r *TraceReport) int { return r.RepeatedIDs }},
		{"unordered ids are fine", "1536", "5", "[9, 7, 8]", []uint64{9, 7, 8}, nil},
		{"ids beyond 2^53 stay exact", "1024", "5", "[9007199254740993, 18446744073709551615]", []uint64{9007199254740993, math.MaxUint64}, nil},
		{"fresh ids avoid those in use", "513", "5", "[18446744073709551615]", []uint64{math.MaxUint64, math.MaxUint64 - 1}, func(r *TraceReport) int { return r.MissingIDs }},
		{"output 0 becomes 1", "512", "0", "[7]", []uint64{7}, func(r *TraceReport) int { return r.ZeroOutputs }},
		{"whole numbers written as decimals", "512.0", "5", "[7]", []uint64{7}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			reqs, report := generate(t, replayOf(t, `{"timestamp": 0, "input_length": `+tt.input+
				`, "output_length": `+tt.output+`, "hash_ids": `+tt.ids+"}\n"), 1)
			require.Len(t, reqs, 1)
			assert.Equal(t, tt.want, reqs[0].Blocks)
			assert.GreaterOrEqual(t, reqs[0].OutputTokens, 1)
			r := report.Trace
			sum := r.SurplusIDs + r.MissingIDs + r.WithoutIDs + r.RepeatedIDs + r.ZeroOutputs
			if tt.count == nil {
				assert.Zero(t, sum, "nothing was mended")
				return
			}
			assert.Equal(t, 1, tt.count(r))
			assert.Equal(t, 1, sum, "and nothing else was mended")
		})
	}
}

func TestEmptyPromptsAreDropped(t *testing.T) {
	t.Parallel()
	empty := `{"timestamp": 0, "input_length": 0, "output_length": 5, "hash_ids": []}` + "\n"
	reqs, report := generate(t, replayOf(t, empty+line("10")), 1)
	require.Len(t, reqs, 1)
	assert.Equal(t, 1, report.Trace.EmptyPrompts)
	assert.Equal(t, 2, report.Trace.Rows)

	_, _, err := Generate(replayOf(t, empty), 1)
	require.ErrorContains(t, err, "no request in the window")
}

func TestRowsWithoutIDField(t *testing.T) {
	t.Parallel()
	s := replayOf(t, `{"timestamp": 0, "input_length": 191378, "output_length": 5}`+"\n")
	reqs, report := generate(t, s, 1)
	assert.Nil(t, reqs[0].Blocks)
	assert.Equal(t, 1, report.Trace.WithoutIDs)
}

func TestPrefixConflictsAreCounted(t *testing.T) {
	t.Parallel()
	row := func(ids string) string {
		return `{"timestamp": 0, "input_length": 1024, "output_length": 5, "hash_ids": ` + ids + "}\n"
	}
	_, report := generate(t, replayOf(t, row("[1, 2]")+row("[1, 3]")+row("[3, 2]")+row("[2, 9]")), 1)
	assert.Equal(t, 2, report.Trace.PrefixConflicts, "3 was no root, 2 was no root")
}

func TestArrivalsKeepOrScaleOrSpread(t *testing.T) {
	t.Parallel()
	text := strings.Repeat(line("0"), 20) + strings.Repeat(line("3000"), 20)
	s := replayOf(t, text)
	reqs, report := generate(t, s, 1)
	assert.Equal(t, 2, report.DistinctInstants, "ticks are kept")
	assert.Equal(t, 3*time.Second, reqs[39].Arrival)

	s.Workload.Trace.RateScale = 2
	reqs, _ = generate(t, s, 1)
	assert.Equal(t, 1500*time.Millisecond, reqs[39].Arrival, "twice as fast")

	s.Workload.Trace.RateScale, s.Workload.Trace.Spread = 1, 3*time.Second
	reqs, report = generate(t, s, 1)
	assert.Equal(t, 40, report.DistinctInstants)
	assert.Equal(t, 3*time.Second, report.Trace.Spread)
	for i := range reqs {
		require.Equal(t, i, reqs[i].ID)
		tick := time.Duration(i/20) * 3 * time.Second
		require.GreaterOrEqual(t, reqs[i].Arrival, tick)
		require.Less(t, reqs[i].Arrival, tick+3*time.Second)
		if i > 0 {
			require.GreaterOrEqual(t, reqs[i].Arrival, reqs[i-1].Arrival)
		}
	}
	other, _ := generate(t, s, 2)
	assert.NotEqual(t, reqs[0].Arrival, other[0].Arrival, "the jitter is the seed's")
}

func TestJitterOfARowDoesNotDependOnTheWindow(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 50 {
		text.WriteString(`{"timestamp": ` + []string{"0", "3000"}[i/25] + `, "input_length": ` + string('1'+rune(i%9)) + `00, "output_length": 1}` + "\n")
	}
	s := replayOf(t, text.String())
	s.Workload.Trace.Spread = time.Second
	all, _ := generate(t, s, 1)
	s.Workload.Trace.Start = 3 * time.Second
	late, _ := generate(t, s, 1)
	require.Len(t, late, 25)
	for i := range late {
		require.Equal(t, all[25+i].Arrival-3*time.Second, late[i].Arrival)
		require.Equal(t, all[25+i].PromptTokens, late[i].PromptTokens)
	}
}

func TestEqualTimesKeepTheOrderOfTheFile(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 9 {
		text.WriteString(`{"timestamp": 7, "input_length": ` + string('1'+rune(i)) + `, "output_length": 1}` + "\n")
	}
	reqs, _ := generate(t, replayOf(t, text.String()), 1)
	for i := range reqs {
		require.Equal(t, i+1, reqs[i].PromptTokens)
	}
}

func TestTraceErrorsNameTheWayOut(t *testing.T) {
	t.Parallel()
	s := replayOf(t, line("0"))
	s.Workload.Trace.File = filepath.Join(t.TempDir(), "missing.jsonl")
	_, _, err := Generate(s, 1)
	require.ErrorIs(t, err, os.ErrNotExist)

	s = replayOf(t, line("0"))
	s.Workload.Trace.Start = time.Hour
	_, _, err = Generate(s, 1)
	require.ErrorContains(t, err, "no request in the window from 1h0m0s")
}

// TestKnownAnswersOfThePublicTraces needs Mooncake's FAST'25 traces, which are
// not part of this repository: NETKVLAB_TRACES names the folder that holds
// conversation_trace.jsonl and synthetic_trace.jsonl.
func TestKnownAnswersOfThePublicTraces(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("NETKVLAB_TRACES")
	if dir == "" {
		t.Skip("NETKVLAB_TRACES is not set: want the folder of Mooncake's FAST25-release/traces")
	}
	tests := []struct {
		file            string
		rows, instants  int
		meanIn, meanOut float64
	}{
		{"conversation_trace.jsonl", 12031, 1180, 12035, 343},
		{"synthetic_trace.jsonl", 3993, 3982, 15325, 149},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			t.Parallel()
			sc := replayOf(t, "")
			sc.Workload.Trace.File = filepath.Join(dir, tt.file)
			reqs, report := generate(t, sc, 1)
			assert.Len(t, reqs, tt.rows)
			assert.Equal(t, tt.instants, report.DistinctInstants)
			prompt, output := meanTokens(reqs)
			assert.InDelta(t, tt.meanIn, prompt, 1)
			assert.InDelta(t, tt.meanOut, output, 1)
			r := report.Trace
			assert.Zero(t, r.PrefixConflicts+r.SurplusIDs+r.MissingIDs+r.WithoutIDs, "each row has an id for each block")
			sc.Workload.Trace.Spread = 3 * time.Second
			_, report = generate(t, sc, 1)
			assert.InDelta(t, tt.rows, report.DistinctInstants, 3)
		})
	}
}
