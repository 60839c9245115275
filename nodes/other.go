//go:build !linux

package nodes

import (
	"context"
	"errors"
)

var errNotLinux = errors.New("nodes are network namespaces, which only Linux has: use the flow world (netkvlab sim) here")

// Process is the process runtime, which exists on Linux only.
type Process struct{}

var _ Runtime = (*Process)(nil)

// NewProcess fails: there is no such runtime on this system.
func NewProcess() (*Process, error) { return nil, errNotLinux }

// Name is "process".
func (*Process) Name() string { return "process" }

// Start fails.
func (*Process) Start(context.Context, Spec) (Agent, error) { return Agent{}, errNotLinux }

// Alive fails.
func (*Process) Alive(Agent) (bool, error) { return false, errNotLinux }

// Stop fails.
func (*Process) Stop(context.Context, Agent) error { return errNotLinux }

// Exec fails.
func (*Process) Exec(context.Context, ExecSpec) (int, error) { return 0, errNotLinux }

// Alive fails.
func Alive(Agent) (bool, error) { return false, errNotLinux }

// Exec fails.
func Exec(context.Context, ExecSpec) (int, error) { return 0, errNotLinux }

// StartTime fails.
func StartTime(int) (uint64, error) { return 0, errNotLinux }

// FindProcesses fails.
func FindProcesses(map[uint64]bool) ([]Proc, error) { return nil, errNotLinux }

// FindAgents fails.
func FindAgents(string) ([]Proc, error) { return nil, errNotLinux }

// NameOf is empty.
func NameOf(int) string { return "" }

// Lineage is empty.
func Lineage() map[int]bool { return nil }

// Ask fails.
func Ask(context.Context, []Proc) error { return errNotLinux }

// Terminate fails.
func Terminate(context.Context, []Proc) error { return errNotLinux }
