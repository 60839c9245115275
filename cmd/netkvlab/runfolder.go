package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
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
func runFolder(out, name string) (folder string, giveBack func(), err error) {
	if out == "" {
		if folder, giveBack, err = newRunFolder(name + time.Now().Format("-20060102-150405")); err != nil {
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

// usable refuses a folder that is not empty, or a path where nothing can be written. It tests
// the nearest existing folder, and leaves it as it was.
func usable(out string) error {
	if info, err := os.Stat(out); err == nil && !info.IsDir() {
		return usagef("%s is no folder: name another", out)
	} else if err == nil {
		entries, err := os.ReadDir(out)
		if err != nil {
			return err
		}
		if len(entries) > 0 {
			return usagef("%s is not empty (holds %s): name another folder or remove it", out, entries[0].Name())
		}
	}
	base, err := existing(out)
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
	if at, ok := errors.AsType[*fs.PathError](err); ok {
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

// sudoCaller returns the user who called sudo; ok is false without sudo.
func sudoCaller(getenv func(string) string) (uid, gid int, ok bool) {
	uid, errUID := strconv.Atoi(getenv("SUDO_UID"))
	gid, errGID := strconv.Atoi(getenv("SUDO_GID"))
	return uid, gid, errUID == nil && errGID == nil && uid > 0
}

// giveToCaller makes the user who called sudo the owner of a run folder, and of the netkvlab-runs
// that the run may have made, if the parent folder is theirs. Otherwise, after a first `sudo
// netkvlab up`, later runs without sudo could not write there.
func giveToCaller(folder string) error {
	uid, gid, ok := sudoCaller(os.Getenv)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	top, err := filepath.Abs(folder)
	above := filepath.Dir(top)
	if err == nil && filepath.Base(above) == runsFolder && ownedBy(above, 0) && ownedBy(filepath.Dir(above), uid) {
		err = os.Lchown(above, uid, gid)
	}
	if err == nil && ownedBy(above, uid) {
		err = filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				err = os.Lchown(path, uid, gid)
			}
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("hand over the run folder: %w", err)
	}
	return nil
}

// ownedBy does not follow symbolic links: it checks the owner of the link itself.
func ownedBy(path string, uid int) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && int(st.Uid) == uid
}
