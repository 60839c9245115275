package results

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
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

	// partialSuffix marks a stream of lines that has not been finished. Whoever
	// finds one has found a run that was killed; its lines are good up to the last line break.
	partialSuffix = ".partial"
)

// Writer fills a run folder. Lines go to "<name>.partial" as they come and get
// their names in Finish; every other file is written under a temporary
// name and renamed. So a file with its final name is always whole.
//
// A Writer is safe for concurrent use. The first error of a line file stays: later
// appends and Finish return it, so that a full disk cannot pass unnoticed.
type Writer struct {
	dir      string
	mu       sync.Mutex
	requests *lineFile
	links    *lineFile
	finished bool
}

// Create makes the run folder, with its parents, and opens its files. A folder
// that exists must be empty: results of two runs never mix.
func Create(dir string) (*Writer, error) {
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
	w := &Writer{dir: dir}
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

// Append adds one record to requests.jsonl. Records that break a law are
// written all the same, since they are evidence; Summarize judges them.
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

// Flush hands buffered lines to the kernel: after it, a killed process loses none of them.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.requests.flush(), w.links.flush())
}

// WriteFile writes a whole file of the folder (report.html, trace.json,
// scenario.yaml) under a temporary name, syncs and renames it.
func (w *Writer) WriteFile(name string, data []byte) error {
	if name != filepath.Base(name) || name == "." || name == ".." {
		return fmt.Errorf("run folder file %q: want a plain file name", name)
	}
	path := filepath.Join(w.dir, name)
	// The temporary file must lie beside the target: TMPDIR may be another file system.
	if err := renameio.WriteFile(path, data, 0o644, renameio.WithTempDir(w.dir)); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// WriteScenario writes the scenario as resolved.
func (w *Writer) WriteScenario(yaml []byte) error { return w.WriteFile(ScenarioFile, yaml) }

// WriteHost writes host.json.
func (w *Writer) WriteHost(h *Host) error { return w.writeJSON(HostFile, h) }

// Finish gives the line files their names and writes summary.json last: a
// folder with a summary is complete. An interrupted run is finished the same
// way, with Meta.Interrupted set. A second Finish only rewrites the summary.
func (w *Writer) Finish(s *Summary) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.finished {
		if err := errors.Join(w.requests.publish(), w.links.publish()); err != nil {
			return err
		}
		w.finished = true
	}
	return w.writeJSON(SummaryFile, s)
}

// Close flushes and closes what Finish has not published and leaves it under
// its partial name. After Finish it does nothing.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.finished {
		return nil
	}
	return errors.Join(w.requests.close(), w.links.close())
}

func (w *Writer) writeJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return w.WriteFile(name, append(data, '\n'))
}

// errClosed is what a line file answers after it was published or closed.
var errClosed = errors.New("run folder is closed")

// lineFile is a buffered file under its partial name. Its first error stays.
type lineFile struct {
	path string // final name
	file *os.File
	buf  *bufio.Writer
	err  error
}

func newLineFile(dir, name string) (*lineFile, error) {
	path := filepath.Join(dir, name)
	// O_EXCL: of two runs that race for one folder, one loses here.
	f, err := os.OpenFile(path+partialSuffix, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open run file: %w", err)
	}
	return &lineFile{path: path, file: f, buf: bufio.NewWriterSize(f, 1<<16)}, nil
}

func (l *lineFile) keep(doing string, err error) error {
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("%s %s: %w", doing, l.path, err)
	}
	return l.err
}

func (l *lineFile) write(line []byte) error {
	if l.err != nil {
		return l.err
	}
	_, err := l.buf.Write(line)
	return l.keep("write", err)
}

func (l *lineFile) flush() error {
	if l.err != nil {
		return l.err
	}
	return l.keep("flush", l.buf.Flush())
}

// close flushes and closes; the file keeps its partial name.
func (l *lineFile) close() error {
	if errors.Is(l.err, errClosed) {
		return nil
	}
	err := l.flush()
	err = errors.Join(err, l.file.Close())
	l.err = fmt.Errorf("%s: %w", l.path, errClosed)
	return err
}

// publish makes the content durable under the final name.
func (l *lineFile) publish() error {
	if err := l.flush(); err != nil {
		return errors.Join(err, l.file.Close())
	}
	if err := l.keep("sync", l.file.Sync()); err != nil {
		return errors.Join(err, l.file.Close())
	}
	if err := l.close(); err != nil {
		return err
	}
	if err := os.Rename(l.path+partialSuffix, l.path); err != nil {
		return fmt.Errorf("publish run file: %w", err)
	}
	return nil
}

// discard removes a file that was never used.
func (l *lineFile) discard() error {
	return errors.Join(l.file.Close(), os.Remove(l.path+partialSuffix))
}
