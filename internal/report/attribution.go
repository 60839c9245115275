package report

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/netkvlab/netkvlab/internal/results"
)

// attribution prints the causes of the gap: the waterfall of the means, that of the gains, and
// how packets changed each class of transfer.
func attribution(b *bytes.Buffer, s *results.Summary, o Options) {
	a := s.Attribution
	if a == nil {
		return
	}
	b.WriteByte('\n')
	wrap(b, fmt.Sprintf("where the gap comes from (seeds %s, paired by request; each step is a run with one thing more of the packet "+
		"world, the steps add up to packet - tier model; * after a step: its 95 %% interval excludes 0)", seedList(a.Seeds)), "", o.width())
	waterfalls(b, "mean", "ms", a.Means, o)
	shown, hidden := chosen(a.Gains)
	waterfalls(b, "gain", "steps in pp", shown, o)
	if hidden > 0 {
		wrap(b, fmt.Sprintf("%d further comparisons are in the run folder's summary", hidden), "  ", o.width())
	}
	decisions(b, a, o.width())
	transport(b, a, o)
}

// mostGains bounds the comparisons in the text; more would be hard to read.
const mostGains = 12

// chosen keeps only the comparisons with the first baseline if there are too many.
func chosen(gains []results.Waterfall) (shown []results.Waterfall, hidden int) {
	if len(gains) <= mostGains {
		return gains, 0
	}
	for i := range gains {
		if gains[i].Baseline == gains[0].Baseline {
			shown = append(shown, gains[i])
		}
	}
	return shown, len(gains) - len(shown)
}

// waterfalls prints one row per waterfall. The steps have no rank: a sum must show all of its
// parts.
func waterfalls(b *bytes.Buffer, what, unit string, list []results.Waterfall, o Options) {
	steps := stepNames(list)
	if steps == nil {
		return
	}
	columns := []column{{head: fmt.Sprintf("%s (%s)", what, unit), left: true}, {head: "metric", left: true}, {head: "tier"}}
	for _, name := range steps {
		columns = append(columns, column{head: name})
	}
	t := newTable(append(columns, column{head: "packet"}, column{head: "gap ± 95 %", rank: 1})...)
	once := nameOnce()
	for i := range list {
		w := &list[i]
		t.add(waterfallRow(w, once(w.Policy, w.Baseline), len(steps))...)
	}
	b.WriteByte('\n')
	t.render(b, o.width())
	for i := range list {
		if w := &list[i]; w.Reason != "" {
			wrap(b, fmt.Sprintf("%s %s: %s", w.Policy, metricName(w.Metric), w.Reason), "  ", o.width())
		} else if w.NotCompared > 0 && w.Metric == results.MetricTransfer {
			wrap(b, fmt.Sprintf("%s: %d requests did not complete in every stage and are left out", w.Policy, w.NotCompared), "  ", o.width())
		}
	}
}

func waterfallRow(w *results.Waterfall, name string, steps int) []string {
	cells := []string{name, metricName(w.Metric)}
	if w.Reason != "" {
		for range steps + 3 {
			cells = append(cells, "-")
		}
		return cells
	}
	level := number
	if w.Unit == "pp" {
		level = func(v float64) string { return signed(v) + "%" }
	}
	cells = append(cells, level(w.Levels[0].Value))
	for _, s := range w.Steps {
		text := signed(s.Value)
		if s.CI95 != nil && (s.Value > *s.CI95 || -s.Value > *s.CI95) {
			text += "*"
		} else {
			text += " " // keeps the digits aligned
		}
		cells = append(cells, text)
	}
	return append(cells, level(w.Levels[len(w.Levels)-1].Value), change(w.Gap, w.GapCI95, ""))
}

// stepNames returns the step names of the first waterfall with steps; nil if there is none.
func stepNames(list []results.Waterfall) []string {
	for i := range list {
		var names []string
		for _, s := range list[i].Steps {
			names = append(names, s.Name)
		}
		if names != nil {
			return names
		}
	}
	return nil
}

