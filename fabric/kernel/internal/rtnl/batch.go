//go:build linux

// Package rtnl sends rtnetlink requests in batches: many requests per system call, one
// acknowledgement for all. Building a fabric takes thousands of small requests. In a
// library that waits for each answer, the wait is most of the time
// (see the benchmarks of package kernel). The package knows message framing
// and errors, not what messages mean.
//
// A Batch is built, then given to a Conn. Neither is safe for concurrent use.
package rtnl

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Batch is a sequence of requests under construction. The zero value is empty
// and ready to use.
type Batch struct {
	buf   []byte
	ops   []op
	nests []int
}

// op is one request: its offset and its name in errors.
type op struct {
	start        int
	what, object string
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { b.buf, b.ops, b.nests = b.buf[:0], b.ops[:0], b.nests[:0] }

// Len is the number of requests.
func (b *Batch) Len() int { return len(b.ops) }

// Requests calls fn for each request with its type, as the kernel will see it.
func (b *Batch) Requests(fn func(typ uint16, m Message)) {
	b.finish()
	for i, o := range b.ops {
		m := b.buf[o.start:b.endOf(i)]
		fn(binary.NativeEndian.Uint16(m[4:]), Message{Payload: m[unix.NLMSG_HDRLEN:]})
	}
}

// Begin starts a request of a message type with flags beside NLM_F_REQUEST.
// what and object name it in errors: "add route to", "10.0.0.0/16".
func (b *Batch) Begin(typ, flags uint16, what, object string) {
	b.finish()
	b.ops = append(b.ops, op{start: len(b.buf), what: what, object: object})
	b.buf = binary.NativeEndian.AppendUint32(b.buf, 0)
	b.buf = binary.NativeEndian.AppendUint16(b.buf, typ)
	b.buf = binary.NativeEndian.AppendUint16(b.buf, flags|unix.NLM_F_REQUEST)
	b.buf = append(b.buf, 0, 0, 0, 0, 0, 0, 0, 0) // sequence, sender
}

// finish closes open nests and writes the length of the request begun last.
func (b *Batch) finish() {
	for len(b.nests) > 0 {
		b.End()
	}
	if len(b.ops) > 0 {
		start := b.ops[len(b.ops)-1].start
		binary.NativeEndian.PutUint32(b.buf[start:], uint32(len(b.buf)-start))
	}
}

// U8 appends bytes of a fixed header.
func (b *Batch) U8(v ...uint8) { b.buf = append(b.buf, v...) }

// U16 appends 16-bit words of a fixed header, in host order.
func (b *Batch) U16(v ...uint16) {
	for _, x := range v {
		b.buf = binary.NativeEndian.AppendUint16(b.buf, x)
	}
}

// U32 appends 32-bit words of a fixed header, in host order.
func (b *Batch) U32(v ...uint32) {
	for _, x := range v {
		b.buf = binary.NativeEndian.AppendUint32(b.buf, x)
	}
}

// Nest opens an attribute that holds what follows, until End.
func (b *Batch) Nest(typ uint16) {
	b.nests = append(b.nests, len(b.buf))
	b.U16(0, typ)
}

// NextHop opens an rtnexthop, whose length field comes first as an attribute's.
func (b *Batch) NextHop(ifindex uint32) {
	b.nests = append(b.nests, len(b.buf))
	b.U16(0)
	b.U8(0, 0)
	b.U32(ifindex)
}

// End closes the attribute opened last.
func (b *Batch) End() {
	start := b.nests[len(b.nests)-1]
	b.nests = b.nests[:len(b.nests)-1]
	binary.NativeEndian.PutUint16(b.buf[start:], uint16(len(b.buf)-start))
	b.align()
}

func (b *Batch) align() {
	for len(b.buf)%4 != 0 {
		b.buf = append(b.buf, 0)
	}
}

// Attr appends an attribute.
func (b *Batch) Attr(typ uint16, value []byte) {
	b.U16(uint16(4+len(value)), typ)
	b.buf = append(b.buf, value...)
	b.align()
}

// AttrString appends a text attribute with its final zero.
func (b *Batch) AttrString(typ uint16, s string) {
	b.U16(uint16(4+len(s)+1), typ)
	b.buf = append(append(b.buf, s...), 0)
	b.align()
}

// AttrU8 appends a byte.
func (b *Batch) AttrU8(typ uint16, v uint8) { b.Attr(typ, []byte{v}) }

// AttrU32 appends a 32-bit word in host order.
func (b *Batch) AttrU32(typ uint16, v uint32) {
	b.U16(8, typ)
	b.U32(v)
}

// AttrU64 appends a 64-bit word in host order.
func (b *Batch) AttrU64(typ uint16, v uint64) {
	b.U16(12, typ)
	b.buf = binary.NativeEndian.AppendUint64(b.buf, v)
}

// AttrBE16 appends a 16-bit word in network order, as ports are.
func (b *Batch) AttrBE16(typ, v uint16) { b.Attr(typ, []byte{byte(v >> 8), byte(v)}) }
