package results

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// partialSuffix marks an unfinished line file: its run still goes on or was killed. Its lines
// are valid up to the last line break.
const partialSuffix = ".partial"

// errClosed is returned by a line file that was published or closed.
var errClosed = errors.New("run folder is closed")

// lineFile is a buffered file under its partial name. Its first error is kept.
type lineFile struct {
	path string // final name
	file *os.File
	buf  *bufio.Writer
	err  error
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

// discard closes and removes the file. Its contents are not needed, so an earlier write error
// does not matter.
func (l *lineFile) discard() error {
	var err error
	if !errors.Is(l.err, errClosed) {
		err = l.file.Close()
		l.err = fmt.Errorf("%s: %w", l.path, errClosed)
	}
	return errors.Join(err, ignoreMissing(os.Remove(l.path+partialSuffix)))
}
