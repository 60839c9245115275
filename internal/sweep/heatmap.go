package sweep

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/netkvlab/netkvlab/internal/analysis"
)

// Map holds the numbers of a picture: one value per cell over two axes, NaN if missing.
type Map struct {
	Title  string
	X, Y   string // axis names; Y is empty with one axis
	XLabel []string
	YLabel []string
	Values [][]float64 // [y][x]
	CI95   [][]float64 // half widths over seeds, NaN with one seed
	Unit   string
	// Better is -1 if less is better, 1 if more is better, 0 if neither.
	Better int
	Gain   bool // the values are changes, positive or negative
}

// Maps computes the pictures of a sweep from the rows of its first world, one per combination of
// values on the axes that are neither x nor y. With a baseline a value is the mean over seeds of
// the change on the same seed: in per cent, for shares in percentage points.
func Maps(s *Sweep, rows []Row) []Map {
	f := s.File.Figure
	axes := s.File.Axes
	x := slices.IndexFunc(axes, func(a Axis) bool { return a.Name == f.X })
	y := slices.IndexFunc(axes, func(a Axis) bool { return a.Name == f.Y })
	if x < 0 {
		return nil
	}
	type key struct {
		cell   int
		policy string
	}
	byCell := map[key]map[uint64]float64{}
	world := s.worldOf(s.Worlds()[0])
	for i := range rows {
		if rows[i].World != world {
			continue
		}
		k := key{rows[i].Cell, rows[i].Policy}
		if byCell[k] == nil {
			byCell[k] = map[uint64]float64{}
		}
		byCell[k][rows[i].Seed] = rows[i].Value(f.Metric)
	}
	var maps []Map
	at := map[string]int{}
	for i := range s.Cells {
		facet, px, py := place(axes, s.pick(i), x, y)
		n, ok := at[facet]
		if !ok {
			n = len(maps)
			at[facet] = n
			maps = append(maps, newMap(f, axes, x, y, facet))
		}
		m := &maps[n]
		seeds := s.Cells[i].Scenario.Seeds
		m.Values[py][px], m.CI95[py][px] = value(m, seeds, byCell[key{i, f.Policy}], byCell[key{i, f.Baseline}])
	}
	return maps
}

// place finds a cell's map and its square in it.
func place(axes []Axis, values []Value, x, y int) (facet string, px, py int) {
	var rest []string
	for i, v := range values {
		n := slices.IndexFunc(axes[i].Values, func(w Value) bool { return w.Label == v.Label })
		switch i {
		case x:
			px = n
		case y:
			py = n
		default:
			rest = append(rest, axes[i].Name+" "+v.Label)
		}
	}
	return strings.Join(rest, ", "), px, py
}

func newMap(f Figure, axes []Axis, x, y int, facet string) Map {
	metric, _ := analysis.FindMetric(f.Metric) // checked when the sweep was loaded
	m := Map{X: axes[x].Name, Unit: metric.Unit, Better: metric.Better, Title: fmt.Sprintf("%s of %s", f.Metric, f.Policy)}
	if f.Baseline != "" {
		m.Gain = true
		m.Title = fmt.Sprintf("%s of %s against %s", f.Metric, f.Policy, f.Baseline)
		m.Unit = "%"
		if metric.Unit == "share" {
			m.Unit = "pp"
		}
	}
	if facet != "" {
		m.Title += ", " + facet
	}
	for _, v := range axes[x].Values {
		m.XLabel = append(m.XLabel, v.Label)
	}
	m.YLabel = []string{""}
	if y >= 0 {
		m.Y, m.YLabel = axes[y].Name, nil
		for _, v := range axes[y].Values {
			m.YLabel = append(m.YLabel, v.Label)
		}
	}
	for range m.YLabel {
		row, ci := make([]float64, len(m.XLabel)), make([]float64, len(m.XLabel))
		for i := range row {
			row[i], ci[i] = math.NaN(), math.NaN()
		}
		m.Values, m.CI95 = append(m.Values, row), append(m.CI95, ci)
	}
	return m
}

func value(m *Map, seeds []uint64, policy, baseline map[uint64]float64) (mean, ci float64) {
	var values []float64
	for _, seed := range seeds {
		v, ok := policy[seed]
		if !ok {
			continue
		}
		if m.Gain {
			b, ok := baseline[seed]
			switch {
			case !ok:
				continue
			case m.Unit == "pp":
				v = 100 * (v - b)
			default:
				v = analysis.Change(v, b)
			}
		}
		values = append(values, v)
	}
	return analysis.Mean(values)
}

