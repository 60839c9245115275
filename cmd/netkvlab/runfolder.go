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

// runFolderLeast is the least disk space that a run's files need.
const runFolderLeast = 1 << 20

// runsFolder is the default place for runs, below the current folder.
const runsFolder = "netkvlab-runs"

// runFolder returns the run folder's path. It refuses a folder that is not empty or cannot be
// written, since a run without results is useless. If out names the folder, it is not made yet.
// Otherwise it is made at once, so that runs that start together have different folders;
// giveBack removes it if it is still empty.
func (a *app) runFolder(out, name string) (folder string, giveBack func(), err error) {
	if out == "" {
		folder, giveBack, err = newRunFolder(fmt.Sprintf("%s-%s", name, time.Now().Format("20060102-150405")))
		if err != nil {
			err = fmt.Errorf("run folder: %w", err)
		}
		return folder, giveBack, err
	}
	if err := usable(out); err != nil {
		return "", nil, fmt.Errorf("--out: %w", err)
	}
	return out, func() {}, nil
}

// newRunFolder makes a folder in runsFolder with the given name, or with a number added, and
// checks that it can be written.
func newRunFolder(name string) (folder string, giveBack func(), err error) {
	if _, err := existing(runsFolder); err != nil {
		return "", nil, err
	}
	_, statErr := os.Lstat(runsFolder)
	giveBack = func() {
		_ = os.Remove(folder) // fails if the folder is not empty
		if statErr != nil {
			_ = os.Remove(runsFolder)
		}
	}
	if folder, err = claim(filepath.Join(runsFolder, name)); err == nil {
		err = tryWriting(folder)
	}
	if err != nil {
		giveBack()
		return "", nil, err
	}
	return folder, giveBack, nil
}

// mostClaims bounds the search for a free name.
const mostClaims = 10_000

// claim makes a folder that did not exist before.
func claim(path string) (folder string, err error) {
	n := 1
	for range mostClaims {
		folder = path
		if n > 1 {
			folder += fmt.Sprintf("-%d", n)
		}
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			if err = os.Mkdir(folder, 0o755); errors.Is(err, fs.ErrExist) {
				n++
			}
		}
		// ErrNotExist: another run has just removed the parent folder.
		if !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return "", unwritable(filepath.Dir(path), err)
	}
	return folder, nil
}

// usable refuses a folder that is not empty, or a path where nothing can be written.
func usable(out string) error {
	info, err := os.Stat(out)
	switch {
	case err == nil && !info.IsDir():
		return usagef("%s is no folder: name another", out)
	case err == nil:
		entries, err := os.ReadDir(out)
		if err != nil {
			return err
		}
		if len(entries) > 0 {
			return usagef("%s is not empty (holds %s): name another folder or remove it", out, entries[0].Name())
		}
	}
	return writable(out)
}

// writable tests the nearest existing folder, and leaves it as it was.
func writable(path string) error {
	base, err := existing(path)
	if err != nil {
		return err
	}
	return tryWriting(base)
}

// existing returns the path itself or the nearest folder above it that exists.
func existing(path string) (string, error) {
	for {
		info, err := os.Stat(path)
		above := filepath.Dir(path)
		switch {
		case err == nil && info.IsDir():
			return path, nil
		case err == nil:
			return "", usagef("%s is no folder, so that none can be made in it: name another with --out", path)
		case above == path, !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR):
			return "", fmt.Errorf("name another folder with --out: %w", err)
		}
		path = above
	}
}

// tryWriting writes as many bytes as the shortest run, and removes them again.
func tryWriting(dir string) error {
	f, err := os.CreateTemp(dir, ".netkvlab-room-*")
	if err == nil {
		_, err = f.Write(make([]byte, runFolderLeast))
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return unwritable(dir, err)
}

// unwritable explains why a run's files cannot be written; nil stays nil.
func unwritable(dir string, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err // the name of the test file would not help the user
	}
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("no room for a run in %s, which needs %d MiB and more: make room or name another folder with --out (%w)", dir, runFolderLeast>>20, err)
	case err != nil:
		return fmt.Errorf("cannot write in %s: name another folder with --out (%w)", dir, err)
	}
	return nil
}
