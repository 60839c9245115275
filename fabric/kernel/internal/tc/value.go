//go:build linux

// Package tc holds the queueing of an interface as a value: a Tree of qdiscs, classes and
// filters. The same value is written to the kernel, read back from it and compared.
//
// Each kind has one layout method (kinds.go), which defines the place of every field in
// the kernel's messages. Writing, reading and comparing all run it. A new setting is a
// new field of a kind and one line in its layout.
package tc

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// Handle names a qdisc (MAJOR:) or a class (MAJOR:MINOR).
type Handle uint32

// Root is the parent of an interface's first qdisc.
const Root Handle = math.MaxUint32

// Qdisc is the handle of the qdisc that a class belongs to.
func (h Handle) Qdisc() Handle { return h &^ math.MaxUint16 }

// String is the handle as the tc command writes it.
func (h Handle) String() string {
	switch {
	case h == Root:
		return "root"
	case h == h.Qdisc():
		return fmt.Sprintf("%x:", uint32(h>>16))
	}
	return fmt.Sprintf("%x:%x", uint32(h>>16), uint16(h))
}

// Type is what an object is: the netlink message that makes it.
type Type uint16

// The types of object.
const (
	Qdisc  Type = unix.RTM_NEWQDISC
	Class  Type = unix.RTM_NEWTCLASS
	Filter Type = unix.RTM_NEWTFILTER
)

// Object is a qdisc, a class or a filter.
type Object struct {
	// Parent is the class that holds a qdisc, the class or qdisc that a class is
	// part of, or the qdisc that uses a filter.
	Parent Handle
	// Handle is 0 for filters, and for a qdisc whose number the kernel chooses.
	Handle  Handle
	Options Options
}

// Tree is the queueing of one interface.
type Tree []Object

// Options are the settings of an object; their type is the object's kind.
type Options interface {
	kind() (Type, string)
	// layout runs the coder over all fields and returns the options with what it read.
	layout(c *coder) Options
}

// Bucket is a token bucket.
type Bucket struct {
	// Rate in bytes per second, at least 1.
	Rate uint64
	// Bytes is the depth. The kernel reports it as the time that the bytes take at the
	// rate, in ticks, so that what is read back is rounded.
	Bytes float64
}

// TickNanoseconds is the kernel's unit of bucket depths.
const TickNanoseconds = 64

// Ticks is the depth as the kernel counts it, rounded up.
func (b Bucket) Ticks() uint32 {
	const fuzz = 1e-6 // of a tick: what arithmetic adds to a depth that was read
	t := math.Ceil(b.Bytes*1e9/float64(b.Rate)/TickNanoseconds - fuzz)
	return uint32(max(0, min(t, math.MaxUint32)))
}
