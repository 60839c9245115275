package results

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrUnfinished is returned by Open for a folder without a summary: the run still goes on or was
// killed.
var ErrUnfinished = errors.New("run has no summary")

// Run is a run folder read back.
type Run struct {
	Dir      string
	Summary  *Summary
	Records  []Record
	Scenario []byte // scenario.yaml; nil when absent
}

// Open reads a finished run folder. For an unfinished one it returns ErrUnfinished.
func Open(dir string) (*Run, error) {
	path := filepath.Join(dir, SummaryFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, explainMissing(dir, err)
	}
	run := &Run{Dir: dir, Summary: &Summary{}}
	if err := json.Unmarshal(data, run.Summary); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if f := run.Summary.Format; f != FormatVersion {
		return nil, fmt.Errorf("%s: format %d: this netkvlab reads format %d", path, f, FormatVersion)
	}
	path = filepath.Join(dir, RequestsFile)
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open run: %w", err)
	}
	defer func() { _ = file.Close() }() // read only: nothing can be lost
	if run.Records, err = ReadRecords(file, path); err != nil {
		return nil, err
	}
	if run.Scenario, err = os.ReadFile(filepath.Join(dir, ScenarioFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open run: %w", err)
	}
	return run, nil
}

// explainMissing returns an error that says why the summary is missing.
func explainMissing(dir string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open run: %w", err)
	}
	if _, statErr := os.Stat(dir); statErr != nil {
		return fmt.Errorf("open run: %w", statErr)
	}
	if _, statErr := os.Stat(filepath.Join(dir, RequestsFile+partialSuffix)); statErr == nil {
		return fmt.Errorf("%s: %w: it is still going on or was killed; the requests that finished are in %s",
			dir, ErrUnfinished, RequestsFile+partialSuffix)
	}
	return fmt.Errorf("%s: %w: not a run folder", dir, ErrUnfinished)
}

// ReadRecords reads requests.jsonl; name is for errors, which begin with "name:line:". A last
// line without a line break is an error: it was cut off.
func ReadRecords(r io.Reader, name string) ([]Record, error) {
	var out []Record
	in := bufio.NewReaderSize(r, 1<<16)
	for line := 1; ; line++ {
		data, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if len(bytes.TrimSpace(data)) > 0 {
				return nil, fmt.Errorf("%s:%d: the line was cut off", name, line)
			}
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		var rec Record
		if err := json.Unmarshal(data, &rec); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		out = append(out, rec)
	}
}
