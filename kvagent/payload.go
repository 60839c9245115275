package kvagent

import (
	"encoding/binary"
	"hash/crc32"
	"sync"
)

// readBufferBytes is one read's size at the receiver: 256 KiB moved the most
// bytes per CPU second on veth; larger reads were not faster.
const readBufferBytes = 256 << 10

// readBuffers has the buffers of receiving connections, so an idle
// connection holds none.
var readBuffers = sync.Pool{New: func() any { b := make([]byte, readBufferBytes); return &b }}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checked is the payload of integrity mode: pseudo-random bytes that follow from
// request, attempt and stream number, and their running CRC-32C. The CRC starts
// from the seed, so that a stream delivered as another's fails even if its
// bytes are intact.
type checked struct {
	state uint64
	crc   uint32
}

func newChecked(f *frame) checked {
	seed := mix(f.request ^ mix(uint64(f.attempt)<<32|uint64(f.stream)))
	return checked{state: seed, crc: uint32(seed)}
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood 2014).
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// fill writes len(b) fresh bytes and adds them to the checksum.
func (c *checked) fill(b []byte) {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		c.state += 0x9e3779b97f4a7c15
		binary.LittleEndian.PutUint64(b[i:], c.state^c.state>>29)
	}
	if i < len(b) {
		var last [8]byte
		c.state += 0x9e3779b97f4a7c15
		binary.LittleEndian.PutUint64(last[:], c.state^c.state>>29)
		copy(b[i:], last[:])
	}
	c.add(b)
}

// add adds bytes to the checksum.
func (c *checked) add(b []byte) { c.crc = crc32.Update(c.crc, castagnoli, b) }

func (c *checked) trailer() (t [trailerSize]byte) {
	binary.BigEndian.PutUint32(t[0:], frameMagic)
	binary.BigEndian.PutUint32(t[4:], c.crc)
	return t
}
