package report

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/results"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func ptr(v float64) *float64 { return &v }

// stats makes a figure from its mean and interval.
func stats(mean, ci float64) *results.Stats {
	return &results.Stats{
		N: 1200, Mean: mean, CI95: &ci, CIMethod: "seeds-t", CIN: 3,
		Min: mean / 2, P50: mean * 0.9, P90: mean * 2, P99: mean * 4.5, Max: mean * 5,
	}
}

// group makes a row. The figures are round numbers near the paper's Table II.
func group(ttft, transfer, tbt, slo, tier2 float64) *results.Group {
	return &results.Group{
		Requests: results.Counts{Submitted: 1200, Completed: 1200},
		TTFT:     stats(ttft, 12.4), Transfer: stats(transfer, 9.1), TBT: stats(tbt, 0.02),
		Queue: stats(3, 1), Prefill: stats(960, 5), SLOAttainment: &slo,
		TierShare: map[string]float64{"0": 0, "1": 0, "2": tier2, "3": 1 - tier2}, Transfers: 1200,
		BytesMoved: 4_026_531_840, PayloadBytes: 1_610_612_736_000, PayloadBytesEmulated: 4_026_531_840,
	}
}

func gain(policy, baseline, metric, unit string, packet, flow float64) results.Gain {
	return results.Gain{
		Policy: policy, Baseline: baseline, Metric: metric, Unit: unit,
		PacketPct: &packet, PacketCI95: ptr(2.1), FlowPct: &flow, FlowCI95: ptr(0.4), GapPP: ptr(packet - flow),
		Worlds: map[string]results.GainBasis{"packet": {Pairs: 1200}, "flow": {Pairs: 1200}},
	}
}

func bothWorlds() *results.Summary {
	return &results.Summary{
		Format: 1, Version: "v0.1.0", Scenario: "paper-64gpu", Seeds: []uint64{1, 2, 3},
		Scale:    results.Scale{Rate: 400, Time: 1},
		SLO:      results.SLOMS{TTFTMS: ptr(4000), TBTMS: ptr(50)},
		Fidelity: results.Fidelity{Verdict: results.VerdictGood, Reasons: []string{}},
		Policies: []string{"rr", "cla", "netkv-full"},
		Worlds: map[string]map[string]*results.Group{
			"packet": {"rr": group(1969, 993, 12.74, 0.907, 0.25), "cla": group(1812, 835, 12.71, 0.923, 0.32), "netkv-full": group(1598, 620, 12.94, 0.944, 0.689)},
			"flow":   {"rr": group(1950, 980, 12.74, 0.908, 0.25), "cla": group(1800, 820, 12.71, 0.925, 0.32), "netkv-full": group(1560, 600, 12.94, 0.946, 0.7)},
		},
		Gains: []results.Gain{
			gain("cla", "rr", "ttft_ms", "%", -8, -7.7), gain("cla", "rr", "transfer_ms", "%", -15.9, -16.3), gain("cla", "rr", "slo", "pp", 1.6, 1.7),
			gain("netkv-full", "rr", "ttft_ms", "%", -18.8, -20), gain("netkv-full", "rr", "transfer_ms", "%", -37.6, -38.8), gain("netkv-full", "rr", "slo", "pp", 3.7, 3.8),
			gain("netkv-full", "cla", "ttft_ms", "%", -11.8, -13.3), gain("netkv-full", "cla", "transfer_ms", "%", -25.7, -26.8), gain("netkv-full", "cla", "slo", "pp", 2.1, 2.1),
		},
	}
}

// troubled is a run in which every optional figure is missing.
func troubled() *results.Summary {
	s := bothWorlds()
	s.Interrupted = true
	s.Seeds = s.Seeds[:1]
	s.SLO = results.SLOMS{}
	s.Fidelity = results.Fidelity{Verdict: results.VerdictDegraded, Reasons: []string{
		"the host was under 10 % idle in 14 % of the 250 ms windows; transfers over several hops may be slowed by the CPU rather than by the network",
	}}
	s.Policies = append(s.Policies, "dead")
	for _, w := range s.Worlds {
		w["dead"] = &results.Group{
			Requests: results.Counts{Submitted: 1200, Failed: 1198, Incomplete: 2}, Reason: "no request completed",
			FailureReasons: map[string]int{"no feasible decode instance": 1198, "interrupted": 2}, SLOAttainment: ptr(0),
		}
	}
	s.Worlds["packet"]["rr"].TTFT.CI95 = nil
	s.Gains[0].PacketCI95, s.Gains[0].TransportPP, s.Gains[0].DecisionsPP = nil, ptr(0.4), ptr(-0.04)
	s.Gains = append(s.Gains, results.Gain{
		Policy: "dead", Baseline: "rr", Metric: "ttft_ms", Unit: "%",
		Worlds: map[string]results.GainBasis{"packet": {PolicyNotCompleted: 1200, Reason: "no request completed under both policies"}},
	})
	return s
}

