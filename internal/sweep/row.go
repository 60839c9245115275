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
	ttft := func(r *results.Record) float64 { return *r.TTFTMS }
	transfer := func(r *results.Record) float64 { return r.TransferMS }
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
		out["ttft_transport"] += ttft(p) - ttft(r)
		out["ttft_decisions"] += ttft(r) - ttft(f)
		out["transfer_transport"] += transfer(p) - transfer(r)
		out["transfer_decisions"] += transfer(r) - transfer(f)
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
	packet := s.Packet()
	head := []string{"cell"}
	for _, a := range s.File.Axes {
		head = append(head, a.Name)
	}
	head = append(head, "policy", "seed")
	if packet {
		head = append(head, "world", "verdict", "attempts")
	}
	head = append(head, "submitted", "completed")
	for _, m := range analysis.Metrics() {
		head = append(head, m.Name)
	}
	if packet {
		head = append(head, gapColumns...)
	}
	if err := c.Write(head); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	for i := range rows {
		if err := c.Write(rows[i].columns(packet)); err != nil {
			return fmt.Errorf("write table: %w", err)
		}
	}
	c.Flush()
	return c.Error()
}

func (r *Row) columns(packet bool) []string {
	line := append([]string{strconv.Itoa(r.Cell)}, r.Labels...)
	line = append(line, r.Policy, strconv.FormatUint(r.Seed, 10))
	if packet {
		attempts := ""
		if r.Attempts > 0 {
			attempts = strconv.Itoa(r.Attempts)
		}
		line = append(line, r.World, r.Verdict, attempts)
	}
	line = append(line, strconv.Itoa(r.Submitted), strconv.Itoa(r.Completed))
	for _, m := range analysis.Metrics() {
		line = append(line, number(r.Value(m.Name)))
	}
	if packet {
		for _, column := range gapColumns {
			v, ok := r.Gaps[column]
			if !ok {
				v = math.NaN()
			}
			line = append(line, number(v))
		}
	}
	return line
}

// number writes six digits: more than the accuracy of a trial, and the same on every machine.
func number(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}
