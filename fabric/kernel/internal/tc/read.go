//go:build linux

package tc

import (
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// known are the kinds that have a layout.
var known = map[Type]map[string]Options{
	Qdisc:  {"tbf": TBF{}, "htb": HTB{}, "bfifo": FIFO{}, "red": RED{}, "netem": Netem{}},
	Class:  {"htb": HTBClass{}},
	Filter: {"u32": U32{}, "bpf": BPF{}},
}

// Message is what the kernel reports of an object. Its slices are valid as long as the
// payload that it was parsed from.
type Message struct {
	nl.TcMsg
	Kind    []byte // without the final zero
	Options []byte
	Stats   []byte // TCA_STATS2
}

// Parse reads a payload. What is short or malformed is as if it were missing.
func Parse(payload []byte) (m Message) {
	copy(m.Serialize(), payload)
	rtnl.Attrs(rtnl.Skip(payload, nl.SizeofTcMsg), func(typ uint16, v []byte) {
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

// Object reads a message of a type. It is no object where a kind reports what nobody
// made: classes of others than HTB, and the heads of the lists of filters.
func (m *Message) Object(t Type) (o Object, ok bool) {
	o = Object{Type: t, Parent: Handle(m.Parent), Handle: Handle(m.Handle)}
	options, ok := known[t][string(m.Kind)]
	if !ok {
		o.Options = Other(m.Kind)
		return o, t == Qdisc || t == Filter && len(m.Options) > 0
	}
	o.Options = options.layout(&coder{in: m.Options})
	switch t {
	case Class:
		if o.Parent == Root { // a class at the top is part of the qdisc itself
			o.Parent = o.Handle.Qdisc()
		}
	case Filter:
		o.Handle = 0
		table := string(m.Kind) == "u32" && rtnl.Find(m.Options, nl.TCA_U32_DIVISOR) != nil
		return o, len(m.Options) > 0 && !table
	}
	return o, true
}

// Dump lists the objects of an interface (0: of all), for filters those below a qdisc.
// reset is called before each try.
func Dump(c *rtnl.Conn, t Type, of nl.TcMsg, reset func(), fn func(Message)) error {
	const get = unix.RTM_GETQDISC - unix.RTM_NEWQDISC
	var b rtnl.Batch
	b.Begin(uint16(t)+get, 0, "list", map[Type]string{Qdisc: "qdiscs", Class: "classes", Filter: "filters"}[t])
	Request(&b, of)
	return c.Dump(&b, reset, func(m rtnl.Message) { fn(Parse(m.Payload)) })
}

// Read reads the queueing of all interfaces of the connection's namespace, by index.
func Read(c *rtnl.Conn) (map[uint32]Tree, error) {
	trees := map[uint32]Tree{}
	err := Dump(c, Qdisc, nl.TcMsg{}, func() { clear(trees) }, func(m Message) {
		if o, ok := m.Object(Qdisc); ok {
			trees[uint32(m.Ifindex)] = append(trees[uint32(m.Ifindex)], o)
		}
	})
	for index, t := range trees {
		if err == nil {
			trees[index], err = t.readInside(c, index)
		}
	}
	return trees, err
}

// readInside adds the classes and filters of an interface where it has any.
func (t Tree) readInside(c *rtnl.Conn, index uint32) (Tree, error) {
	classes := false
	for _, q := range t {
		if q.Type != Qdisc || q.Options.Kind() != "htb" {
			continue
		}
		var err error
		if !classes {
			t, err = t.readMore(c, Class, nl.TcMsg{Ifindex: int32(index)})
			classes = true
		}
		if err == nil {
			t, err = t.readMore(c, Filter, nl.TcMsg{Ifindex: int32(index), Parent: uint32(q.Handle)})
		}
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t Tree) readMore(c *rtnl.Conn, typ Type, of nl.TcMsg) (Tree, error) {
	size := len(t)
	err := Dump(c, typ, of, func() { t = t[:size] }, func(m Message) {
		if o, ok := m.Object(typ); ok {
			t = append(t, o)
		}
	})
	return t, err
}
