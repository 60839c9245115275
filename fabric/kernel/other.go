//go:build !linux

package kernel

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/netkvlab/netkvlab/fabric"
)

var errNotLinux = &UnsupportedError{
	Feature: "fabric", Need: "Linux (network namespaces); the flow world runs anywhere: netkvlab sim",
	Cause: fmt.Errorf("this is %s: %w", runtime.GOOS, errors.ErrUnsupported),
}

// Fabric is a standing fabric; on this system there never is one.
type Fabric struct{ plan *fabric.Plan }

// CheckMounts fails: it needs Linux.
func CheckMounts() error { return errNotLinux }

// Apply fails: it needs Linux.
func Apply(context.Context, string, *fabric.Plan, Options) (*Fabric, error) { return nil, errNotLinux }

// Open fails: it needs Linux.
func Open(context.Context, string, *fabric.Plan, Options) (*Fabric, error) { return nil, errNotLinux }

// Inspect fails: it needs Linux.
func Inspect(context.Context, string, *fabric.Plan, Options) (Damage, error) {
	return Damage{}, errNotLinux
}

// Remove fails: it needs Linux.
func Remove(context.Context, string, Options) (Removed, error) { return Removed{}, errNotLinux }

// Labs fails: it needs Linux.
func Labs() ([]string, error) { return []string{}, errNotLinux }

// Namespaces fails: it needs Linux.
func Namespaces(string) ([]Namespace, error) { return []Namespace{}, errNotLinux }

// Plan is nil.
func (f *Fabric) Plan() *fabric.Plan { return f.plan }

// Features has none.
func (f *Fabric) Features() Features { return Features{} }

// Verify fails: it needs Linux.
func (f *Fabric) Verify(context.Context) error { return errNotLinux }

// Counters fails: it needs Linux.
func (f *Fabric) Counters() ([]PortCounters, error) { return nil, errNotLinux }

// CountersOf fails: it needs Linux.
func (f *Fabric) CountersOf(fabric.NodeID) ([]PortCounters, error) { return nil, errNotLinux }

// Close does nothing.
func (f *Fabric) Close() error { return nil }

// Do fails: it needs Linux.
func (f *Fabric) Do(fabric.NodeID, func() error) error { return errNotLinux }

// Slots fails: it needs Linux.
func (f *Fabric) Slots(Flow, []uint16) ([]int, error) { return nil, errNotLinux }

// NetnsPath is empty.
func (f *Fabric) NetnsPath(fabric.NodeID) string { return "" }

// Path fails: it needs Linux.
func (f *Fabric) Path(Flow) (fabric.Path, error) { return nil, errNotLinux }

// PathPorts fails: it needs Linux.
func (f *Fabric) PathPorts(Flow, int) ([][]uint16, error) { return nil, errNotLinux }

// probes has one row here: what is missing is Linux itself.
var probes = []*Probe{{Name: "linux", Need: errNotLinux.Need, Required: true, Try: func() error { return errNotLinux }}}
