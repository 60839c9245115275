package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// sudoCaller returns the user who called sudo; ok is false without sudo.
func sudoCaller(getenv func(string) string) (uid, gid int, ok bool) {
	uid, errUID := strconv.Atoi(getenv("SUDO_UID"))
	gid, errGID := strconv.Atoi(getenv("SUDO_GID"))
	return uid, gid, errUID == nil && errGID == nil && uid > 0
}

// handOver makes a user the owner of a run folder, and of the netkvlab-runs that the run may
// have made, if the parent folder is theirs. Otherwise, after a first `sudo netkvlab up`, later
// runs without sudo could not write there.
func handOver(folder string, uid, gid int) error {
	top, err := filepath.Abs(folder)
	if err != nil {
		return fmt.Errorf("hand over the run folder: %w", err)
	}
	if above := filepath.Dir(top); filepath.Base(above) == runsFolder && !ownedBy(above, uid) {
		if !ownedBy(filepath.Dir(above), uid) || !ownedBy(above, 0) {
			return nil
		}
		if err := os.Lchown(above, uid, gid); err != nil {
			return fmt.Errorf("hand over the run folder: %w", err)
		}
	}
	if !ownedBy(filepath.Dir(top), uid) {
		return nil
	}
	return filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = os.Lchown(path, uid, gid)
		}
		if err != nil {
			return fmt.Errorf("hand over the run folder: %w", err)
		}
		return nil
	})
}

// ownedBy does not follow symbolic links: it checks the owner of the link itself.
func ownedBy(path string, uid int) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && int(st.Uid) == uid
}
