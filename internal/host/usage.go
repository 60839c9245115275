package host

import (
	"fmt"
	"time"

	"github.com/prometheus/procfs"
)

// Usage is what a process has used so far.
type Usage struct {
	ResidentBytes int64
	CPU           time.Duration // user and system, to 10 ms
}

// UsageOf reads what a process has used, such as an agent or a container's first process. The
// error matches fs.ErrNotExist when there is no such process.
func UsageOf(proc string, pid int) (Usage, error) {
	fs, err := procfs.NewFS(proc)
	if err != nil {
		return Usage{}, err
	}
	p, err := fs.Proc(pid)
	if err != nil {
		return Usage{}, fmt.Errorf("usage of process %d: %w", pid, err)
	}
	s, err := p.Stat()
	if err != nil {
		return Usage{}, fmt.Errorf("usage of process %d: %w", pid, err)
	}
	return Usage{CPU: time.Duration(s.CPUTime() * float64(time.Second)), ResidentBytes: int64(s.ResidentMemory())}, nil
}
