package report

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/netkvlab/netkvlab/internal/results"
)

// gains prints one row per comparison and metric.
func gains(b *bytes.Buffer, s *results.Summary, o Options) {
	if len(s.Gains) == 0 {
		return
	}
	b.WriteByte('\n')
	wrap(b, "gains, paired by seed and request (times: negative is faster; SLO: percentage points, positive is better; "+
		"gap = packet - flow = transport + decisions, over the same seeds)", "", o.width())
	t := newTable(
		column{head: "policy vs baseline", left: true}, column{head: "metric", left: true},
		column{head: "packet"}, column{head: "flow"}, column{head: "flow, all seeds", rank: 3}, column{head: "gap pp"},
		column{head: "transport", rank: 2}, column{head: "decisions", rank: 2}, column{head: "not ok", rank: 1},
	)
	pair := ""
	for i := range s.Gains {
		g := &s.Gains[i]
		name := g.Policy + " vs " + g.Baseline
		shown := name
		if name == pair {
			shown = ""
		}
		pair = name
		t.add(shown, metricName(g.Metric), change(g.PacketPct, g.PacketCI95, g.Unit), flowPaired(g), flowAll(g),
			points(g.GapPP), points(g.TransportPP), points(g.DecisionsPP), notCompleted(g))
	}
	t.dropEmpty()
	t.render(b, o.width())
	missing(b, s, o.width())
}

// flowPaired is the flow world's gain over the packet run's seeds.
func flowPaired(g *results.Gain) string {
	if g.FlowPairedPct != nil {
		return change(g.FlowPairedPct, g.FlowPairedCI95, g.Unit)
	}
	return change(g.FlowPct, g.FlowCI95, g.Unit)
}

// flowAll is the flow world's gain over all its seeds, if these are more.
func flowAll(g *results.Gain) string {
	if g.FlowPairedPct == nil {
		return "-"
	}
	return change(g.FlowPct, g.FlowCI95, g.Unit)
}

// missing prints why a gain has no figure, once per comparison and world.
func missing(b *bytes.Buffer, s *results.Summary, width int) {
	said := map[string]bool{}
	for i := range s.Gains {
		g := &s.Gains[i]
		for _, w := range worlds(s) {
			reason := g.Worlds[w].Reason
			if reason == "" {
				continue
			}
			line := fmt.Sprintf("%s vs %s, %s: %s", g.Policy, g.Baseline, w, reason)
			if !said[line] {
				said[line] = true
				wrap(b, line, "  ", width)
			}
		}
	}
}

func metricName(metric string) string {
	switch metric {
	case results.MetricTTFT:
		return "TTFT"
	case results.MetricTransfer:
		return "transfer"
	case results.MetricSLO:
		return "SLO"
	default:
		return metric
	}
}

// change always shows the interval, since a gain without one proves nothing.
func change(value, ci *float64, unit string) string {
	if value == nil {
		return "-"
	}
	text := signed(*value) + " ± ?"
	if ci != nil {
		text = fmt.Sprintf("%s ± %.1f", signed(*value), *ci)
	}
	return strings.TrimRight(text+" "+unit, " ")
}

func points(v *float64) string {
	if v == nil {
		return "-"
	}
	return signed(*v)
}

// signed rounds to a tenth; zero has no sign.
func signed(v float64) string {
	text := fmt.Sprintf("%+.1f", v)
	if text == "-0.0" || text == "+0.0" {
		return "0.0"
	}
	return text
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
