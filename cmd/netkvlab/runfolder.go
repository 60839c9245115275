package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// runFolderLeast is the room that a run's files need at the very least.
const runFolderLeast = 1 << 20

// runsFolder is where runs go by default, below the current folder.
const runsFolder = "netkvlab-runs"

// runFolder gives the run folder's path. It refuses one that holds something, and one
// that cannot be written: a run that cannot be written down is not worth making.
// Nothing is left behind.
func (a *app) runFolder(out, name string) (string, error) {
	if out == "" {
		out = filepath.Join(runsFolder, fmt.Sprintf("%s-%s", name, time.Now().Format("20060102-150405")))
	}
	info, err := os.Stat(out)
	switch {
	case err == nil && !info.IsDir():
		return "", usagef("--out: %s is no folder: name another", out)
	case err == nil:
		entries, err := os.ReadDir(out)
		if err != nil {
			return "", fmt.Errorf("--out: %w", err)
		}
		if len(entries) > 0 {
			return "", usagef("--out: %s is not empty (holds %s): name another folder or remove it", out, entries[0].Name())
		}
	}
	base, err := existing(out)
	if err != nil {
		return "", err
	}
	if err := tryWriting(base); err != nil {
		return "", err
	}
	return out, nil
}

// existing is the nearest folder above a path, or the path itself, that is there.
func existing(path string) (string, error) {
	for {
		info, err := os.Stat(path)
		above := filepath.Dir(path)
		switch {
		case err == nil && info.IsDir():
			return path, nil
		case err == nil:
			return "", usagef("--out: %s is no folder, so that none can be made in it: name another", path)
		case above == path, !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR):
			return "", fmt.Errorf("--out: name another folder: %w", err)
		}
		path = above
	}
}

// tryWriting writes as much as the shortest run does, and removes it again.
func tryWriting(dir string) error {
	f, err := os.CreateTemp(dir, ".netkvlab-room-*")
	if err == nil {
		_, err = f.Write(make([]byte, runFolderLeast))
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err // the name of the file that was tried tells nobody anything
	}
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("--out: no room for a run in %s, which needs %d MiB and more: make room or name another folder (%w)", dir, runFolderLeast>>20, err)
	case err != nil:
		return fmt.Errorf("--out: cannot write in %s: name another folder (%w)", dir, err)
	}
	return nil
}
