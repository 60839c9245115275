//go:build linux

// Package rtnl sends rtnetlink requests in batches: many requests per system call, one
// acknowledgement for all. Building a fabric takes thousands of small requests. In a
// library that waits for each answer, the wait is most of the time
// (see the benchmarks of package kernel). The package knows message framing
// and errors, not what messages mean.
//
// A Batch is built, then given to a Conn. A Batch is not safe for concurrent use.
package rtnl

import (
	"bytes"
	"net/netip"
	"unsafe"

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

// Requests calls fn for each request with its type, as the kernel will see it.
func (b *Batch) Requests(fn func(typ uint16, payload []byte)) {
	b.finish()
	for i, o := range b.ops {
		fn(b.header(i).Type, b.buf[o.start+unix.NLMSG_HDRLEN:b.endOf(i)])
	}
}

// Begin starts a request of a message type with flags beside NLM_F_REQUEST.
// what and object name it in errors: "add route to", "10.0.0.0/16".
func (b *Batch) Begin(typ, flags uint16, what, object string) {
	b.finish()
	b.ops = append(b.ops, op{start: len(b.buf), what: what, object: object})
	Put(b, unix.NlMsghdr{Type: typ, Flags: flags | unix.NLM_F_REQUEST})
}

// finish closes open nests and writes the length of the request begun last.
func (b *Batch) finish() {
	for len(b.nests) > 0 {
		b.End()
	}
	if last := len(b.ops) - 1; last >= 0 {
		b.header(last).Len = uint32(len(b.buf) - b.ops[last].start)
	}
}

// header is a request's. Every request begins at a multiple of four bytes.
func (b *Batch) header(i int) *unix.NlMsghdr {
	return (*unix.NlMsghdr)(unsafe.Pointer(&b.buf[b.ops[i].start]))
}

func (b *Batch) endOf(i int) int {
	if i+1 < len(b.ops) {
		return b.ops[i+1].start
	}
	return len(b.buf)
}

// Put appends a value of fixed size as it is in memory: a message's own header, for example.
func Put[T any](b *Batch, v T) { b.buf = append(b.buf, Raw(&v)...) }

// Bytes appends bytes as they are.
func (b *Batch) Bytes(v []byte) { b.buf = append(b.buf, v...) }

// Nest opens an attribute that holds what follows, until End.
func (b *Batch) Nest(typ uint16) {
	b.nests = append(b.nests, len(b.buf))
	Put(b, unix.NlAttr{Type: typ})
}

// NextHop opens an rtnexthop, whose length field comes first as an attribute's.
func (b *Batch) NextHop(ifindex uint32) {
	b.nests = append(b.nests, len(b.buf))
	Put(b, unix.RtNexthop{Ifindex: int32(ifindex)})
}

// End closes the attribute opened last.
func (b *Batch) End() {
	start := b.nests[len(b.nests)-1]
	b.nests = b.nests[:len(b.nests)-1]
	length := uint16(len(b.buf) - start)
	copy(b.buf[start:], Raw(&length))
	b.align()
}

func (b *Batch) align() {
	for len(b.buf)%4 != 0 {
		b.buf = append(b.buf, 0)
	}
}

// Attr appends an attribute.
func (b *Batch) Attr(typ uint16, value []byte) {
	Put(b, unix.NlAttr{Len: uint16(unix.SizeofNlAttr + len(value)), Type: typ})
	b.buf = append(b.buf, value...)
	b.align()
}

// AttrString appends a text attribute with its final zero.
func (b *Batch) AttrString(typ uint16, s string) {
	Put(b, unix.NlAttr{Len: uint16(unix.SizeofNlAttr + len(s) + 1), Type: typ})
	b.buf = append(append(b.buf, s...), 0)
	b.align()
}

// AttrU32 appends a 32-bit word in host order.
func (b *Batch) AttrU32(typ uint16, v uint32) { b.Attr(typ, Raw(&v)) }

// AttrBE16 appends a 16-bit word in network order, as ports are.
func (b *Batch) AttrBE16(typ, v uint16) { b.Attr(typ, []byte{byte(v >> 8), byte(v)}) }

// AttrAddr appends an IPv4 address.
func (b *Batch) AttrAddr(typ uint16, a netip.Addr) {
	v := a.As4()
	b.Attr(typ, v[:])
}

// Raw is a value's memory, in host order.
func Raw[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

// Split reads a value of fixed size, in host order, and returns it with what follows.
// Missing bytes are 0.
func Split[T any](b []byte) (v T, rest []byte) {
	n := copy(Raw(&v), b)
	return v, b[n:]
}

// Get is the value that an attribute holds. Missing bytes are 0.
func Get[T any](b []byte) T {
	v, _ := Split[T](b)
	return v
}

// Attrs calls fn for each attribute in b, without the flags of its type. It stops at the
// first malformed one.
func Attrs(b []byte, fn func(typ uint16, value []byte)) {
	const typeMask = ^uint16(unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
	for len(b) >= unix.SizeofNlAttr {
		a := Get[unix.NlAttr](b)
		if a.Len < unix.SizeofNlAttr || int(a.Len) > len(b) {
			return
		}
		fn(a.Type&typeMask, b[unix.SizeofNlAttr:a.Len])
		b = Next(b, int(a.Len))
	}
}

// Next skips a length and its padding to a multiple of four bytes.
func Next(b []byte, length int) []byte { return b[min((length+3)&^3, len(b)):] }

// Find returns the value of the first attribute of a type, nil when there is none.
func Find(b []byte, typ uint16) (value []byte) {
	Attrs(b, func(t uint16, v []byte) {
		if t == typ && value == nil {
			value = v
		}
	})
	return value
}

// String is a text attribute without its final zero.
func String(v []byte) string { return string(bytes.TrimRight(v, "\x00")) }
