package report

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// column is one column of a table.
type column struct {
	head string
	left bool // text is aligned left, figures right
	// rank is the order of dropping: if space is short the highest rank is dropped first; 0 stays.
	rank int
}

// table aligns cells in columns two spaces apart.
type table struct {
	columns []column
	rows    [][]string
}

func newTable(columns ...column) *table { return &table{columns: columns} }

// longest is the most runes in a cell, since names come from users.
const longest = 36

// add appends a row, with one cell per column.
func (t *table) add(cells ...string) {
	row := make([]string, len(t.columns))
	for i := range row {
		row[i] = clip(clean(cells[i]), longest)
	}
	t.rows = append(t.rows, row)
}

// dropEmpty removes columns in which no row has a figure.
func (t *table) dropEmpty() {
	for c := len(t.columns) - 1; c >= 0; c-- {
		empty := true
		for _, r := range t.rows {
			if r[c] != "-" {
				empty = false
			}
		}
		if empty {
			t.drop(c)
		}
	}
}

func (t *table) drop(c int) {
	t.columns = append(t.columns[:c:c], t.columns[c+1:]...)
	for i, r := range t.rows {
		t.rows[i] = append(r[:c:c], r[c+1:]...)
	}
}

// render prints the table within width, dropping columns by rank.
func (t *table) render(b *bytes.Buffer, width int) {
	widths := t.widths()
	for total(widths) > width {
		victim := -1
		for c, col := range t.columns {
			if col.rank > 0 && (victim < 0 || col.rank >= t.columns[victim].rank) {
				victim = c
			}
		}
		if victim < 0 {
			break // the remaining columns are needed, even in a narrow window
		}
		t.drop(victim)
		widths = t.widths()
	}
	heads := make([]string, len(t.columns))
	for c, col := range t.columns {
		heads[c] = col.head
	}
	t.line(b, heads, widths)
	for _, r := range t.rows {
		t.line(b, r, widths)
	}
}

func (t *table) widths() []int {
	out := make([]int, len(t.columns))
	for c, col := range t.columns {
		out[c] = utf8.RuneCountInString(col.head)
		for _, r := range t.rows {
			out[c] = max(out[c], utf8.RuneCountInString(r[c]))
		}
	}
	return out
}

func total(widths []int) int {
	sum := 2 * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	return sum
}

func (t *table) line(b *bytes.Buffer, cells []string, widths []int) {
	var line strings.Builder
	for c, cell := range cells {
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
	b.WriteString(strings.TrimRight(line.String(), " "))
	b.WriteByte('\n')
}

// wrap prints text in lines of at most width columns. All but the first are indented. Words
// longer than a line are not split, so that paths can be copied.
func wrap(b *bytes.Buffer, text, indent string, width int) {
	at := utf8.RuneCountInString(indent)
	b.WriteString(indent)
	start := true
	for word := range strings.FieldsSeq(clean(text)) {
		n := utf8.RuneCountInString(word)
		if !start && at+1+n > width {
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

// clean replaces control characters, so that no name can move the cursor.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// clip shortens text to n runes, the last one an ellipsis.
func clip(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
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
