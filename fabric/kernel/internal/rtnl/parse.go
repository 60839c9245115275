//go:build linux

package rtnl

import (
	"bytes"
	"encoding/binary"
)

// attrTypeMask strips the nested and byte-order flags of an attribute's type.
const attrTypeMask = 0x3fff

// Attrs calls fn for each attribute in b. It stops at the first malformed one.
func Attrs(b []byte, fn func(typ uint16, value []byte)) {
	for len(b) >= 4 {
		length := int(binary.NativeEndian.Uint16(b))
		if length < 4 || length > len(b) {
			return
		}
		fn(binary.NativeEndian.Uint16(b[2:])&attrTypeMask, b[4:length])
		b = b[min((length+3)&^3, len(b)):]
	}
}

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

// U16 reads a 16-bit word in host order, 0 when b is too short.
func U16(b []byte, offset int) uint16 {
	if len(b) < offset+2 {
		return 0
	}
	return binary.NativeEndian.Uint16(b[offset:])
}

// U32 reads a 32-bit word in host order, 0 when b is too short.
func U32(b []byte, offset int) uint32 {
	if len(b) < offset+4 {
		return 0
	}
	return binary.NativeEndian.Uint32(b[offset:])
}

// U64 reads a 64-bit word in host order, 0 when b is too short.
func U64(b []byte, offset int) uint64 {
	if len(b) < offset+8 {
		return 0
	}
	return binary.NativeEndian.Uint64(b[offset:])
}

// Skip returns b from offset on, empty when b is shorter.
func Skip(b []byte, offset int) []byte { return b[min(offset, len(b)):] }
