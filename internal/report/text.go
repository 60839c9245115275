package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/netkvlab/netkvlab/internal/results"
)

// defaultWidth fits half a screen, and a log in CI.
const defaultWidth = 100

// Options say how to render.
type Options struct {
	// Width is the terminal's width in columns; 0 means 100. Tables drop their less important
	// columns to stay within it.
	Width int
	// Color marks verdicts with ANSI colours. Set it only for a terminal.
	Color bool
	// Folder is the run folder's path, shown at the end; empty shows none.
	Folder string
}

func (o Options) width() int {
	if o.Width <= 0 {
		return defaultWidth
	}
	return o.Width
}

// Text prints the summary of a run: one table per world with one row per policy, the paired
// gains, the fidelity verdict and the path of the run folder. A missing figure shows as "-",
// with its reason below the table.
func Text(w io.Writer, s *results.Summary, o Options) error {
	var b bytes.Buffer
	heading(&b, s, o)
	for _, world := range worlds(s) {
		fmt.Fprintf(&b, "\n%s\n", worldTitle(world))
		policyTable(s, world).render(&b, o.width())
		reasons(&b, s, world, o.width())
	}
	gains(&b, s, o)
	attribution(&b, s, o)
	verdict(&b, s, o)
	if o.Folder != "" {
		fmt.Fprintf(&b, "\nrun folder: %s\n", o.Folder)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return nil
}

// heading prints what ran and the units of the figures.
func heading(b *bytes.Buffer, s *results.Summary, o Options) {
	noun := "seeds"
	if len(s.Seeds) == 1 {
		noun = "seed"
	}
	wrap(b, fmt.Sprintf("%s: %s %s; netkvlab %s", s.Scenario, noun, seedList(s.Seeds), s.Version), "", o.width())
	wrap(b, fmt.Sprintf("scale: S = %s (emulated bytes and rates are the paper's / S), T = %s (emulated seconds are the paper's x T)",
		plain(s.Scale.Rate), plain(s.Scale.Time)), "", o.width())
	wrap(b, "times are paper milliseconds, mean ± half width of its 95 % interval; moved counts emulated bytes; SLO "+thresholds(s.SLO), "", o.width())
	if s.Interrupted {
		wrap(b, "INTERRUPTED: the figures cover what had finished by then", "", o.width())
	}
}

func seedList(seeds []uint64) string {
	text := make([]string, len(seeds))
	for i, seed := range seeds {
		text[i] = fmt.Sprint(seed)
	}
	return strings.Join(text, ", ")
}

func thresholds(slo results.SLOMS) string {
	var parts []string
	if slo.TTFTMS != nil {
		parts = append(parts, "TTFT <= "+plain(*slo.TTFTMS)+" ms")
	}
	if slo.TBTMS != nil {
		parts = append(parts, "TBT <= "+plain(*slo.TBTMS)+" ms")
	}
	if parts == nil {
		return "has no threshold"
	}
	return strings.Join(parts, ", ")
}

// worlds lists the worlds of a summary, the known ones first.
func worlds(s *results.Summary) []string {
	known := []string{results.WorldPacket, results.WorldFlow, results.WorldReplay}
	var out, others []string
	for _, w := range known {
		if _, ok := s.Worlds[w]; ok {
			out = append(out, w)
		}
	}
	for w := range s.Worlds {
		if !slices.Contains(known, w) {
			others = append(others, w)
		}
	}
	slices.Sort(others)
	return append(out, others...)
}

func worldTitle(world string) string {
	switch world {
	case results.WorldPacket:
		return "packet world (TCP over the emulated fabric)"
	case results.WorldFlow:
		return "flow world (max-min fair fluid model)"
	case results.WorldReplay:
		return "replay (fluid model with the packet world's decisions, starts and paths)"
	default:
		return world + " world"
	}
}

// policyTable has one row per policy. Columns are dropped from the highest rank down.
func policyTable(s *results.Summary, world string) *table {
	t := newTable(
		column{head: "policy", left: true}, column{head: "ok"}, column{head: "failed"},
		column{head: "TTFT"}, column{head: "p50", rank: 4}, column{head: "p99", rank: 1},
		column{head: "transfer"}, column{head: "TBT", rank: 2}, column{head: "SLO %"},
		column{head: "tier 0/1/2/3 %", rank: 3}, column{head: "moved", rank: 5},
	)
	for _, policy := range s.Policies {
		g := s.Worlds[world][policy]
		if g == nil {
			continue
		}
		t.add(policy, fmt.Sprint(g.Requests.Completed), failures(g.Requests),
			interval(g.TTFT), p50(g.TTFT), p99(g.TTFT), interval(g.Transfer), mean(g.TBT),
			percent(g.SLOAttainment), tiers(g.TierShare), size(g.BytesMoved))
	}
	return t
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

// reasons prints why figures are missing and why requests failed.
func reasons(b *bytes.Buffer, s *results.Summary, world string, width int) {
	const most = 3
	for _, policy := range s.Policies {
		g := s.Worlds[world][policy]
		if g == nil {
			continue
		}
		if g.Reason != "" {
			wrap(b, fmt.Sprintf("%s: %s", policy, g.Reason), "  ", width)
		}
		why := make([]string, 0, len(g.FailureReasons))
		for r := range g.FailureReasons {
			why = append(why, r)
		}
		slices.SortFunc(why, func(x, y string) int { // most frequent first
			if d := g.FailureReasons[y] - g.FailureReasons[x]; d != 0 {
				return d
			}
			return strings.Compare(x, y)
		})
		for i, r := range why {
			if i == most {
				wrap(b, fmt.Sprintf("%s: and %d other reasons", policy, len(why)-most), "  ", width)
				break
			}
			wrap(b, fmt.Sprintf("%s: %d x %s", policy, g.FailureReasons[r], r), "  ", width)
		}
	}
}

// verdict prints the fidelity line and its reasons.
func verdict(b *bytes.Buffer, s *results.Summary, o Options) {
	text := s.Fidelity.Verdict
	if o.Color {
		text = colored(text)
	}
	fmt.Fprintf(b, "\nfidelity: %s\n", text)
	for _, r := range s.Fidelity.Reasons {
		wrap(b, r, "  ", o.width())
	}
	if text := figures(s.Fidelity.Figures); text != "" {
		wrap(b, text, "  ", o.width())
	}
	repeats(b, s.Trials, o)
	for _, n := range s.Fidelity.Notes {
		wrap(b, "note: "+n, "  ", o.width())
	}
}

// repeats prints which trials were repeated, and what spoiled the earlier attempts.
func repeats(b *bytes.Buffer, trials []results.Trial, o Options) {
	repeated := slices.DeleteFunc(slices.Clone(trials), func(t results.Trial) bool { return len(t.Spoiled) == 0 })
	if len(repeated) == 0 {
		return
	}
	were := "were"
	if len(repeated) == 1 {
		were = "was"
	}
	wrap(b, fmt.Sprintf("%d of %d trials %s repeated, since something outside of the experiment spoiled an attempt, which no figure contains:",
		len(repeated), len(trials), were), "  ", o.width())
	for _, t := range repeated {
		for _, a := range t.Spoiled {
			wrap(b, fmt.Sprintf("%s, seed %d, attempt %d: %s (%s)", t.Policy, t.Seed, a.Attempt, strings.Join(a.Reasons, "; "), a.File), "    ", o.width())
		}
	}
}

// figures describes a run's measurements of its own quality in a sentence.
func figures(f *results.FidelityFigures) string {
	if f == nil || f.Windows == 0 {
		return ""
	}
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
	return "measured: " + strings.Join(parts, ", ")
}

func colored(verdict string) string {
	code := map[string]string{results.VerdictGood: "32", results.VerdictDegraded: "33", results.VerdictInvalid: "31"}[verdict]
	if code == "" {
		return verdict
	}
	return "\x1b[" + code + "m" + verdict + "\x1b[0m"
}
