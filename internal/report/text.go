// Package report renders results as the text tables that the command line prints. It computes no
// figures; they all come from a results.Summary or from records. Output depends only on the
// input (no clock, no terminal query), so the same run prints the same bytes.
package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/netkvlab/netkvlab/internal/results"
)

// Options say how to render.
type Options struct {
	// Width is the terminal's width in columns; 0 means 100. Tables drop their less important
	// columns to stay within it.
	Width int
	// Folder is the run folder's path, shown at the end; empty shows none.
	Folder string
}

// Text prints the summary of a run: one table per world with one row per policy, the paired
// gains, the fidelity verdict and the path of the run folder. A missing figure shows as "-",
// with its reason below the table.
func Text(w io.Writer, s *results.Summary, o Options) error {
	b := newOutput(o)
	b.heading(s)
	for _, world := range worlds(s) {
		fmt.Fprintf(b, "\n%s\n", cmp.Or(worldTitles[world], world+" world"))
		b.policies(s, s.Worlds[world])
	}
	b.gains(s)
	b.attribution(s.Attribution)
	b.verdict(s)
	if o.Folder != "" {
		fmt.Fprintf(b, "\nrun folder: %s\n", o.Folder)
	}
	return b.print(w, "report")
}

// heading prints what ran and the units of the figures.
func (b *output) heading(s *results.Summary) {
	noun := "seeds"
	if len(s.Seeds) == 1 {
		noun = "seed"
	}
	b.wrap("", "%s: %s %s; netkvlab %s", s.Scenario, noun, seedList(s.Seeds), s.Version)
	b.wrap("", "scale: S = %s (emulated bytes and rates are the paper's / S), T = %s (emulated seconds are the paper's x T)",
		plain(s.Scale.Rate), plain(s.Scale.Time))
	var slo []string
	for _, t := range []struct {
		name string
		ms   *float64
	}{{"TTFT", s.SLO.TTFTMS}, {"TBT", s.SLO.TBTMS}} {
		if t.ms != nil {
			slo = append(slo, t.name+" <= "+plain(*t.ms)+" ms")
		}
	}
	b.wrap("", "times are paper milliseconds, mean ± half width of its 95 %% interval; moved counts emulated bytes; SLO %s",
		cmp.Or(strings.Join(slo, ", "), "has no threshold"))
	if s.Interrupted {
		b.wrap("", "INTERRUPTED: the figures cover what had finished by then")
	}
}

func seedList(seeds []uint64) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(seeds), "[]"), " ", ", ")
}

// worldOrder is the order of the known worlds.
var worldOrder = []string{results.WorldPacket, results.WorldFlow, results.WorldReplay}

var worldTitles = map[string]string{
	results.WorldPacket: "packet world (TCP over the emulated fabric)",
	results.WorldFlow:   "flow world (max-min fair fluid model)",
	results.WorldReplay: "replay (fluid model with the packet world's decisions, starts and paths)",
}

