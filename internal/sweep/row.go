package sweep

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/results"
)

// Row is one trial of a sweep: a line of cells.jsonl and of table.csv.
type Row struct {
	Cell   int      `json:"cell"`
	Labels []string `json:"labels"`
	Policy string   `json:"policy"`
	Seed   uint64   `json:"seed"`
	// World is empty in a sweep of the flow world only.
	World string `json:"world,omitempty"`
	analysis.TrialFigures
	// Verdict and Attempts (how often it was played) are set for trials of the packet world.
	Verdict  string   `json:"verdict,omitempty"`
	Reasons  []string `json:"reasons,omitempty"`
	Attempts int      `json:"attempts,omitempty"`
	// Gaps are the packet world's means minus the flow world's, by column, in ms.
	Gaps map[string]float64 `json:"gaps,omitempty"`
}

// gapColumns are the columns of a row's gaps: packet - flow, which is transport (packet -
// replay) + decisions (replay - flow), over the requests that completed in all three.
var gapColumns = []string{
	"ttft_gap", "ttft_transport", "ttft_decisions", "transfer_gap", "transfer_transport", "transfer_decisions",
}

// gaps compares one trial in three worlds.
func gaps(packet, replay, flow []results.Record) map[string]float64 {
	byID := func(records []results.Record) map[int]*results.Record {
		out := make(map[int]*results.Record, len(records))
		for i := range records {
			if r := &records[i]; r.Status == results.Completed && r.TTFTMS != nil {
				out[r.ID] = r
			}
		}
		return out
	}
	replayed, flowing := byID(replay), byID(flow)
	n, out := 0.0, map[string]float64{}
	for id, p := range byID(packet) {
		r, f := replayed[id], flowing[id]
		if r == nil || f == nil {
			continue
		}
		n++
		out["ttft_transport"] += *p.TTFTMS - *r.TTFTMS
		out["ttft_decisions"] += *r.TTFTMS - *f.TTFTMS
		out["transfer_transport"] += p.TransferMS - r.TransferMS
		out["transfer_decisions"] += r.TransferMS - f.TransferMS
	}
	if n == 0 {
		return nil
	}
	for column := range out {
		out[column] /= n
	}
	out["ttft_gap"] = out["ttft_transport"] + out["ttft_decisions"]
	out["transfer_gap"] = out["transfer_transport"] + out["transfer_decisions"]
	return out
}

// WriteCSV writes the rows as one tidy table: a line per trial, a column per axis, and a column
// per metric; a figure that a trial does not have is empty. A sweep of the packet world also has
// columns for world, verdict, attempts and gaps.
func WriteCSV(w io.Writer, s *Sweep, rows []Row) error {
	c := csv.NewWriter(w)
	head, _ := new(Row).columns(s)
	lines := [][]string{head}
	for i := range rows {
		_, line := rows[i].columns(s)
		lines = append(lines, line)
	}
	if err := c.WriteAll(lines); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// columns returns the names of the table's columns and the row's texts in them.
func (r *Row) columns(s *Sweep) (names, texts []string) {
	add := func(name, text string) { names, texts = append(names, name), append(texts, text) }
	add("cell", strconv.Itoa(r.Cell))
	for i, a := range s.File.Axes {
		add(a.Name, s.Cells[r.Cell].Labels[i])
	}
	add("policy", r.Policy)
	add("seed", strconv.FormatUint(r.Seed, 10))
	if s.Packet() {
		attempts := ""
		if r.Attempts > 0 {
			attempts = strconv.Itoa(r.Attempts)
		}
		add("world", r.World)
		add("verdict", r.Verdict)
		add("attempts", attempts)
	}
	add("submitted", strconv.Itoa(r.Submitted))
	add("completed", strconv.Itoa(r.Completed))
	for _, m := range analysis.Metrics() {
		add(m.Name, number(r.Value(m.Name)))
	}
	if s.Packet() {
		for _, name := range gapColumns {
			text := ""
			if v, ok := r.Gaps[name]; ok {
				text = number(v)
			}
			add(name, text)
		}
	}
	return names, texts
}

// number writes six digits: more than the accuracy of a trial, and the same on every machine.
func number(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// WriteVerdicts writes the verdicts on the packet world's trials, and how many attempts were
// spoiled. It writes nothing for a sweep of the flow world.
func WriteVerdicts(w io.Writer, rows []Row) {
	count, spoiled := map[string]int{}, 0
	for i := range rows {
		if r := &rows[i]; r.Verdict != "" {
			count[r.Verdict]++
			spoiled += r.Attempts - 1
		}
	}
	if len(count) > 0 {
		fmt.Fprintf(w, "packet world: %d trials good, %d degraded, %d invalid; %d attempts were spoiled from outside and repeated\n",
			count[results.VerdictGood], count[results.VerdictDegraded], count[results.VerdictInvalid], spoiled)
	}
}
