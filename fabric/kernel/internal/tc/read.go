//go:build linux

package tc

import (
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

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
