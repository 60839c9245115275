package nodes

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of CPU times in /proc: USER_HZ is 100 on every Linux.
const tick = 10 * time.Millisecond

// UsageOf reads what a process has used: of an agent, or of a container's first
// process. The error matches fs.ErrNotExist when there is no such process.
func UsageOf(pid int) (Usage, error) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if errors.Is(err, unix.ESRCH) { // it ended between open and read
		err = fs.ErrNotExist
	}
	if err != nil {
		return Usage{}, fmt.Errorf("usage of process %d: %w", pid, err)
	}
	return parseUsage(pid, b)
}

// parseUsage takes fields 14, 15 and 24 of a stat line: times in ticks, and pages.
func parseUsage(pid int, b []byte) (Usage, error) {
	rest := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // from field 3 on
	if len(rest) < 22 {
		return Usage{}, fmt.Errorf("usage of process %d: stat line too short: %q", pid, b)
	}
	var n [3]int64
	for i, field := range []int{14, 15, 24} {
		v, err := strconv.ParseInt(string(rest[field-3]), 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("usage of process %d: field %d: %w", pid, field, err)
		}
		n[i] = v
	}
	return Usage{CPU: time.Duration(n[0]+n[1]) * tick, ResidentBytes: n[2] * int64(os.Getpagesize())}, nil
}
