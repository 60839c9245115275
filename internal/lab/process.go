package lab

import (
	"fmt"
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

// String names the process for a message; the zero value is one that has not signed.
func (p Process) String() string {
	if p.PID > 0 {
		return fmt.Sprintf("process %d", p.PID)
	}
	return "another netkvlab process"
}
