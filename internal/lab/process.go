package lab

import (
	"os"

	"github.com/netkvlab/netkvlab/nodes"
)

// self names this process.
func self() Process {
	start, err := nodes.StartTime(os.Getpid())
	if err != nil {
		return Process{} // then nobody will signal us, which is the safe side
	}
	return Process{PID: os.Getpid(), StartTime: start}
}

// running reports whether that very process still exists.
func (p Process) running() bool {
	start, err := nodes.StartTime(p.PID)
	return err == nil && start == p.StartTime
}
