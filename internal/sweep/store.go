package sweep

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"

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
	Version string `json:"version"`
	// Cells is a digest of the resolved scenarios, Inputs of the traces that they name.
	Cells  string `json:"cells_sha256"`
	Inputs string `json:"inputs_sha256,omitempty"`
	Trials int    `json:"trials"`
	// Worlds is empty for the flow world only.
	Worlds []string `json:"worlds,omitempty"`
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
// finished trials. Each is one line, written at once. So a killed program leaves whole lines, and
// at most one incomplete line, which is dropped.
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

// begin marks an empty folder as the sweep's. It writes the plan last: without one, nothing
// counts.
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
	return errors.Join(writeFile(dir, sweepFile, s.source), writeFile(dir, planFile, append(data, '\n')))
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
	return writeFile(dir, sweepFile, s.source)
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

// writeFile replaces a file at once: readers see the old one or the new one.
func writeFile(dir, name string, data []byte) error {
	path := filepath.Join(dir, name)
	// The temporary file must be in the target's folder: TMPDIR may be another file system.
	if err := renameio.WriteFile(path, data, 0o644, renameio.WithTempDir(dir)); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
