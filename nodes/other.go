//go:build !linux

package nodes

import (
	"context"
	"errors"
)

// errLinux is every answer where there are no network namespaces.
var errLinux = errors.New("agents run on Linux only")

// Process runs agents as processes, on Linux.
type Process struct{}

// NewProcess fails: it needs Linux.
func NewProcess() (*Process, error) { return nil, errLinux }

// Name implements Runtime.
func (*Process) Name() string { return "process" }

// Start implements Runtime.
func (*Process) Start(context.Context, Spec) (Agent, error) { return Agent{}, errLinux }

// Alive implements Runtime.
func (*Process) Alive(Agent) (bool, error) { return false, errLinux }

// Stop implements Runtime.
func (*Process) Stop(context.Context, Agent) error { return errLinux }

// Exec implements Runtime.
func (*Process) Exec(context.Context, ExecSpec) (int, error) { return 0, errLinux }

// StartTime fails: it needs Linux.
func StartTime(int) (uint64, error) { return 0, errLinux }

// FindProcesses fails: it needs Linux.
func FindProcesses(map[uint64]bool) ([]Proc, error) { return nil, errLinux }

// Terminate fails: it needs Linux.
func Terminate(context.Context, []Proc) error { return errLinux }