// format writes a value with about three digits, and a change with its sign.
func (m *Map) format(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case m.Gain:
		return fmt.Sprintf("%+.1f", v)
	case m.Unit == "share":
		return fmt.Sprintf("%.3f", v)
	case math.Abs(v) < 100:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// WriteText prints the maps as tables.
func WriteText(w io.Writer, maps []Map) {
	for i := range maps {
		m := &maps[i]
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s (%s)\n", m.Title, m.Unit)
		width := len(m.Y)
		for _, l := range m.YLabel {
			width = max(width, len(l))
		}
		cell := 8
		for _, l := range m.XLabel {
			cell = max(cell, len(l)+2)
		}
		fmt.Fprintf(w, "%-*s  %s\n%-*s", width, "", m.X, width, m.Y)
		for _, l := range m.XLabel {
			fmt.Fprintf(w, "%*s", cell, l)
		}
		fmt.Fprintln(w)
		for y, l := range m.YLabel {
			fmt.Fprintf(w, "%-*s", width, l)
			for _, v := range m.Values[y] {
				fmt.Fprintf(w, "%*s", cell, m.format(v))
			}
			fmt.Fprintln(w)
		}
	}
}

// The sizes of the SVG, in its own units.
const (
	svgCellW, svgCellH = 72, 34
	svgLeft, svgTop    = 110, 64
	svgGap             = 24
)

// WriteSVG draws the maps below each other, as one file without scripts or fonts. Blue is better
// and red worse (if less or more of the metric is better), relative to 0 for changes and to the
// middle of the map for plain values.
func WriteSVG(w io.Writer, maps []Map) {
	width, height := 0, svgGap
	for i := range maps {
		width = max(width, svgLeft+svgCellW*len(maps[i].XLabel)+svgGap)
		height += svgTop + svgCellH*len(maps[i].YLabel) + svgGap
	}
	width = max(width, 520)
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="13">`+"\n", width, height, width, height)
	fmt.Fprintf(w, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	top := svgGap
	for i := range maps {
		maps[i].svg(w, top)
		top += svgTop + svgCellH*len(maps[i].YLabel) + svgGap
	}
	fmt.Fprintln(w, "</svg>")
}

func (m *Map) svg(w io.Writer, top int) {
	text := func(x, y int, anchor, extra, s string) {
		fmt.Fprintf(w, `<text x="%d" y="%d" text-anchor="%s"%s>%s</text>`+"\n", x, y, anchor, extra, html.EscapeString(s))
	}
	text(10, top+10, "start", ` font-weight="bold"`, fmt.Sprintf("%s (%s)", m.Title, m.Unit))
	text(svgLeft+svgCellW*len(m.XLabel)/2, top+32, "middle", ` fill="#555"`, m.X)
	text(10, top+svgTop-8, "start", ` fill="#555"`, m.Y)
	for x, l := range m.XLabel {
		text(svgLeft+svgCellW*x+svgCellW/2, top+svgTop-8, "middle", "", l)
	}
	for y, l := range m.YLabel {
		cy := top + svgTop + svgCellH*y
		text(svgLeft-8, cy+svgCellH/2+5, "end", "", l)
		for x, v := range m.Values[y] {
			fill, ink := m.colour(v)
			fmt.Fprintf(w, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s" stroke="#fff"/>`+"\n",
				svgLeft+svgCellW*x, cy, svgCellW, svgCellH, fill)
			text(svgLeft+svgCellW*x+svgCellW/2, cy+svgCellH/2+5, "middle", ` fill="`+ink+`"`, m.format(v))
		}
	}
}

// colour returns the fill colour of a value and a text colour that is readable on it.
func (m *Map) colour(v float64) (fill, ink string) {
	if math.IsNaN(v) {
		return "#eeeeee", "#888888"
	}
	middle, reach := m.scale()
	t := 0.0
	if reach > 0 {
		t = (v - middle) / reach
	}
	if m.Better < 0 {
		t = -t
	}
	t = max(-1, min(1, t))
	// From white to a blue or a red that colour-blind readers can distinguish.
	end := [3]float64{0x21, 0x66, 0xac}
	if t < 0 {
		end = [3]float64{0xb2, 0x18, 0x2b}
	}
	var c [3]int
	for i := range c {
		c[i] = int(math.Round(255 + (end[i]-255)*math.Abs(t)))
	}
	ink = "#222222"
	if math.Abs(t) > 0.6 {
		ink = "#ffffff"
	}
	return fmt.Sprintf("#%02x%02x%02x", c[0], c[1], c[2]), ink
}

// scale returns the value that is white, and the distance from it at which the colour is full.
func (m *Map) scale() (middle, reach float64) {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, row := range m.Values {
		for _, v := range row {
			if !math.IsNaN(v) {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	}
	if m.Gain {
		return 0, max(math.Abs(lo), math.Abs(hi))
	}
	return (lo + hi) / 2, (hi - lo) / 2
}
