package nodes

import (
	"fmt"
	"time"
)

// tick is the unit of CPU times in /proc: USER_HZ is 100 on every Linux.
const tick = 10 * time.Millisecond

// UsageOf reads what a process has used: of an agent, or of a container's first
// process. The error matches fs.ErrNotExist when there is no such process.
func UsageOf(pid int) (Usage, error) {
	s, err := readStat(pid)
	if err != nil {
		return Usage{}, fmt.Errorf("usage: %w", err)
	}
	return Usage{CPU: time.Duration(s.UTime+s.STime) * tick, ResidentBytes: int64(s.ResidentMemory())}, nil
}
