package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/netkvlab/netkvlab/internal/results"
)

// attribution prints the causes of the gap: the waterfall of the means, that of the gains, and
// how packets changed each class of transfer.
func (b *output) attribution(a *results.Attribution) {
	if a == nil {
		return
	}
	b.WriteByte('\n')
	b.wrap("", "where the gap comes from (seeds %s, paired by request; each step is a run with one thing more of the packet "+
		"world, the steps add up to packet - tier model; * after a step: its 95 %% interval excludes 0)", seedList(a.Seeds))
	b.waterfalls("mean (ms)", a.Means)
	shown := chosen(a.Gains)
	b.waterfalls("gain (steps in pp)", shown)
	if hidden := len(a.Gains) - len(shown); hidden > 0 {
		b.wrap("  ", "%d further comparisons are in the run folder's summary", hidden)
	}
	b.decisions(a)
	b.transport(a)
}

// mostGains bounds the comparisons in the text; more would be hard to read.
const mostGains = 12

// chosen keeps only the comparisons with the first baseline if there are too many.
func chosen(gains []results.Waterfall) []results.Waterfall {
	if len(gains) <= mostGains {
		return gains
	}
	return slices.DeleteFunc(slices.Clone(gains), func(w results.Waterfall) bool { return w.Baseline != gains[0].Baseline })
}

// waterfalls prints one row per waterfall. The steps have no rank: a sum must show all of its
// parts.
func (b *output) waterfalls(what string, list []results.Waterfall) {
	complete := slices.IndexFunc(list, func(w results.Waterfall) bool { return len(w.Steps) > 0 })
	if complete < 0 {
		return
	}
	columns := []column{{head: what, left: true}, {head: "metric", left: true}, {head: "tier"}}
	for _, step := range list[complete].Steps {
		columns = append(columns, column{head: step.Name})
	}
	t := newTable(append(columns, column{head: "packet"}, column{head: "gap ± 95 %", rank: 1})...)
	once := nameOnce()
	for i := range list {
		w := &list[i]
		cells := []string{once(w.Policy, w.Baseline), metricName(w.Metric)}
		if w.Reason != "" {
			cells = append(cells, slices.Repeat([]string{"-"}, len(list[complete].Steps)+3)...)
		} else {
			cells = append(cells, levelsAndSteps(w)...)
		}
		t.add(cells...)
	}
	b.WriteByte('\n')
	b.table(t)
	for i := range list {
		if w := &list[i]; w.Reason != "" {
			b.wrap("  ", "%s %s: %s", w.Policy, metricName(w.Metric), w.Reason)
		} else if w.NotCompared > 0 && w.Metric == results.MetricTransfer {
			b.wrap("  ", "%s: %d requests did not complete in every stage and are left out", w.Policy, w.NotCompared)
		}
	}
}

// levelsAndSteps are the first level, the steps, the last level and the gap.
func levelsAndSteps(w *results.Waterfall) []string {
	level := number
	if w.Unit == "pp" {
		level = func(v float64) string { return signed(v) + "%" }
	}
	cells := []string{level(w.Levels[0].Value)}
	for _, s := range w.Steps {
		mark := " " // keeps the digits aligned
		if s.CI95 != nil && (s.Value > *s.CI95 || -s.Value > *s.CI95) {
			mark = "*"
		}
		cells = append(cells, signed(s.Value)+mark)
	}
	return append(cells, level(w.Levels[len(w.Levels)-1].Value), change(w.Gap, w.GapCI95, ""))
}

func (b *output) decisions(a *results.Attribution) {
	var counts []string
	for _, d := range a.Decisions {
		text := fmt.Sprintf("%s %d of %d", d.Policy, d.Different, d.Requests)
		if s := luck(a, d.Policy); d.Different > 0 && s != nil {
			text += fmt.Sprintf(" (mean transfer %s ms from that of other tie-breaks, luck alone ± %.1f)", signed(*s.Wide), *s.WideCI95)
		}
		counts = append(counts, text)
	}
	if counts != nil {
		b.wrap("", "requests sent to another decode instance than in the flow world: %s", strings.Join(counts, ", "))
	}
}

// luck finds the decisions step of a policy's mean transfer, if it was compared with other
// draws.
func luck(a *results.Attribution, policy string) *results.Step {
	for _, w := range a.Means {
		for _, s := range w.Steps {
			if w.Policy == policy && w.Metric == results.MetricTransfer && s.Name == "decisions" && s.Wide != nil && s.WideCI95 != nil {
				return &s
			}
		}
	}
	return nil
}

// transport prints the classes over all policies, and the check of transfers that met no other.
func (b *output) transport(a *results.Attribution) {
	t := newTable(column{head: "transfers that", left: true}, column{head: "number"},
		column{head: "packet/replay p50"}, column{head: "p90"}, column{head: "of the mean, ms"})
	var classes []string
	for _, c := range a.Transport {
		if c.Policy == results.AllPolicies {
			classes = append(classes, c.Class)
			t.add(cmp.Or(classNames[c.Class], c.Class), fmt.Sprint(c.N), fmt.Sprintf("%.3f", c.P50), fmt.Sprintf("%.3f", c.P90), signed(c.ExcessMS))
		}
	}
	if classes == nil {
		return
	}
	b.WriteByte('\n')
	b.table(t)
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
		b.wrap("  ", "%s", text)
	}
	b.classPoints(chosen(a.Gains), classes)
}

// classPoints prints how the classes change the gains in transfer time.
func (b *output) classPoints(gains []results.Waterfall, classes []string) {
	columns := []column{{head: "transport (pp)", left: true}}
	for _, class := range classes {
		columns = append(columns, column{head: class})
	}
	t := newTable(columns...)
	for i := range gains {
		w := &gains[i]
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
	if len(t.rows) > 1 {
		b.WriteByte('\n')
		b.table(t)
	}
}

var classNames = map[string]string{
	"alone": "were alone on their links", "unslowed": "shared no bottleneck", "ack-path": "met data on their ACKs' path",
	"newcomer": "were slowed as newcomers", "incumbent": "were slowed as incumbents", "both": "were slowed as both",
}
