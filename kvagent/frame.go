package kvagent

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The wire format of the data plane. A connection carries frames of one fixed
// size; a data frame is followed by its payload and, with flagIntegrity, by a
// trailer. Data flows from the dialling end to the accepting end only; the other
// direction carries acknowledgements and, in pull mode, read frames.
const (
	frameSize   = 48
	trailerSize = 8
	frameMagic  = 0x4e4b5631 // "NKV1": the digit is the version
)

type frameKind uint8

const (
	kindWarm       frameKind = 1 + iota // answered by an ack
	kindData                            // bytes of payload follow
	kindAck                             // the stream of a data frame has arrived, with bytes payload bytes
	kindRead                            // pull mode: the receiver wants the stream now
	kindBackground                      // everything after it is background traffic
)

const (
	flagIntegrity uint8 = 1 << iota // a trailer follows the payload
	flagPull                        // the payload waits for a read frame
)

// frame is the fixed header. Big-endian: magic 4, kind 1, flags 1, zero 2,
// request 8, attempt 4, stream 4, bytes 8, epoch 8, length of the trailer 4, zero 4.
type frame struct {
	kind    frameKind
	flags   uint8
	request uint64
	attempt uint32
	stream  uint32
	bytes   int64
	epoch   int64  // of the trial, to recognise a stream of an earlier trial
	trailer uint32 // bytes after the payload
}

var (
	errNotOurs  = errors.New("not a netkvlab data frame (bad magic): another program or version is on the data port")
	errBadFrame = errors.New("malformed data frame")
)

func (f *frame) put(b *[frameSize]byte) {
	be := binary.BigEndian
	be.PutUint32(b[0:], frameMagic)
	b[4], b[5], b[6], b[7] = byte(f.kind), f.flags, 0, 0
	be.PutUint64(b[8:], f.request)
	be.PutUint32(b[16:], f.attempt)
	be.PutUint32(b[20:], f.stream)
	be.PutUint64(b[24:], uint64(f.bytes))
	be.PutUint64(b[32:], uint64(f.epoch))
	be.PutUint32(b[40:], f.trailer)
	be.PutUint32(b[44:], 0)
}

// parse reads a header and refuses any that no agent of this version writes.
func (f *frame) parse(b *[frameSize]byte) error {
	be := binary.BigEndian
	if be.Uint32(b[0:]) != frameMagic {
		return errNotOurs
	}
	*f = frame{
		kind: frameKind(b[4]), flags: b[5],
		request: be.Uint64(b[8:]), attempt: be.Uint32(b[16:]), stream: be.Uint32(b[20:]),
		bytes: int64(be.Uint64(b[24:])), epoch: int64(be.Uint64(b[32:])), trailer: be.Uint32(b[40:]),
	}
	switch {
	case f.kind < kindWarm || f.kind > kindBackground:
		return fmt.Errorf("%w: kind %d", errBadFrame, f.kind)
	case f.flags&^(flagIntegrity|flagPull) != 0:
		return fmt.Errorf("%w: flags %#x", errBadFrame, f.flags)
	case f.bytes < 0:
		return fmt.Errorf("%w: %d bytes of payload", errBadFrame, f.bytes)
	case f.trailer != f.wantTrailer():
		return fmt.Errorf("%w: trailer of %d bytes, want %d", errBadFrame, f.trailer, f.wantTrailer())
	}
	return nil
}

func (f *frame) wantTrailer() uint32 {
	if f.kind == kindData && f.flags&flagIntegrity != 0 {
		return trailerSize
	}
	return 0
}

func (f *frame) key() transferKey { return transferKey{f.request, f.attempt} }

// transferKey names an attempt to move one request's KV cache.
type transferKey struct {
	request uint64
	attempt uint32
}

func (k transferKey) String() string {
	return fmt.Sprintf("request %d attempt %d", k.request, k.attempt)
}
