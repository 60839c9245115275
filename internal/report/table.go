package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// output collects the text of a report.
type output struct {
	bytes.Buffer
	Options
}

// defaultWidth fits half a screen, and a log in CI.
const defaultWidth = 100

func newOutput(o Options) *output {
	o.Width = cmp.Or(max(o.Width, 0), defaultWidth)
	return &output{Options: o}
}

// print writes the report; what names it in the error.
func (b *output) print(w io.Writer, what string) error {
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("print %s: %w", what, err)
	}
	return nil
}

// wrap prints text in lines of at most the report's width. All but the first are indented. Words
// longer than a line are not split, so that paths can be copied.
func (b *output) wrap(indent, format string, args ...any) {
	at := utf8.RuneCountInString(indent)
	b.WriteString(indent)
	start := true
	for word := range strings.FieldsSeq(clean(fmt.Sprintf(format, args...))) {
		n := utf8.RuneCountInString(word)
		if !start && at+1+n > b.Width {
			b.WriteString("\n" + indent + "  ")
			at, start = utf8.RuneCountInString(indent)+2, true
		}
		if !start {
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
		start = false
	}
	b.WriteByte('\n')
}

// column is one column of a table.
type column struct {
	head string
	left bool // text is aligned left, figures right
	// rank is the order of dropping: if space is short the highest rank is dropped first; 0 stays.
	rank int
}

// table aligns cells in columns two spaces apart. Its first row holds the heads.
type table struct {
	columns []column
	rows    [][]string
}

func newTable(columns ...column) *table {
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = c.head
	}
	return &table{columns: columns, rows: [][]string{heads}}
}

// longest is the most runes in a cell, since names come from users.
const longest = 36

// add appends a row, with one cell per column.
func (t *table) add(cells ...string) {
	row := make([]string, len(t.columns))
	for i := range row {
		row[i] = clean(cells[i])
		if runes := []rune(row[i]); len(runes) > longest {
			row[i] = string(runes[:longest-1]) + "…"
		}
	}
	t.rows = append(t.rows, row)
}

// dropEmpty removes columns in which no row has a figure.
func (t *table) dropEmpty() {
	for c := len(t.columns) - 1; c >= 0; c-- {
		if !slices.ContainsFunc(t.rows[1:], func(row []string) bool { return row[c] != "-" }) {
			t.drop(c)
		}
	}
}

func (t *table) drop(c int) {
	t.columns = slices.Delete(t.columns, c, c+1)
	for i := range t.rows {
		t.rows[i] = slices.Delete(t.rows[i], c, c+1)
	}
}

// table prints a table within the report's width, dropping columns by rank.
func (b *output) table(t *table) {
	widths, total := t.widths()
	for total > b.Width {
		least := -1
		for c, col := range t.columns {
			if col.rank > 0 && (least < 0 || col.rank >= t.columns[least].rank) {
				least = c
			}
		}
		if least < 0 {
			break // the remaining columns are needed, even in a narrow window
		}
		t.drop(least)
		widths, total = t.widths()
	}
	for _, row := range t.rows {
		var line strings.Builder
		for c, cell := range row {
			if c > 0 {
				line.WriteString("  ")
			}
			pad := strings.Repeat(" ", widths[c]-utf8.RuneCountInString(cell))
			if t.columns[c].left {
				line.WriteString(cell + pad)
			} else {
				line.WriteString(pad + cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// widths returns the width of each column, and that of the table.
func (t *table) widths() (widths []int, total int) {
	widths = make([]int, len(t.columns))
	total = 2 * (len(widths) - 1)
	for c := range widths {
		for _, row := range t.rows {
			widths[c] = max(widths[c], utf8.RuneCountInString(row[c]))
		}
		total += widths[c]
	}
	return widths, total
}

// clean replaces control characters, so that no name can move the cursor.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// nameOnce names the rows of a table: a policy, or a policy and its baseline. A row with the
// same name as the one before it gets no name.
func nameOnce() func(policy, baseline string) string {
	last := ""
	return func(policy, baseline string) string {
		name := policy
		if baseline != "" {
			name += " vs " + baseline
		}
		if name == last {
			return ""
		}
		last = name
		return name
	}
}

// known formats a figure; "-" where there is none.
func known[T any](v *T, format func(T) string) string {
	if v == nil {
		return "-"
	}
	return format(*v)
}

// decimals returns the decimals for about four significant digits of milliseconds.
func decimals(v float64) int {
	switch a := math.Abs(v); {
	case a >= 1000:
		return 0
	case a >= 100:
		return 1
	case a >= 1:
		return 2
	default:
		return 3
	}
}

// number formats milliseconds.
func number(v float64) string { return strconv.FormatFloat(v, 'f', decimals(v), 64) }

// plain formats a factor without trailing zeros.
func plain(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// interval formats mean ± half width, both with the mean's decimals.
func interval(mean float64, ci *float64) string {
	d := decimals(mean)
	if ci == nil {
		return fmt.Sprintf("%.*f ± ?", d, mean)
	}
	return fmt.Sprintf("%.*f ± %.*f", d, mean, d, *ci)
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

// signed rounds to a tenth; zero has no sign.
func signed(v float64) string {
	text := fmt.Sprintf("%+.1f", v)
	if text == "-0.0" || text == "+0.0" {
		return "0.0"
	}
	return text
}

// size formats bytes in decimal units, as is usual for networks.
func size(n int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}
	v := float64(n)
	i := 0
	for ; v >= 999.95 && i < len(units)-1; i++ {
		v /= 1000
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}
