package results

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
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

// Writer fills a run folder. A file with its final name is always complete: Finish renames the
// line files from "<name>.partial", and every other file is written under a temporary name first.
//
// A Writer is safe for concurrent use. The first error of a line file is kept: later appends and
// Finish return it, so that a full disk is always noticed.
type Writer struct {
	dir      string
	made     bool // the folder did not exist before
	mu       sync.Mutex
	requests *lineFile
	links    *lineFile
	written  []string // names of complete files
}

// Create makes the run folder, with its parents, or takes an empty one: results of two runs never mix.
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
	return w, w.links.write([]byte("time_ms,world,policy,seed,link,direction,bytes_emulated,utilization,drops,backlog_bytes,marks\n"))
}

// Append adds records to requests.jsonl, also those that break a law: the summary judges them.
func (w *Writer) Append(records ...Record) error {
	lines, err := JSONLines(records)
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.requests.write(lines), err)
}

// AppendLinks adds lines to links.csv.
func (w *Writer) AppendLinks(samples ...LinkSample) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.links.write(csvLines(samples))
}

// Flush passes buffered lines to the kernel, so that they are not lost if the process is killed.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.requests.flush(), w.links.flush())
}

// WriteFile writes a complete file of the folder under a temporary name, syncs and renames it.
func (w *Writer) WriteFile(name string, data []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lockedWrite(name, data)
}

func (w *Writer) lockedWrite(name string, data []byte) error {
	if name != filepath.Base(name) || name == "." || name == ".." {
		return fmt.Errorf("run folder file %q: want a plain file name", name)
	}
	if err := WriteFile(w.dir, name, data); err != nil {
		return err
	}
	w.written = append(w.written, name)
	return nil
}

// WriteFile writes a complete file into a folder: readers see the old one or the new one.
func WriteFile(dir, name string, data []byte) error {
	path := filepath.Join(dir, name)
	// The temporary file must be in the target's folder: TMPDIR may be another file system.
	if err := renameio.WriteFile(path, data, 0o644, renameio.WithTempDir(dir)); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

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
func (w *Writer) Finish(s *Summary) error {
	data, err := marshal(SummaryFile, s)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := errors.Join(w.requests.publish(), w.links.publish()); err != nil {
		return err
	}
	return w.lockedWrite(SummaryFile, data)
}

// Close flushes and closes the files that Finish has not published, and leaves them under their
// partial names. After Finish it does nothing.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.requests.close(), w.links.close())
}

// Discard removes a run that measured nothing: the files that this Writer wrote, and the folder
// if Create made it and nothing else is in it. After Finish or Close it does nothing.
func (w *Writer) Discard() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.requests.closed {
		return nil
	}
	errs := []error{w.requests.discard(), w.links.discard()}
	for _, name := range w.written {
		errs = append(errs, ignoreMissing(os.Remove(filepath.Join(w.dir, name))))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("discard run folder: %w", err)
	}
	if w.made {
		_ = os.Remove(w.dir) // fails if the folder is not empty
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

// partialSuffix marks a line file of an unfinished run. It is valid up to the last line break.
const partialSuffix = ".partial"

// errClosed is returned by a line file that was published or closed.
var errClosed = errors.New("run folder is closed")

// lineFile is a buffered file under its partial name. Its first error is kept.
type lineFile struct {
	path   string // final name
	file   *os.File
	buf    *bufio.Writer
	err    error
	closed bool
}

func newLineFile(dir, name string) (*lineFile, error) {
	path := filepath.Join(dir, name)
	// O_EXCL: if two runs start in one folder, one of them fails here.
	f, err := os.OpenFile(path+partialSuffix, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open run file: %w", err)
	}
	return &lineFile{path: path, file: f, buf: bufio.NewWriterSize(f, 1<<16)}, nil
}

// do takes a step, unless an earlier one failed. It returns the first error of all steps.
func (l *lineFile) do(name string, step func() error) error {
	if l.err == nil {
		if err := step(); err != nil {
			l.err = fmt.Errorf("%s %s: %w", name, l.path, err)
		}
	}
	return l.err
}

func (l *lineFile) write(lines []byte) error {
	return l.do("write", func() error {
		_, err := l.buf.Write(lines)
		return err
	})
}

func (l *lineFile) flush() error { return l.do("flush", l.buf.Flush) }

// close makes the content durable; the file keeps its partial name.
func (l *lineFile) close() error {
	if l.closed {
		return nil
	}
	l.closed = true
	err := l.flush()
	if err == nil {
		err = l.do("sync", l.file.Sync)
	}
	err = errors.Join(err, l.file.Close())
	if l.err == nil {
		l.err = fmt.Errorf("%s: %w", l.path, errClosed)
	}
	return err
}

// publish closes the file and gives it its final name.
func (l *lineFile) publish() error {
	if l.closed {
		return l.err
	}
	if err := l.close(); err != nil {
		return err
	}
	if err := os.Rename(l.path+partialSuffix, l.path); err != nil {
		return fmt.Errorf("publish run file: %w", err)
	}
	return nil
}

// discard closes and removes the file. Its contents are not needed, so a write error does not matter.
func (l *lineFile) discard() error {
	_ = l.close()
	return ignoreMissing(os.Remove(l.path + partialSuffix))
}

// JSONLines encodes records as lines, up to the first that cannot be encoded; the error names it.
func JSONLines(records []Record) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	for i := range records {
		if err := enc.Encode(&records[i]); err != nil {
			return buf.Bytes(), fmt.Errorf("record %s: %w", records[i].Key(), err)
		}
	}
	return buf.Bytes(), nil
}

// csvLines encodes samples in the order of the header of links.csv.
func csvLines(samples []LinkSample) []byte {
	var buf bytes.Buffer
	w := csv.NewWriter(&buf) // writes to a bytes.Buffer never fail, so Error stays nil
	for _, s := range samples {
		_ = w.Write([]string{
			strconv.FormatFloat(s.TimeMS, 'f', 3, 64), s.World, s.Policy, strconv.FormatUint(s.Seed, 10), s.Link, s.Direction,
			strconv.FormatInt(s.BytesEmulated, 10), strconv.FormatFloat(s.Utilization, 'f', 4, 64),
			strconv.FormatInt(s.Drops, 10), strconv.FormatInt(s.BacklogBytes, 10), strconv.FormatInt(s.Marks, 10),
		})
	}
	w.Flush()
	return buf.Bytes()
}

// ErrUnfinished is returned by Open for a folder without a summary: the run still goes on or was killed.
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

// ReadRecords reads requests.jsonl; errors begin with "name:line:". A line that was cut off is one.
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
