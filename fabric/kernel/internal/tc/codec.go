//go:build linux

package tc

import (
	"math"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// coder runs a kind's layout in one of three directions: to a message, from a message, or
// to a list of fields.
type coder struct {
	out  *rtnl.Batch // not nil: writes
	list *[]field    // not nil: lists
	in   []byte      // else: reads
}

// head, used as an attribute's type, means a structure in front of all attributes.
const head = 0

// result is what a layout read; nil, without an allocation, where it did not read.
func result[T Options](c *coder, q T) Options {
	if c.out != nil || c.list != nil {
		return nil
	}
	return q
}

// load fills a kernel structure, where the coder reads. Missing bytes remain as they are.
func (c *coder) load(typ uint16, p []byte) {
	switch {
	case c.out != nil || c.list != nil:
	case typ == head:
		c.in = c.in[copy(p, c.in):]
	default:
		copy(p, rtnl.Find(c.in, typ))
	}
}

// store appends a kernel structure, where the coder writes.
func (c *coder) store(typ uint16, p []byte) {
	switch {
	case c.out == nil:
	case typ == head:
		c.out.Bytes(p)
	default:
		c.out.Attr(typ, p)
	}
}

// wide moves a field between the value and the kernel's structure.
func (c *coder) wide(name, unit string, kernel, value *uint64) {
	switch {
	case c.out != nil:
		*kernel = *value
	case c.list != nil:
		*c.list = append(*c.list, field{name: name, unit: unit, value: *value, shown: *value})
	default:
		*value = *kernel
	}
}

func (c *coder) word(name, unit string, kernel, value *uint32) {
	k, v := uint64(*kernel), uint64(*value)
	c.wide(name, unit, &k, &v)
	*kernel, *value = uint32(k), uint32(v)
}

func (c *coder) byte(name string, kernel, value *uint8) {
	k, v := uint64(*kernel), uint64(*value)
	c.wide(name, "%d", &k, &v)
	*kernel, *value = uint8(k), uint8(v)
}

// text moves an attribute of any length.
func (c *coder) text(typ uint16, value *string) {
	c.store(typ, []byte(*value))
	if c.out == nil && c.list == nil {
		*value = string(rtnl.Find(c.in, typ))
	}
}

// kernelBucket is a Bucket in the kernel's structures.
type kernelBucket struct {
	rate  *nl.TcRateSpec
	depth *uint32
}

// bucket moves a token bucket. The structure's rate has 32 bits and wraps above 34.36
// Gbit/s, so faster ones are in a separate attribute and the old field is all ones.
func (c *coder) bucket(rate, depth string, rate64 uint16, kernel kernelBucket, value *Bucket) {
	switch {
	case c.out != nil:
		*kernel.rate = nl.TcRateSpec{Linklayer: nl.LINKLAYER_ETHERNET, CellAlign: -1, Rate: uint32(min(value.Rate, math.MaxUint32))}
		*kernel.depth = value.Ticks()
		if value.Rate > math.MaxUint32 {
			c.store(rate64, rtnl.Raw(&value.Rate))
		}
	case c.list != nil:
		*c.list = append(*c.list, field{name: rate, unit: "%d bit/s", value: value.Rate, shown: value.Rate * 8},
			field{name: depth, unit: "%d bytes", value: uint64(value.Ticks()), slack: 1, shown: uint64(value.Bytes + 0.5), depends: true})
	default:
		value.Rate = uint64(kernel.rate.Rate)
		c.load(rate64, rtnl.Raw(&value.Rate))
		value.Bytes = float64(*kernel.depth) * TickNanoseconds * float64(value.Rate) / 1e9
	}
}

// protocolIP is the protocol that filters match. It is a variable because nl finds out the
// host's byte order at the first swap without a lock: here no other goroutine runs yet.
var protocolIP = nl.Swap16(unix.ETH_P_IP)

// Add appends the requests that make a tree on an interface, parents first. name is the
// interface's, for errors.
func (t Tree) Add(b *rtnl.Batch, index uint32, name string) {
	const filterPrio = 1
	c := coder{out: b}
	for _, o := range t {
		typ, kind := o.Options.kind()
		m := nl.TcMsg{Ifindex: int32(index), Handle: uint32(o.Handle), Parent: uint32(o.Parent)}
		if typ == Filter {
			m.Info = filterPrio<<16 | uint32(protocolIP)
		}
		b.Begin(uint16(typ), unix.NLM_F_CREATE|unix.NLM_F_EXCL, "add "+kind+" to", name)
		rtnl.Put(b, m)
		b.AttrString(nl.TCA_KIND, kind)
		b.Nest(nl.TCA_OPTIONS)
		o.Options.layout(&c)
		b.End()
	}
}
