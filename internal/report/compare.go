package report

import (
	"fmt"
	"io"
	"slices"

	"github.com/netkvlab/netkvlab/internal/analysis/compare"
)

// Compare prints the sources, each policy's mean and each gain in all of them, the gaps to the
// first source, and what limits the comparison.
func Compare(w io.Writer, c *compare.Comparison, o Options) error {
	b := newOutput(o)
	for i := range c.Sources {
		s := &c.Sources[i]
		text := fmt.Sprintf("%s  %s", compare.Letter(i), s.Name)
		if s.World != "" {
			text += fmt.Sprintf(": %s, %s world", s.Scenario, s.World)
		}
		if s.Verdict != "" {
			text += ", fidelity " + s.Verdict
		}
		b.wrap("", "%s; %d of %d requests completed", text, s.Completed, s.Requests)
	}
	b.WriteByte('\n')
	b.wrap("", "mean times in paper ms, ± half width of the 95 %% interval")
	b.compared("policy", c, c.Means)
	if len(c.Gains) > 0 {
		b.WriteByte('\n')
		b.wrap("", "gains (negative is faster) in %%, and gaps in percentage points")
		b.compared("policy vs baseline", c, c.Gains)
	}
	if len(c.Notes) > 0 {
		b.WriteByte('\n')
	}
	for _, n := range c.Notes {
		b.wrap("", "note: %s", n)
	}
	return b.print(w, "comparison")
}

func (b *output) compared(what string, c *compare.Comparison, list []compare.Row) {
	columns := []column{{head: what, left: true}, {head: "metric", left: true}}
	for i := range c.Sources {
		columns = append(columns, column{head: compare.Letter(i)})
	}
	for i := 1; i < len(c.Sources); i++ {
		columns = append(columns, column{head: fmt.Sprintf("gap %s - A", compare.Letter(i))})
	}
	t := newTable(append(columns, column{head: "requests", rank: 1})...)
	once := nameOnce()
	for i := range list {
		r := &list[i]
		cells := []string{once(r.Policy, r.Baseline), metricName(r.Metric)}
		if r.Reason != "" {
			t.add(append(cells, slices.Repeat([]string{"-"}, 2*len(c.Sources))...)...)
			continue
		}
		for _, v := range r.Values {
			if r.Baseline == "" {
				cells = append(cells, interval(v.Value, v.CI95))
			} else {
				cells = append(cells, change(&v.Value, v.CI95, ""))
			}
		}
		for _, v := range r.Gaps {
			cells = append(cells, change(&v.Value, v.CI95, ""))
		}
		requests := fmt.Sprint(r.Values[0].Requests)
		if !r.Paired {
			requests = "unpaired"
		}
		t.add(append(cells, requests)...)
	}
	b.table(t)
	for i := range list {
		if r := &list[i]; r.Reason != "" {
			b.wrap("  ", "%s %s: %s", r.Policy, metricName(r.Metric), r.Reason)
		}
	}
}