func flowRecords() []results.Record {
	row := func(world string, id int, ms float64, status, reason string) results.Record {
		return results.Record{
			World: world, Policy: "as-given", Seed: 1, ID: id, Status: status, Reason: reason, ArrivalMS: float64(id) * 400,
			Prefill: "p0", Decode: "d3", Tier: 3, TransferMS: ms, PayloadBytes: 100e6, Retransmits: id,
		}
	}
	return []results.Record{
		row("packet", 1, 1280, results.Completed, ""), row("packet", 0, 1190, results.Completed, ""),
		row("flow", 0, 1200, results.Completed, ""), row("flow", 1, 1200, results.Completed, ""),
		row("packet", 2, 0, results.Failed, "timeout after 30s"), row("flow", 2, 800, results.Completed, ""),
	}
}

func TestReportsMatchTheirGoldenFiles(t *testing.T) {
	tests := []struct {
		name  string
		width int
		print func(*bytes.Buffer, Options) error
	}{
		{"both-worlds", 100, func(b *bytes.Buffer, o Options) error { return Text(b, bothWorlds(), o) }},
		{"troubled", 100, func(b *bytes.Buffer, o Options) error { return Text(b, troubled(), o) }},
		{"narrow", 72, func(b *bytes.Buffer, o Options) error { return Text(b, bothWorlds(), o) }},
		{"attributed", 100, func(b *bytes.Buffer, o Options) error { return Text(b, attributed(), o) }},
		{"compared", 110, func(b *bytes.Buffer, o Options) error { return Compare(b, threeSources(), o) }},
		{"flows", 100, func(b *bytes.Buffer, o Options) error { return Flows(b, flowRecords(), o) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			require.NoError(t, tt.print(&b, Options{Width: tt.width, Folder: "netkvlab-runs/paper-64gpu-1"}))
			for _, line := range strings.Split(b.String(), "\n") {
				require.LessOrEqual(t, utf8.RuneCountInString(line), tt.width, line)
				require.Equal(t, strings.TrimRight(line, " "), line, "no trailing space")
			}
			for _, word := range []string{"NaN", "Inf", "null", "<nil>", "%!"} {
				require.NotContains(t, b.String(), word)
			}
			path := filepath.Join("testdata", tt.name+".txt")
			if *update {
				require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err, "run go test ./internal/report -update once")
			assert.Equal(t, string(want), b.String())
		})
	}
}

func TestEmptySummaryPrints(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	require.NoError(t, Text(&b, analysis.Summarize(nil, results.Meta{Scenario: "none", Policies: []string{"rr"}, Worlds: []string{"flow"}}), Options{}))
	assert.Contains(t, b.String(), "no request was submitted")
	require.NoError(t, Flows(&b, nil, Options{}))
}

func TestControlCharactersOfNamesAreNotPrinted(t *testing.T) {
	t.Parallel()
	s := bothWorlds()
	evil := "rr\x1b[2J" + strings.Repeat("x", 60)
	s.Policies[0] = evil
	s.Worlds["packet"][evil] = s.Worlds["packet"]["rr"]
	var b bytes.Buffer
	require.NoError(t, Text(&b, s, Options{}))
	assert.NotContains(t, b.String(), "\x1b")
	assert.Contains(t, b.String(), "…")
}

type brokenPipe struct{}

var errPipe = errors.New("broken pipe")

func (brokenPipe) Write([]byte) (int, error) { return 0, errPipe }

func TestWriteErrorsComeBack(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, Text(brokenPipe{}, bothWorlds(), Options{}), errPipe)
	require.ErrorIs(t, Flows(brokenPipe{}, flowRecords(), Options{}), errPipe)
}

func TestSizesAreDecimal(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 999_949: "999.9 kB", 999_950: "1.0 MB", 1_342_177_280: "1.3 GB", 1 << 62: "4.6 EB"} {
		assert.Equal(t, want, size(n))
	}
}
