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
	in   []byte      // else: reads; nil where it does not
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
	if typ == head {
		c.in = c.in[copy(p, c.in):]
	} else {
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

// number moves a field between the value and the kernel's structure.
func number[T uint8 | uint32 | uint64](c *coder, name, unit string, kernel, value *T) {
	switch {
	case c.out != nil:
		*kernel = *value
	case c.list != nil:
		*c.list = append(*c.list, field{name: name, unit: unit, value: uint64(*value), shown: uint64(*value)})
	default:
		*value = *kernel
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

// Message is what the kernel reports of an object. Its slices are valid as long as the
// payload that it was parsed from.
type Message struct {
	nl.TcMsg
	Kind    []byte // without the final zero
	Options []byte
	Stats   []byte // TCA_STATS2
}

// Parse reads a payload. It treats short or malformed attributes as missing.
func Parse(payload []byte) (m Message) {
	m.TcMsg, payload = rtnl.Split[nl.TcMsg](payload)
	rtnl.Attrs(payload, func(typ uint16, v []byte) {
		switch typ {
		case nl.TCA_KIND:
			m.Kind = v[:max(0, len(v)-1)]
		case nl.TCA_OPTIONS:
			m.Options = v
		case nl.TCA_STATS2:
			m.Stats = v
		}
	})
	return m
}

// Object reads a message of a type. Some kinds also report what no request made: classes of
// qdiscs other than HTB, and the heads of the lists of filters. These are not objects.
func (m *Message) Object(t Type) (o Object, ok bool) {
	o = Object{Parent: Handle(m.Parent), Handle: Handle(m.Handle)}
	for _, k := range kinds {
		if typ, kind := k.kind(); typ == t && kind == string(m.Kind) {
			o.Options = k.layout(&coder{in: m.Options})
			ok = t != Filter || o.Options != k
		}
	}
	if o.Options == nil {
		o.Options = Other{t, string(m.Kind)}
		ok = t == Qdisc || t == Filter && len(m.Options) > 0
	}
	switch {
	case t == Filter:
		o.Handle = 0
	case t == Class && o.Parent == Root: // at the top it is part of the qdisc itself
		o.Parent = o.Handle.Qdisc()
	}
	return o, ok
}

// Dump lists the objects of an interface (0: of all), or only those of the qdisc parent
// where it is given. reset is called before each try.
func Dump(c *rtnl.Conn, t Type, of nl.TcMsg, reset func(), fn func(Message)) error {
	const get = unix.RTM_GETQDISC - unix.RTM_NEWQDISC
	names := map[Type]string{Qdisc: "qdiscs", Class: "classes", Filter: "filters"}
	return c.Dump(uint16(t)+get, names[t], of.Serialize(), reset, func(payload []byte) { fn(Parse(payload)) })
}

// Read reads the queueing of all interfaces of the connection's namespace, by index.
func Read(c *rtnl.Conn) (map[uint32]Tree, error) {
	trees := map[uint32]Tree{}
	err := Dump(c, Qdisc, nl.TcMsg{}, func() { clear(trees) }, func(m Message) {
		o, _ := m.Object(Qdisc)
		trees[uint32(m.Ifindex)] = append(trees[uint32(m.Ifindex)], o)
	})
	for index, qdiscs := range trees {
		for _, q := range qdiscs {
			if _, htb := q.Options.(HTB); !htb || err != nil {
				continue
			}
			of := nl.TcMsg{Ifindex: int32(index), Parent: uint32(q.Handle)}
			if trees[index], err = trees[index].read(c, Class, of); err == nil {
				trees[index], err = trees[index].read(c, Filter, of)
			}
		}
	}
	return trees, err
}

func (t Tree) read(c *rtnl.Conn, typ Type, of nl.TcMsg) (Tree, error) {
	size := len(t)
	err := Dump(c, typ, of, func() { t = t[:size] }, func(m Message) {
		if o, ok := m.Object(typ); ok {
			t = append(t, o)
		}
	})
	return t, err
}
