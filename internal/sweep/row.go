package sweep

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/netkvlab/netkvlab/internal/flowrun"
)

// Row is one trial of a sweep: a line of cells.jsonl and of table.csv.
type Row struct {
	Cell   int      `json:"cell"`
	Labels []string `json:"labels"`
	Policy string   `json:"policy"`
	Seed   uint64   `json:"seed"`
	flowrun.Figures
}

// WriteCSV writes the rows as one tidy table: a line a trial, a column an axis, and
// a column each metric; a figure that a trial does not have is empty.
func WriteCSV(w io.Writer, axes []Axis, rows []Row) error {
	c := csv.NewWriter(w)
	head := []string{"cell"}
	for _, a := range axes {
		head = append(head, a.Name)
	}
	head = append(head, "policy", "seed", "submitted", "completed")
	for _, m := range flowrun.Metrics() {
		head = append(head, m.Name)
	}
	if err := c.Write(head); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	for i := range rows {
		r := &rows[i]
		line := append([]string{strconv.Itoa(r.Cell)}, r.Labels...)
		line = append(line, r.Policy, strconv.FormatUint(r.Seed, 10), strconv.Itoa(r.Submitted), strconv.Itoa(r.Completed))
		for _, m := range flowrun.Metrics() {
			line = append(line, number(r.Value(m.Name)))
		}
		if err := c.Write(line); err != nil {
			return fmt.Errorf("write table: %w", err)
		}
	}
	c.Flush()
	return c.Error()
}

// number writes six digits, which is more than a trial is worth and the same on every machine.
func number(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}
