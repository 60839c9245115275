package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// BusyError says that another process is working on the lab.
type BusyError struct {
	Lab   string
	Owner Process
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("lab %q is in use by %s: wait for it, or end it with `netkvlab down %s`", e.Lab, e.Owner, e.Lab)
}

// lock is an advisory lock on a lab's folder. The kernel releases it when the process ends, so a
// killed netkvlab leaves nothing locked.
type lock struct{ dir *os.File }

func (l *lock) release() error { return l.dir.Close() }

// tryLock takes the lock on a lab's folder, making the folder if create is set. Without create
// it returns ErrNotUp for a lab without a folder.
func (s Store) tryLock(lab string, create bool) (*lock, error) {
	for {
		if create {
			if err := os.MkdirAll(s.Root, 0o755); err != nil {
				return nil, fmt.Errorf("make %s: %w", s.Root, err)
			}
			if err := os.Mkdir(s.dir(lab), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, fmt.Errorf("make the folder of lab %q: %w", lab, err)
			}
		}
		f, err := os.Open(s.dir(lab))
		if errors.Is(err, fs.ErrNotExist) {
			if create {
				continue // removed between Mkdir and Open
			}
			return nil, fmt.Errorf("lab %q: %w", lab, ErrNotUp)
		}
		if err != nil {
			return nil, fmt.Errorf("open the folder of lab %q: %w", lab, err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			_ = f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, s.busy(lab)
			}
			return nil, fmt.Errorf("lock the folder of lab %q: %w", lab, err)
		}
		if s.stillThere(lab, f) {
			return &lock{f}, nil
		}
		_ = f.Close() // the previous holder has removed the folder that we locked
	}
}

func (s Store) stillThere(lab string, f *os.File) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(s.dir(lab))
	return err == nil && os.SameFile(a, b)
}

func (s Store) busy(lab string) error {
	e := &BusyError{Lab: lab}
	if st, err := s.Load(lab); err == nil {
		e.Owner = st.Owner
	}
	return e
}

// removeDir deletes the lab's folder, and the folder of all labs when it was the last.
func (s Store) removeDir(lab string) error {
	if err := os.RemoveAll(filepath.Join(s.dir(lab))); err != nil {
		return fmt.Errorf("remove the folder of lab %q: %w", lab, err)
	}
	if err := os.Remove(s.Root); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("remove %s: %w", s.Root, err)
	}
	return nil
}