func decisions(b *bytes.Buffer, a *results.Attribution, width int) {
	if len(a.Decisions) == 0 {
		return
	}
	text := "requests sent to another decode instance than in the flow world:"
	for i, d := range a.Decisions {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(" %s %d of %d", d.Policy, d.Different, d.Requests)
		if s := luck(a, d.Policy); d.Different > 0 && s != nil {
			text += fmt.Sprintf(" (mean transfer %s ms from that of other tie-breaks, luck alone ± %.1f)", signed(*s.Wide), *s.WideCI95)
		}
	}
	wrap(b, text, "", width)
}

// luck finds the decisions step of a policy's mean transfer, if it was compared with other
// draws.
func luck(a *results.Attribution, policy string) *results.Step {
	for i := range a.Means {
		w := &a.Means[i]
		if w.Policy != policy || w.Metric != results.MetricTransfer {
			continue
		}
		for j := range w.Steps {
			if s := &w.Steps[j]; s.Name == "decisions" && s.Wide != nil && s.WideCI95 != nil {
				return s
			}
		}
	}
	return nil
}

// transport prints the classes over all policies, and the check of transfers that met no other.
func transport(b *bytes.Buffer, a *results.Attribution, o Options) {
	t := newTable(column{head: "transfers that", left: true}, column{head: "number"},
		column{head: "packet/replay p50"}, column{head: "p90"}, column{head: "of the mean, ms"})
	for _, c := range a.Transport {
		if c.Policy == results.AllPolicies {
			t.add(className(c.Class), fmt.Sprint(c.N), fmt.Sprintf("%.3f", c.P50), fmt.Sprintf("%.3f", c.P90), signed(c.ExcessMS))
		}
	}
	if len(t.rows) == 0 {
		return
	}
	b.WriteByte('\n')
	t.render(b, o.width())
	if c := a.Alone; c != nil {
		verdict := "within"
		if !c.Within {
			verdict = "NOT within"
		}
		text := fmt.Sprintf("alone against ideal: %.2f %% off at the median, %.2f %% at the 99th percentile: %s %g %% and %g %%",
			c.P50Pct, c.P99Pct, verdict, c.LimitP50Pct, c.LimitP99Pct)
		if c.Streams > 1 {
			text += fmt.Sprintf(" (a transfer of %d streams still competes with itself, so the verdict goes by the median; transfer.streams=1 leaves the emulation alone)", c.Streams)
		}
		if c.BackUnknown > 0 {
			text += fmt.Sprintf("; of %d of them the acknowledgements' path is not known, and they may have waited there", c.BackUnknown)
		}
		wrap(b, text, "  ", o.width())
	}
	classPoints(b, a, o)
}

// classPoints prints how the classes change the gains in transfer time.
func classPoints(b *bytes.Buffer, a *results.Attribution, o Options) {
	columns := []column{{head: "transport (pp)", left: true}}
	var classes []string
	for _, c := range a.Transport {
		if c.Policy == results.AllPolicies {
			classes = append(classes, c.Class)
			columns = append(columns, column{head: c.Class})
		}
	}
	t := newTable(columns...)
	shown, _ := chosen(a.Gains)
	for i := range shown {
		w := &shown[i]
		if len(w.Steps) == 0 || w.Metric != results.MetricTransfer {
			continue
		}
		parts := map[string]string{}
		for _, c := range w.Steps[len(w.Steps)-1].Classes {
			parts[c.Class] = signed(c.Value)
		}
		row := []string{w.Policy + " vs " + w.Baseline}
		for _, class := range classes {
			row = append(row, cmp.Or(parts[class], "-"))
		}
		if len(parts) > 0 {
			t.add(row...)
		}
	}
	if len(t.rows) > 0 {
		b.WriteByte('\n')
		t.render(b, o.width())
	}
}

func className(class string) string {
	if name, ok := map[string]string{
		"alone": "were alone on their links", "unslowed": "shared no bottleneck", "ack-path": "met data on their ACKs' path", "newcomer": "were slowed as newcomers",
		"incumbent": "were slowed as incumbents", "both": "were slowed as both",
	}[class]; ok {
		return name
	}
	return class
}
