//go:build !linux

package kvagent

import (
	"errors"
	"time"
)

var started = time.Now()

// errNotLinux is the error, outside Linux, of all that needs sockets in namespaces.
var errNotLinux = errors.New("agents run on Linux only: use the flow world (netkvlab sim) here")

// Monotonic is nanoseconds since the process started: outside Linux there is no
// other process to share a clock with.
func Monotonic() int64 { return monotonic() }

func monotonic() int64 { return int64(time.Since(started)) }

type kernelTimer struct{}

func newKernelTimer() (*kernelTimer, error) { return nil, errNotLinux }
func (*kernelTimer) set(int64) error        { return errNotLinux }
func (*kernelTimer) wait() error            { return errNotLinux }
func (*kernelTimer) close() error           { return errNotLinux }
