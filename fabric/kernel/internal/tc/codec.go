//go:build linux

package tc

import (
	"math"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// coder takes a kind's layout in one of three directions: to a message, from one, or to a
// list of fields.
type coder struct {
	out  *rtnl.Batch // not nil: writes
	list *[]field    // not nil: lists
	in   []byte      // else: reads
}

// field is one setting, as it is compared and printed.
type field struct {
	name, unit string
	value      uint64
	slack      uint64 // how far value may be off
	shown      uint64
	depends    bool // means nothing where the field before differs
}

// Units that are more than a suffix.
const (
	hex         = "hex"
	nanoseconds = "ns"
)

// head, in place of an attribute's type, is a structure in front of all attributes.
const head = 0

func (c *coder) reads() bool { return c.out == nil && c.list == nil }

// load fills a kernel structure, where the coder reads. What is missing is left alone.
func (c *coder) load(typ uint16, p []byte) {
	switch {
	case !c.reads():
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
		c.out.U8(p...)
	default:
		c.out.Attr(typ, p)
	}
}

// word moves a field between the value and the kernel's structure.
func (c *coder) word(name, unit string, kernel, value *uint32) {
	switch {
	case c.out != nil:
		*kernel = *value
	case c.list != nil:
		c.add(field{name: name, unit: unit, value: uint64(*value), shown: uint64(*value)})
	default:
		*value = *kernel
	}
}

func (c *coder) byte(name, unit string, kernel, value *uint8) {
	wide, own := uint32(*kernel), uint32(*value)
	c.word(name, unit, &wide, &own)
	*kernel, *value = uint8(wide), uint8(own)
}

// kernelBucket is a Bucket in the kernel's structures.
type kernelBucket struct {
	rate  *nl.TcRateSpec
	depth *uint32
}

// bucket moves a token bucket. The structure's rate has 32 bits and wraps above 34.36
// Gbit/s, so faster ones are in an attribute of their own and the old field is all ones.
func (c *coder) bucket(rate, depth string, wide uint16, kernel kernelBucket, value *Bucket) {
	switch {
	case c.out != nil:
		*kernel.rate = nl.TcRateSpec{Linklayer: nl.LINKLAYER_ETHERNET, CellAlign: -1, Rate: uint32(min(value.Rate, math.MaxUint32))}
		*kernel.depth = value.Ticks()
		if value.Rate > math.MaxUint32 {
			c.out.AttrU64(wide, value.Rate)
		}
	case c.list != nil:
		c.add(field{name: rate, unit: " bit/s", value: value.Rate, shown: value.Rate * 8})
		c.add(field{name: depth, unit: " bytes", value: uint64(value.Ticks()), slack: 1, shown: uint64(value.Bytes + 0.5), depends: true})
	default:
		r := uint64(kernel.rate.Rate)
		c.load(wide, raw(&r))
		*value = bucketOf(r, *kernel.depth)
	}
}

// duration moves an attribute in nanoseconds.
func (c *coder) duration(name string, typ uint16, value *time.Duration) {
	switch {
	case c.list != nil:
		c.add(field{name: name, unit: nanoseconds, value: uint64(*value), shown: uint64(*value)})
	default:
		c.load(typ, raw(value))
		c.store(typ, raw(value))
	}
}

// text moves an attribute of any length.
func (c *coder) text(typ uint16, value *string) {
	switch {
	case c.out != nil:
		c.out.Attr(typ, []byte(*value))
	case c.list == nil:
		*value = string(rtnl.Find(c.in, typ))
	}
}

// key moves the selector of a u32 filter. nl's own decoder takes no care of what is short.
func (c *coder) key(q *U32) {
	switch {
	case c.out != nil:
		sel := nl.TcU32Sel{Flags: nl.TC_U32_TERMINAL, Nkeys: 1, Keys: []nl.TcU32Key{
			{Mask: nl.Swap32(q.Mask), Val: nl.Swap32(q.Value), Off: q.Offset},
		}}
		c.out.Attr(nl.TCA_U32_SEL, sel.Serialize())
	case c.list == nil:
		const keysAt = 2
		v := rtnl.Find(c.in, nl.TCA_U32_SEL)
		if len(v) < nl.SizeofTcU32Sel || len(v) < nl.SizeofTcU32Sel+int(v[keysAt])*nl.SizeofTcU32Key {
			return
		}
		sel := nl.DeserializeTcU32Sel(v)
		if q.Keys = sel.Nkeys; q.Keys > 0 {
			k := sel.Keys[0]
			q.Mask, q.Value, q.Offset = nl.Swap32(k.Mask), nl.Swap32(k.Val), k.Off
		}
	}
}

func (c *coder) add(f field) { *c.list = append(*c.list, f) }

const (
	createNew  = unix.NLM_F_CREATE | unix.NLM_F_EXCL
	filterPrio = 1
)

// protocolIP is what filters look at. It is a variable also because nl finds out the
// host's byte order at the first swap and not under a lock: here no one else runs yet.
var protocolIP = nl.Swap16(unix.ETH_P_IP)

// Request appends the header of a request to a batch that has just begun one.
func Request(b *rtnl.Batch, m nl.TcMsg) { b.U8(m.Serialize()...) }

// Add appends the requests that make a tree on an interface. name is the interface's, for errors.
func (t Tree) Add(b *rtnl.Batch, index uint32, name string) {
	c := coder{out: b}
	for _, o := range t {
		m := nl.TcMsg{Ifindex: int32(index), Handle: uint32(o.Handle), Parent: uint32(o.Parent)}
		if o.Type == Filter {
			m.Info = filterPrio<<16 | uint32(protocolIP)
		}
		kind := o.Options.Kind()
		b.Begin(uint16(o.Type), createNew, "add "+kind+" to", name)
		Request(b, m)
		b.AttrString(nl.TCA_KIND, kind)
		b.Nest(nl.TCA_OPTIONS)
		o.Options.layout(&c)
		b.End()
	}
}
