package paper

import (
	"fmt"
	"math"
	"strings"
)

// line is one row of a comparison: the paper's figure and those of our worlds.
type line struct {
	what    []string
	paper   float64 // NaN: not in the paper
	flow    float64
	ci      float64
	packet  float64
	measure measure
}

// measure says how a figure and its deviation are written.
type measure struct {
	digits int
	// points: the deviation is a difference in these units, not relative.
	points string
	signed bool
	factor float64 // of a change: see Table.Change
}

var (
	milliseconds = measure{digits: 0}
	steps        = measure{digits: 2}
	share        = measure{digits: 3, points: "pp"}
	percent      = measure{digits: 1, points: "pp", signed: true}
	points       = measure{digits: 1, points: "pp", signed: true, factor: 100}
)

func (m measure) text(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	if m.signed {
		return fmt.Sprintf("%+.*f", m.digits, v)
	}
	return fmt.Sprintf("%.*f", m.digits, v)
}

// deviation is the deviation of our figure from the paper's.
func (m measure) deviation(ours, paper float64) string {
	switch {
	case math.IsNaN(ours) || math.IsNaN(paper):
		return "-"
	case m.signed:
		return fmt.Sprintf("%+.1f pp", ours-paper)
	case m.points != "":
		return fmt.Sprintf("%+.1f pp", 100*(ours-paper))
	}
	return fmt.Sprintf("%+.1f %%", 100*(ours/paper-1))
}

// compareTable writes lines as a table with the columns that every comparison has.
func compareTable(b *page, heads []string, lines []line) {
	fmt.Fprintf(b, "| %s | paper | our flow world | our packet world | deviation of the flow world |\n", strings.Join(heads, " | "))
	fmt.Fprintf(b, "|%s\n", strings.Repeat("---|", len(heads)+4))
	for _, l := range lines {
		flow := l.measure.text(l.flow)
		if !math.IsNaN(l.ci) && l.ci > 0 {
			flow += fmt.Sprintf(" ± %.*f", l.measure.digits, l.ci)
		}
		packet := "not run"
		if !math.IsNaN(l.packet) {
			packet = l.measure.text(l.packet)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", strings.Join(l.what, " | "), l.measure.text(l.paper), flow, packet, l.measure.deviation(l.flow, l.paper))
	}
	b.WriteString("\n")
}

// cellLine compares a metric of one policy.
func (d *Data) cellLine(table string, labels []string, policy, metric string, paper float64, m measure) line {
	t := d.Tables[table]
	flow, ci := t.Mean(labels, policy, metric)
	return line{
		what: append(append([]string{}, labels...), "`"+policy+"`"), paper: paper, flow: flow, ci: ci,
		packet: d.packet(table, labels, policy, metric), measure: m,
	}
}

// pair is a policy and the one that it is compared with.
type pair struct{ policy, baseline string }

// changeLine compares a change between two policies.
func (d *Data) changeLine(table string, labels []string, of pair, metric string, paper float64, m measure) line {
	flow, ci := d.Tables[table].Change(labels, of.policy, of.baseline, metric, m.factor)
	p, b := d.packet(table, labels, of.policy, metric), d.packet(table, labels, of.baseline, metric)
	packet := 100 * (p/b - 1)
	if m.factor != 0 {
		packet = m.factor * (p - b)
	}
	return line{
		what: append(append([]string{}, labels...), "`"+of.baseline+"`"), paper: paper, flow: flow, ci: ci, packet: packet, measure: m,
	}
}
