package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/renameio/v2"
)

// The files of a run folder that this package writes.
const (
	SummaryFile  = "summary.json"
	RequestsFile = "requests.jsonl"
	LinksFile    = "links.csv"
	ScenarioFile = "scenario.yaml"
	HostFile     = "host.json"
)

// Writer fills a run folder. Lines are written to "<name>.partial", which Finish renames to
// "<name>". Every other file is written under a temporary name and renamed. So a file with its
// final name is always complete.
//
// A Writer is safe for concurrent use. The first error of a line file is kept: later appends and
// Finish return it, so that a full disk is always noticed.
type Writer struct {
	dir      string
	made     bool // the folder did not exist before
	mu       sync.Mutex
	requests *lineFile
	links    *lineFile
	finished bool
	written  []string // names of complete files
}

// Create makes the run folder, with its parents, and opens its files. A folder
// that exists must be empty: results of two runs never mix.
func Create(dir string) (*Writer, error) {
	_, statErr := os.Stat(dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create run folder: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look into run folder: %w", err)
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("run folder %s is not empty (holds %s): name another with --out or remove it", dir, entries[0].Name())
	}
	w := &Writer{dir: dir, made: errors.Is(statErr, fs.ErrNotExist)}
	if w.requests, err = newLineFile(dir, RequestsFile); err != nil {
		return nil, err
	}
	if w.links, err = newLineFile(dir, LinksFile); err != nil {
		return nil, errors.Join(err, w.requests.discard())
	}
	return w, w.links.write([]byte(linksHeader))
}

// Dir returns the folder's path as it was given to Create.
func (w *Writer) Dir() string { return w.dir }

// Append adds one record to requests.jsonl. Records that break a law are written too, since they
// are evidence; the summary judges them.
func (w *Writer) Append(r *Record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("record %s: %w", r.Key(), err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests.write(append(line, '\n'))
}

// AppendLink adds one line to links.csv.
func (w *Writer) AppendLink(s LinkSample) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.links.write(s.appendCSV(nil))
}

// PutAside writes the records of a spoiled attempt into a separate file and returns its name.
// trial is the trial's place in the run, from 0; attempt counts from 1.
func (w *Writer) PutAside(trial, attempt int, records []Record) (string, error) {
	var lines []byte
	for i := range records {
		line, err := json.Marshal(&records[i])
		if err != nil {
			return "", fmt.Errorf("record %s: %w", records[i].Key(), err)
		}
		lines = append(append(lines, line...), '\n')
	}
	name := fmt.Sprintf("spoiled-trial%d-attempt%d.jsonl", trial+1, attempt)
	return name, w.WriteFile(name, lines)
}

// Flush passes buffered lines to the kernel, so that they are not lost if the process is killed.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.requests.flush(), w.links.flush())
}

// WriteFile writes a complete file of the folder (report.html, trace.json, scenario.yaml) under
// a temporary name, syncs and renames it.
func (w *Writer) WriteFile(name string, data []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writeLocked(name, data)
}

func (w *Writer) writeLocked(name string, data []byte) error {
	if name != filepath.Base(name) || name == "." || name == ".." {
		return fmt.Errorf("run folder file %q: want a plain file name", name)
	}
	path := filepath.Join(w.dir, name)
	// The temporary file must be in the target's folder: TMPDIR may be another file system.
	if err := renameio.WriteFile(path, data, 0o644, renameio.WithTempDir(w.dir)); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	w.written = append(w.written, name)
	return nil
}

// WriteScenario writes the resolved scenario.
func (w *Writer) WriteScenario(yaml []byte) error { return w.WriteFile(ScenarioFile, yaml) }

// WriteHost writes host.json.
func (w *Writer) WriteHost(m *Machine) error {
	data, err := marshal(HostFile, m)
	if err != nil {
		return err
	}
	return w.WriteFile(HostFile, data)
}

// Finish renames the line files to their final names and writes summary.json last: a folder with
// a summary is complete. An interrupted run is finished the same way, with Meta.Interrupted set.
// A second Finish only rewrites the summary.
func (w *Writer) Finish(s *Summary) error {
	data, err := marshal(SummaryFile, s)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.finished {
		if err := errors.Join(w.requests.publish(), w.links.publish()); err != nil {
			return err
		}
		w.finished = true
	}
	return w.writeLocked(SummaryFile, data)
}

// Close flushes and closes the files that Finish has not published, and leaves them under their
// partial names. After Finish it does nothing.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.finished {
		return nil
	}
	return errors.Join(w.requests.close(), w.links.close())
}

// Discard removes a run that measured nothing: the files that this Writer wrote, and the folder
// if Create made it and nothing else is in it. After Finish it does nothing.
func (w *Writer) Discard() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.finished {
		return nil
	}
	errs := []error{w.requests.discard(), w.links.discard()}
	for _, name := range w.written {
		errs = append(errs, ignoreMissing(os.Remove(filepath.Join(w.dir, name))))
	}
	w.written = nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("discard run folder: %w", err)
	}
	if entries, err := os.ReadDir(w.dir); w.made && err == nil && len(entries) == 0 {
		return ignoreMissing(os.Remove(w.dir))
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func marshal(name string, v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return append(data, '\n'), nil
}
