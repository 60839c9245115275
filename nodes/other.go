//go:build !linux

package nodes

import (
	"context"
	"errors"
)

var errNotLinux = errors.New("nodes are network namespaces, which only Linux has: use the flow world (netkvlab sim) here")

// Process is the process runtime, which exists on Linux only.
type Process struct{ Runtime }

// NewProcess fails: there is no such runtime on this system.
func NewProcess() (*Process, error) { return nil, errNotLinux }

// Alive fails.
func Alive(Agent) (bool, error) { return false, errNotLinux }

// Exec fails.
func Exec(context.Context, ExecSpec) (int, error) { return 0, errNotLinux }

// StartTime fails.
func StartTime(int) (uint64, error) { return 0, errNotLinux }

// OfLab fails.
func OfLab(string, map[uint64]bool) ([]Proc, error) { return nil, errNotLinux }

// NameOf is empty.
func NameOf(int) string { return "" }

// Ask fails.
func Ask(context.Context, []Proc) error { return errNotLinux }

// Terminate fails.
func Terminate(context.Context, []Proc) error { return errNotLinux }
