package kernel

import (
	"encoding/binary"
	"math/bits"
)

// The kernel's choice among equal-cost next hops, done again here: asking it takes
// some 6 us a flow, computing some 50 ns, and a lab of a thousand GPUs wants the
// paths of two million flows. The layout below is the kernel's own (struct flow_keys
// of net/flow_dissector.h, from its hashed part on; multipath hash policy 3 in
// net/ipv4/route.c) and no promise to anybody, so foresight trusts it only where
// the kernel has confirmed it.
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
	// bytes of the wire, comes first, addresses and ports each for themselves.
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
	outer := uint32(sipHash(key, key, keys[:]))
	if outer == 0 {
		outer = 1
	}
	return jenkins(outer, 0) // the second word is for what a tunnel hides, and there is none
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

// sipHash is SipHash-2-4 (Aumasson and Bernstein, 2012).
func sipHash(k0, k1 uint64, p []byte) uint64 {
	s := sipState{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
	last := uint64(len(p)) << 56
	for ; len(p) >= 8; p = p[8:] {
		s.absorb(binary.LittleEndian.Uint64(p))
	}
	for i, b := range p {
		last |= uint64(b) << (8 * i)
	}
	s.absorb(last)
	s.v2 ^= 0xff
	for range 4 {
		s.round()
	}
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3
}

type sipState struct{ v0, v1, v2, v3 uint64 }

func (s *sipState) absorb(word uint64) {
	s.v3 ^= word
	s.round()
	s.round()
	s.v0 ^= word
}

func (s *sipState) round() {
	s.v0 += s.v1
	s.v1 = bits.RotateLeft64(s.v1, 13) ^ s.v0
	s.v0 = bits.RotateLeft64(s.v0, 32)
	s.v2 += s.v3
	s.v3 = bits.RotateLeft64(s.v3, 16) ^ s.v2
	s.v0 += s.v3
	s.v3 = bits.RotateLeft64(s.v3, 21) ^ s.v0
	s.v2 += s.v1
	s.v1 = bits.RotateLeft64(s.v1, 17) ^ s.v2
	s.v2 = bits.RotateLeft64(s.v2, 32)
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
