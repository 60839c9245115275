package sweep

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/scenarios"
)

// The files of a sweep's folder.
const (
	sweepFile = "sweep.yaml"
	planFile  = "plan.json"
	cellsFile = "cells.jsonl"
	TableFile = "table.csv"
	TextFile  = "heatmap.txt"
	SVGFile   = "heatmap.svg"
)

// ChangedError says that a folder holds the results of another sweep.
type ChangedError struct{ Dir, Reason string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s holds a sweep that was begun differently: %s; name another folder with --out, or remove this one", e.Dir, e.Reason)
}

// plan holds all that results depend on. A rerun must have the same plan.
type plan struct {
	Version string   `json:"version"`
	Cells   string   `json:"cells_sha256"`            // digest of the resolved scenarios
	Inputs  string   `json:"inputs_sha256,omitempty"` // digest of the traces that they name
	Trials  int      `json:"trials"`
	Worlds  []string `json:"worlds,omitempty"` // empty for the flow world only
}

func (s *Sweep) plan(version string) (plan, error) {
	p := plan{Version: version, Trials: s.Trials()}
	if s.Packet() {
		p.Worlds = s.Worlds()
	}
	cells, inputs := sha256.New(), sha256.New()
	seen := map[string]bool{}
	for i := range s.Cells {
		text, err := s.Cells[i].Scenario.Marshal()
		if err != nil {
			return p, err
		}
		cells.Write(text)
		t := s.Cells[i].Scenario.Workload.Trace
		if t == nil || seen[t.File] {
			continue
		}
		seen[t.File] = true
		data, err := os.ReadFile(t.File)
		if err != nil {
			return p, &scenarios.Error{File: t.File, Msg: "cannot be read as a trace: " + err.Error()}
		}
		inputs.Write(data)
	}
	p.Cells = fmt.Sprintf("%x", cells.Sum(nil))
	if len(seen) > 0 {
		p.Inputs = fmt.Sprintf("%x", inputs.Sum(nil))
	}
	return p, nil
}

// openStore makes a folder, or opens that of an earlier run and returns its rows. The file keeps
// finished trials, one per line: a killed program leaves at most one incomplete line, which is dropped.
func openStore(dir string, s *Sweep, version string) (*os.File, []Row, error) {
	want, err := s.plan(version)
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, fmt.Errorf("folder of the sweep: %w", err)
	}
	old, err := os.ReadFile(filepath.Join(dir, planFile))
	switch {
	case err == nil:
		err = compare(dir, s, want, old)
	case errors.Is(err, fs.ErrNotExist):
		err = begin(dir, s, want)
	default:
		err = fmt.Errorf("earlier sweep in %s: %w", dir, err)
	}
	if err != nil {
		return nil, nil, err
	}
	return openCells(dir, s)
}

// begin marks an empty folder as the sweep's. It writes the plan last: without one, nothing counts.
func begin(dir string, s *Sweep, p plan) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("folder of the sweep: %w", err)
	}
	if len(entries) > 0 {
		return &ChangedError{Dir: dir, Reason: fmt.Sprintf("it holds %s and no %s", entries[0].Name(), planFile)}
	}
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", planFile, err)
	}
	return errors.Join(results.WriteFile(dir, sweepFile, s.source), results.WriteFile(dir, planFile, append(data, '\n')))
}

func compare(dir string, s *Sweep, want plan, old []byte) error {
	changed := func(format string, args ...any) error {
		return &ChangedError{Dir: dir, Reason: fmt.Sprintf(format, args...)}
	}
	var have plan
	if err := json.Unmarshal(old, &have); err != nil {
		return changed("its %s cannot be read (%v)", planFile, err)
	}
	source, err := os.ReadFile(filepath.Join(dir, sweepFile))
	if err != nil {
		return changed("its %s cannot be read (%v)", sweepFile, err)
	}
	switch {
	case have.Version != want.Version:
		return changed("by version %s of netkvlab, and this is %s", have.Version, want.Version)
	case have.Cells != want.Cells && !bytes.Equal(source, s.source):
		return changed("the sweep file has changed, first in line %d", firstDifference(source, s.source))
	case have.Cells != want.Cells:
		return changed("the scenario %s has changed", s.File.Scenario)
	case !slices.Equal(have.Worlds, want.Worlds):
		return changed("in the worlds %q, and now it is to be in %q", have.Worlds, want.Worlds)
	case have.Inputs != want.Inputs:
		return changed("a trace that the scenario names has changed")
	}
	// Figure or comments may have changed; the results are still valid.
	return results.WriteFile(dir, sweepFile, s.source)
}

func firstDifference(a, b []byte) int {
	x, y := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	for i := range min(len(x), len(y)) {
		if !bytes.Equal(x[i], y[i]) {
			return i + 1
		}
	}
	return min(len(x), len(y)) + 1
}

// openCells reads the finished trials and cuts off an incomplete last line.
func openCells(dir string, s *Sweep) (*os.File, []Row, error) {
	file, err := os.OpenFile(filepath.Join(dir, cellsFile), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, nil, fmt.Errorf("finished cells: %w", err)
	}
	data, err := io.ReadAll(file)
	whole := bytes.LastIndexByte(data, '\n') + 1
	var rows []Row
	if err == nil {
		rows, err = readRows(data[:whole], s)
	}
	if err == nil {
		err = file.Truncate(int64(whole))
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("finished cells in %s: %w", dir, err), file.Close())
	}
	return file, rows, nil
}

// readRows returns the rows of whole lines. A repeated line counts once. Two values for one trial,
// or a trial that the sweep does not have, are an error: another program wrote to the file.
func readRows(data []byte, s *Sweep) (rows []Row, err error) {
	grid, lines, n := s.grid(), map[trial][]byte{}, 0
	for line := range bytes.Lines(data) {
		n++
		var row Row
		if err := json.Unmarshal(line, &row); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		t := row.trial()
		switch before, known := lines[t]; {
		case !grid[t]:
			return nil, fmt.Errorf("line %d: cell %d, policy %q, seed %d, world %q is no trial of this sweep: remove the line", n, t.cell, t.policy, t.seed, t.world)
		case known && !bytes.Equal(before, line):
			return nil, fmt.Errorf("line %d: cell %d, policy %q, seed %d has another value than in an earlier line: remove one of them", n, t.cell, t.policy, t.seed)
		case !known:
			lines[t] = line
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// grid is the set of the sweep's trials.
func (s *Sweep) grid() map[trial]bool {
	out := map[trial]bool{}
	for i := range s.Cells {
		for _, p := range s.Cells[i].Scenario.Policies {
			for _, seed := range s.Cells[i].Scenario.Seeds {
				for _, w := range s.Worlds() {
					out[trial{i, p.Label, seed, s.worldOf(w)}] = true
				}
			}
		}
	}
	return out
}

// Row is one trial of a sweep: a line of cells.jsonl and of table.csv.
type Row struct {
	Cell   int      `json:"cell"`
	Labels []string `json:"labels"`
	Policy string   `json:"policy"`
	Seed   uint64   `json:"seed"`
	World  string   `json:"world,omitempty"` // empty in a sweep of the flow world only
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
		out := map[int]*results.Record{}
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
		if r, f := replayed[id], flowing[id]; r != nil && f != nil {
			n++
			out["ttft_transport"] += *p.TTFTMS - *r.TTFTMS
			out["ttft_decisions"] += *r.TTFTMS - *f.TTFTMS
			out["transfer_transport"] += p.TransferMS - r.TransferMS
			out["transfer_decisions"] += r.TransferMS - f.TransferMS
		}
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
