package report

import (
	"bytes"
	"fmt"
	"io"

	"github.com/netkvlab/netkvlab/internal/analysis/compare"
)

// Compare prints the sources, each policy's mean and each gain in all of them, the gaps to the
// first source, and what limits the comparison.
func Compare(w io.Writer, c *compare.Comparison, o Options) error {
	var b bytes.Buffer
	for i := range c.Sources {
		s := &c.Sources[i]
		text := fmt.Sprintf("%s  %s", compare.Letter(i), s.Name)
		if s.World != "" {
			text += fmt.Sprintf(": %s, %s world", s.Scenario, s.World)
		}
		if s.Verdict != "" {
			text += ", fidelity " + s.Verdict
		}
		wrap(&b, fmt.Sprintf("%s; %d of %d requests completed", text, s.Completed, s.Requests), "", o.width())
	}
	b.WriteByte('\n')
	wrap(&b, "mean times in paper ms, ± half width of the 95 % interval", "", o.width())
	rows(&b, "policy", c, c.Means, o)
	if len(c.Gains) > 0 {
		b.WriteByte('\n')
		wrap(&b, "gains (negative is faster) in %, and gaps in percentage points", "", o.width())
		rows(&b, "policy vs baseline", c, c.Gains, o)
	}
	if len(c.Notes) > 0 {
		b.WriteByte('\n')
	}
	for _, n := range c.Notes {
		wrap(&b, "note: "+n, "", o.width())
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("print comparison: %w", err)
	}
	return nil
}

func rows(b *bytes.Buffer, what string, c *compare.Comparison, list []compare.Row, o Options) {
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
		t.add(compareRow(r, once(r.Policy, r.Baseline), len(c.Sources))...)
	}
	t.render(b, o.width())
	for i := range list {
		if r := &list[i]; r.Reason != "" {
			wrap(b, fmt.Sprintf("%s %s: %s", r.Policy, metricName(r.Metric), r.Reason), "  ", o.width())
		}
	}
}

func compareRow(r *compare.Row, name string, sources int) []string {
	cells := []string{name, metricName(r.Metric)}
	if r.Reason != "" {
		for range 2 * sources {
			cells = append(cells, "-")
		}
		return cells
	}
	for _, v := range r.Values {
		cells = append(cells, measured(v, r.Baseline != ""))
	}
	for _, v := range r.Gaps {
		cells = append(cells, change(&v.Value, v.CI95, ""))
	}
	requests := fmt.Sprint(r.Values[0].Requests)
	if !r.Paired {
		requests = "unpaired"
	}
	return append(cells, requests)
}

// measured is a mean in ms, or a gain in per cent.
func measured(v compare.Value, gain bool) string {
	if gain {
		return change(&v.Value, v.CI95, "")
	}
	d := decimals(v.Value)
	if v.CI95 == nil {
		return fmt.Sprintf("%.*f ± ?", d, v.Value)
	}
	return fmt.Sprintf("%.*f ± %.*f", d, v.Value, d, *v.CI95)
}
