package sweep

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"

	"github.com/netkvlab/netkvlab/internal/analysis"
)

// Map holds the numbers of a picture: one value per cell over two axes, NaN if missing.
type Map struct {
	Title  string
	X, Y   Axis        // with one axis Y has no name, and one value without a label
	Values [][]float64 // [y][x]
	Unit   string
	Better int  // -1 if less is better, 1 if more is better, 0 if neither
	Gain   bool // the values are changes, positive or negative
}

// Maps computes the pictures of a sweep from the rows of its first world, one per combination of
// values on the axes that are neither x nor y. With a baseline a value is the mean over seeds of
// the change on the same seed: in per cent, for shares in percentage points.
func Maps(s *Sweep, rows []Row) []Map {
	f := s.File.Figure
	x := slices.IndexFunc(s.File.Axes, func(a Axis) bool { return a.Name == f.X })
	y := slices.IndexFunc(s.File.Axes, func(a Axis) bool { return a.Name == f.Y })
	if x < 0 {
		return nil
	}
	figures, world := map[trial]float64{}, s.worldOf(s.Worlds()[0])
	for i := range rows {
		figures[rows[i].trial()] = rows[i].Value(f.Metric)
	}
	var maps []Map
	places := map[string]int{} // of the maps, by their further axes
	for i := range s.Cells {
		at, values := s.pick(i)
		row, rest := 0, ""
		for a, v := range values {
			if a == y {
				row = at[a]
			} else if a != x {
				rest += fmt.Sprintf(", %s %s", s.File.Axes[a].Name, v.Label)
			}
		}
		n, known := places[rest]
		if !known {
			n = len(maps)
			places[rest] = n
			maps = append(maps, s.newMap(x, y, rest))
		}
		m := &maps[n]
		var over []float64 // the seeds
		for _, seed := range s.Cells[i].Scenario.Seeds {
			v, ok := figures[trial{i, f.Policy, seed, world}]
			b, paired := figures[trial{i, f.Baseline, seed, world}]
			if ok && (paired || !m.Gain) {
				over = append(over, m.value(v, b))
			}
		}
		m.Values[row][at[x]], _ = analysis.Mean(over)
	}
	return maps
}

func (s *Sweep) newMap(x, y int, rest string) Map {
	f := s.File.Figure
	metric, _ := analysis.FindMetric(f.Metric) // checked when the sweep was loaded
	m := Map{X: s.File.Axes[x], Y: Axis{Values: []Value{{}}}, Unit: metric.Unit, Better: metric.Better, Gain: f.Baseline != ""}
	m.Title = fmt.Sprintf("%s of %s", f.Metric, f.Policy)
	if m.Gain {
		m.Title += " against " + f.Baseline
		m.Unit = "%"
		if metric.Unit == "share" {
			m.Unit = "pp"
		}
	}
	m.Title += rest
	if y >= 0 {
		m.Y = s.File.Axes[y]
	}
	for range m.Y.Values {
		m.Values = append(m.Values, make([]float64, len(m.X.Values)))
	}
	return m
}

// value returns a policy's figure, or its change against the baseline's.
func (m *Map) value(v, baseline float64) float64 {
	switch {
	case !m.Gain:
		return v
	case m.Unit == "pp":
		return 100 * (v - baseline)
	}
	return analysis.Change(v, baseline)
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
		width, cell := max(len(m.Y.Name), m.Y.longest()), max(8, m.X.longest()+2)
		fmt.Fprintf(w, "%s (%s)\n%-*s  %s\n%-*s", m.Title, m.Unit, width, "", m.X.Name, width, m.Y.Name)
		for _, x := range m.X.Values {
			fmt.Fprintf(w, "%*s", cell, x.Label)
		}
		fmt.Fprintln(w)
		for i, y := range m.Y.Values {
			fmt.Fprintf(w, "%-*s", width, y.Label)
			for _, v := range m.Values[i] {
				fmt.Fprintf(w, "%*s", cell, m.format(v))
			}
			fmt.Fprintln(w)
		}
	}
}

// longest is the length in bytes of the longest label.
func (a *Axis) longest() (n int) {
	for _, v := range a.Values {
		n = max(n, len(v.Label))
	}
	return n
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
	width, height := 520, svgGap
	for i := range maps {
		width = max(width, svgLeft+svgCellW*len(maps[i].X.Values)+svgGap)
		height += maps[i].svgHeight()
	}
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="13">`+"\n", width, height, width, height)
	fmt.Fprintf(w, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	top := svgGap
	for i := range maps {
		maps[i].svg(w, top)
		top += maps[i].svgHeight()
	}
	fmt.Fprintln(w, "</svg>")
}

func (m *Map) svgHeight() int { return svgTop + svgCellH*len(m.Y.Values) + svgGap }

func (m *Map) svg(w io.Writer, top int) {
	text := func(x, y int, anchor, extra, s string) {
		fmt.Fprintf(w, `<text x="%d" y="%d" text-anchor="%s"%s>%s</text>`+"\n", x, y, anchor, extra, html.EscapeString(s))
	}
	text(10, top+10, "start", ` font-weight="bold"`, fmt.Sprintf("%s (%s)", m.Title, m.Unit))
	text(svgLeft+svgCellW*len(m.X.Values)/2, top+32, "middle", ` fill="#555"`, m.X.Name)
	text(10, top+svgTop-8, "start", ` fill="#555"`, m.Y.Name)
	for x, v := range m.X.Values {
		text(svgLeft+svgCellW*x+svgCellW/2, top+svgTop-8, "middle", "", v.Label)
	}
	for y, of := range m.Y.Values {
		cy := top + svgTop + svgCellH*y
		text(svgLeft-8, cy+svgCellH/2+5, "end", "", of.Label)
		for x, v := range m.Values[y] {
			cx := svgLeft + svgCellW*x
			fill, colour := m.colour(v)
			fmt.Fprintf(w, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s" stroke="#fff"/>`+"\n", cx, cy, svgCellW, svgCellH, fill)
			text(cx+svgCellW/2, cy+svgCellH/2+5, "middle", ` fill="`+colour+`"`, m.format(v))
		}
	}
}

// colour returns the fill colour of a value and a text colour that is readable on it.
func (m *Map) colour(v float64) (fill, text string) {
	if math.IsNaN(v) {
		return "#eeeeee", "#888888"
	}
	t := 0.0
	if middle, reach := m.scale(); reach > 0 {
		t = max(-1, min(1, (v-middle)/reach))
	}
	if m.Better < 0 {
		t = -t
	}
	// From white to a blue or a red that colour-blind readers can distinguish.
	end := [3]float64{0x21, 0x66, 0xac}
	if t < 0 {
		end = [3]float64{0xb2, 0x18, 0x2b}
	}
	fill = "#"
	for _, c := range end {
		fill += fmt.Sprintf("%02x", int(math.Round(255+(c-255)*math.Abs(t))))
	}
	if math.Abs(t) > 0.6 {
		return fill, "#ffffff"
	}
	return fill, "#222222"
}

// scale returns the value that is white, and the distance from it at which the colour is full.
func (m *Map) scale() (middle, reach float64) {
	known := slices.DeleteFunc(slices.Concat(m.Values...), math.IsNaN)
	low, high := slices.Min(known), slices.Max(known)
	if m.Gain {
		return 0, max(math.Abs(low), math.Abs(high))
	}
	return (low + high) / 2, (high - low) / 2
}
