package kernel

import (
	"encoding/binary"
	"math/bits"

	"github.com/dchest/siphash"
)

// The kernel's choice among equal-cost next hops, computed here: a lookup takes
// about 6 us per flow, computing about 50 ns, and a lab of a thousand GPUs needs the
// paths of two million flows. The layout below is the kernel's own (struct flow_keys
// of net/flow_dissector.h, from its hashed part on; multipath hash policy 3 in
// net/ipv4/route.c) and may change, so foresight trusts it only where the kernel has
// confirmed it.
const (
	hashedBytes  = 48
	hashProtoAt  = 2
	hashPortsAt  = 28
	hashAddrsAt  = 36
	hashRangeLog = 31 // the kernel compares 31 bits of the hash
)

// multipathHash is what a switch computes of a flow under policy 3 and fields5Tuple.
func multipathHash(seed uint32, fl *fiveTuple) uint32 {
	var keys [hashedBytes]byte
	keys[hashProtoAt] = fl.proto
	// Both directions of a flow have one hash: the smaller end, as the host reads the
	// bytes of the wire, comes first, for addresses and for ports separately.
	src, dst := fl.src.As4(), fl.dst.As4()
	if binary.NativeEndian.Uint32(dst[:]) < binary.NativeEndian.Uint32(src[:]) {
		src, dst = dst, src
	}
	copy(keys[hashAddrsAt:], src[:])
	copy(keys[hashAddrsAt+4:], dst[:])
	var from, to [2]byte
	binary.BigEndian.PutUint16(from[:], fl.sport)
	binary.BigEndian.PutUint16(to[:], fl.dport)
	if binary.NativeEndian.Uint16(to[:]) < binary.NativeEndian.Uint16(from[:]) {
		from, to = to, from
	}
	copy(keys[hashPortsAt:], from[:])
	copy(keys[hashPortsAt+2:], to[:])

	key := uint64(seed)<<32 | uint64(seed)
	outer := uint32(siphash.Hash(key, key, keys[:]))
	if outer == 0 {
		outer = 1
	}
	return jenkins(outer, 0) // the second word is for packets in a tunnel, and there is none
}

// hopOf is the position of the next hop that a hash chooses among n of equal weight.
func hopOf(hash uint32, n int) int {
	h := uint64(hash >> 1)
	for i := range n - 1 {
		if h < (uint64(i+1)<<hashRangeLog+uint64(n)/2)/uint64(n) {
			return i
		}
	}
	return n - 1
}

// jenkins is jhash_2words of linux/jhash.h with an initial value of 0.
func jenkins(a, b uint32) uint32 {
	const initial = 0xdeadbeef + 2<<2
	a, b = a+initial, b+initial
	c := uint32(initial)
	c = (c ^ b) - bits.RotateLeft32(b, 14)
	a = (a ^ c) - bits.RotateLeft32(c, 11)
	b = (b ^ a) - bits.RotateLeft32(a, 25)
	c = (c ^ b) - bits.RotateLeft32(b, 16)
	a = (a ^ c) - bits.RotateLeft32(c, 4)
	b = (b ^ a) - bits.RotateLeft32(a, 14)
	return (c ^ b) - bits.RotateLeft32(b, 24)
}