// worlds lists the worlds of a summary, the known ones first.
func worlds(s *results.Summary) []string {
	var out []string
	for _, w := range slices.Concat(worldOrder, slices.Sorted(maps.Keys(s.Worlds))) {
		if s.Worlds[w] != nil && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// policies prints one row per policy of a world, and below them why figures are missing and why
// requests failed.
func (b *output) policies(s *results.Summary, world map[string]*results.Group) {
	t := newTable(
		column{head: "policy", left: true}, column{head: "ok"}, column{head: "failed"},
		column{head: "TTFT"}, column{head: "p50", rank: 4}, column{head: "p99", rank: 1},
		column{head: "transfer"}, column{head: "TBT", rank: 2}, column{head: "SLO %"},
		column{head: "tier 0/1/2/3 %", rank: 3}, column{head: "moved", rank: 5},
	)
	mean := func(s results.Stats) string { return interval(s.Mean, s.CI95) }
	for _, policy := range s.Policies {
		if g := world[policy]; g != nil {
			t.add(policy, fmt.Sprint(g.Requests.Completed), failures(g.Requests), known(g.TTFT, mean),
				known(g.TTFT, func(s results.Stats) string { return number(s.P50) }),
				known(g.TTFT, func(s results.Stats) string { return number(s.P99) }),
				known(g.Transfer, mean), known(g.TBT, func(s results.Stats) string { return number(s.Mean) }),
				known(g.SLOAttainment, func(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) }),
				tiers(g.TierShare), size(g.BytesMoved))
		}
	}
	b.table(t)
	const most = 3
	for _, policy := range s.Policies {
		g := world[policy]
		if g == nil {
			continue
		}
		if g.Reason != "" {
			b.wrap("  ", "%s: %s", policy, g.Reason)
		}
		why := slices.SortedFunc(maps.Keys(g.FailureReasons), func(x, y string) int { // most frequent first
			return cmp.Or(cmp.Compare(g.FailureReasons[y], g.FailureReasons[x]), strings.Compare(x, y))
		})
		for _, r := range why[:min(most, len(why))] {
			b.wrap("  ", "%s: %d x %s", policy, g.FailureReasons[r], r)
		}
		if len(why) > most {
			b.wrap("  ", "%s: and %d other reasons", policy, len(why)-most)
		}
	}
}

// failures shows failed requests and requests that were cut off: 3+1.
func failures(c results.Counts) string {
	if c.Incomplete > 0 {
		return fmt.Sprintf("%d+%d cut", c.Failed, c.Incomplete)
	}
	return fmt.Sprint(c.Failed)
}

func tiers(share map[string]float64) string {
	if share == nil {
		return "-"
	}
	parts := make([]string, 4)
	for t := range parts {
		parts[t] = fmt.Sprintf("%.0f", 100*share[fmt.Sprint(t)])
	}
	return strings.Join(parts, "/")
}

// gains prints one row per comparison and metric, and below them why a gain has no figure, once
// per comparison and world.
func (b *output) gains(s *results.Summary) {
	if len(s.Gains) == 0 {
		return
	}
	b.WriteByte('\n')
	b.wrap("", "gains, paired by seed and request (times: negative is faster; SLO: percentage points, positive is better; "+
		"gap = packet - flow = transport + decisions, over the same seeds)")
	t := newTable(
		column{head: "policy vs baseline", left: true}, column{head: "metric", left: true},
		column{head: "packet"}, column{head: "flow"}, column{head: "flow, all seeds", rank: 3}, column{head: "gap pp"},
		column{head: "transport", rank: 2}, column{head: "decisions", rank: 2}, column{head: "not ok", rank: 1},
	)
	once := nameOnce()
	var missing []string
	for i := range s.Gains {
		g := &s.Gains[i]
		// The flow world's gain over the packet run's seeds, and over all of its seeds if these are more.
		flow, allSeeds := change(g.FlowPct, g.FlowCI95, g.Unit), "-"
		if g.FlowPairedPct != nil {
			flow, allSeeds = change(g.FlowPairedPct, g.FlowPairedCI95, g.Unit), flow
		}
		t.add(once(g.Policy, g.Baseline), metricName(g.Metric), change(g.PacketPct, g.PacketCI95, g.Unit), flow, allSeeds,
			known(g.GapPP, signed), known(g.TransportPP, signed), known(g.DecisionsPP, signed), notCompleted(g))
		for _, w := range worlds(s) {
			line := fmt.Sprintf("%s vs %s, %s: %s", g.Policy, g.Baseline, w, g.Worlds[w].Reason)
			if g.Worlds[w].Reason != "" && !slices.Contains(missing, line) {
				missing = append(missing, line)
			}
		}
	}
	t.dropEmpty()
	b.table(t)
	for _, line := range missing {
		b.wrap("  ", "%s", line)
	}
}

func metricName(metric string) string {
	names := map[string]string{results.MetricTTFT: "TTFT", results.MetricTransfer: "transfer", results.MetricSLO: "SLO"}
	return cmp.Or(names[metric], metric)
}

// notCompleted counts the requests of policy|baseline that did not complete, in
// the packet world or else in the flow world; "-" when all did.
func notCompleted(g *results.Gain) string {
	for _, w := range []string{results.WorldPacket, results.WorldFlow} {
		if b := g.Worlds[w]; b.PolicyNotCompleted+b.BaselineNotCompleted > 0 {
			return fmt.Sprintf("%d|%d", b.PolicyNotCompleted, b.BaselineNotCompleted)
		}
	}
	return "-"
}

// verdict prints the fidelity line and its reasons.
func (b *output) verdict(s *results.Summary) {
	fmt.Fprintf(b, "\nfidelity: %s\n", s.Fidelity.Verdict)
	for _, r := range s.Fidelity.Reasons {
		b.wrap("  ", "%s", r)
	}
	if f := s.Fidelity.Figures; f != nil && f.Windows > 0 {
		b.wrap("  ", "measured: %s", strings.Join(measured(f), ", "))
	}
	b.repeats(s.Trials)
	for _, n := range s.Fidelity.Notes {
		b.wrap("  ", "note: %s", n)
	}
}

// repeats prints which trials were repeated, and what spoiled the earlier attempts.
func (b *output) repeats(trials []results.Trial) {
	repeated := slices.DeleteFunc(slices.Clone(trials), func(t results.Trial) bool { return len(t.Spoiled) == 0 })
	if len(repeated) == 0 {
		return
	}
	were := "were"
	if len(repeated) == 1 {
		were = "was"
	}
	b.wrap("  ", "%d of %d trials %s repeated, since something outside of the experiment spoiled an attempt, which no figure contains:",
		len(repeated), len(trials), were)
	for _, t := range repeated {
		for _, a := range t.Spoiled {
			b.wrap("    ", "%s, seed %d, attempt %d: %s (%s)", t.Policy, t.Seed, a.Attempt, strings.Join(a.Reasons, "; "), a.File)
		}
	}
}

// measured lists a run's measurements of its own quality.
func measured(f *results.FidelityFigures) []string {
	parts := []string{fmt.Sprintf("CPU %.0f%% idle", f.IdlePct), fmt.Sprintf("timers at most %.1f ms late", f.TimerLateMS)}
	if c := f.Calibration; c != nil && len(c.Lone) > 0 {
		var lone []string
		for _, l := range c.Lone {
			lone = append(lone, fmt.Sprintf("%+.1f%% (tier %d)", l.OffPct, l.Tier))
		}
		parts = append(parts, "lone transfers "+strings.Join(lone, ", ")+" from ideal")
	}
	parts = append(parts, fmt.Sprintf("bytes of every link within %.1f%% of the recorded paths", f.StrayBytesPct))
	for _, t := range f.Oracle {
		parts = append(parts, fmt.Sprintf("background of tier %d %.1f%% (asked %.1f%%), told within %.1f points", t.Tier, t.TruePct, t.AskedPct, t.ErrorPoints))
	}
	return parts
}

// Flows prints one row per explicit flow and seed, with the transfer times of the worlds side by
// side and the ratio of the packet world's to the flow world's. A flow that did not complete has
// its status in the row and its reason below.
func Flows(w io.Writer, records []results.Record, o Options) error {
	t := newTable(
		column{head: "flow"}, column{head: "seed", rank: 3}, column{head: "from", left: true}, column{head: "to", left: true},
		column{head: "tier", rank: 2}, column{head: "start ms"}, column{head: "bytes"}, column{head: "packet ms"},
		column{head: "flow ms"}, column{head: "replay ms"}, column{head: "packet/flow"}, column{head: "retransmits", rank: 1},
	)
	rows := groupFlows(records)
	for _, f := range rows {
		packet, flow, replay := f[results.WorldPacket], f[results.WorldFlow], f[results.WorldReplay]
		one := cmp.Or(packet, flow, replay, &results.Record{}) // for columns that are equal in all worlds
		tier := "-"
		if one.Tier >= 0 {
			tier = fmt.Sprint(one.Tier)
		}
		t.add(fmt.Sprint(one.ID), fmt.Sprint(one.Seed), one.Prefill, one.Decode, tier, number(one.ArrivalMS), size(one.PayloadBytes),
			known(packet, took), known(flow, took), known(replay, took), quotient(packet, flow),
			known(packet, func(r results.Record) string { return fmt.Sprint(r.Retransmits) }))
	}
	t.dropEmpty()
	b := newOutput(o)
	b.table(t)
	for _, f := range rows {
		for _, world := range worldOrder {
			if r := f[world]; r != nil && r.Status != results.Completed {
				b.wrap("  ", "flow %d, seed %d, %s: %s: %s", r.ID, r.Seed, world, r.Status, r.Reason)
			}
		}
	}
	return b.print(w, "flows")
}

// groupFlows groups the worlds' records by flow, sorted by seed and id.
func groupFlows(records []results.Record) []map[string]*results.Record {
	sorted := make([]*results.Record, len(records))
	for i := range records {
		sorted[i] = &records[i]
	}
	compare := func(a, b *results.Record) int { return cmp.Or(cmp.Compare(a.Seed, b.Seed), cmp.Compare(a.ID, b.ID)) }
	slices.SortStableFunc(sorted, compare)
	var out []map[string]*results.Record
	for i, r := range sorted {
		if i == 0 || compare(sorted[i-1], r) != 0 {
			out = append(out, map[string]*results.Record{})
		}
		out[len(out)-1][r.World] = r
	}
	return out
}

func took(r results.Record) string {
	if r.Status != results.Completed {
		return r.Status
	}
	return number(r.TransferMS)
}

func quotient(packet, flow *results.Record) string {
	if packet == nil || flow == nil || packet.Status != results.Completed || flow.Status != results.Completed || flow.TransferMS == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", packet.TransferMS/flow.TransferMS)
}
