package kvagent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/netkvlab/netkvlab/kvagent/control"
)

// The wire format of the data plane. A connection carries frames of one fixed size; a data frame is followed by its
// payload and, with flagIntegrity, by a trailer. Data flows from the dialling end to the accepting end only; the
// other direction carries acknowledgements and, in pull mode, read frames.
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

// frame is the fixed header. Big-endian: magic 4, kind 1, flags 1, zero 2, request 8, attempt 4, stream 4, bytes 8,
// epoch 8, length of the trailer 4, zero 4.
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
	*b = [frameSize]byte{4: byte(f.kind), 5: f.flags}
	be.PutUint32(b[0:], frameMagic)
	be.PutUint64(b[8:], f.request)
	be.PutUint32(b[16:], f.attempt)
	be.PutUint32(b[20:], f.stream)
	be.PutUint64(b[24:], uint64(f.bytes))
	be.PutUint64(b[32:], uint64(f.epoch))
	be.PutUint32(b[40:], f.trailer)
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

// read takes a header from a connection. The buffer is the caller's, for all headers that it reads.
func (f *frame) read(c io.Reader, b *[frameSize]byte) error {
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return err
	}
	return f.parse(b)
}

// write writes a header and, if there is one, the first piece of payload in the same packet.
func (f *frame) write(c io.Writer, payload []byte) error {
	var b [frameSize]byte
	f.put(&b)
	if len(payload) == 0 {
		_, err := c.Write(b[:])
		return err
	}
	_, err := (&net.Buffers{b[:], payload}).WriteTo(c)
	return err
}

// reply sends an ack or read frame for f.
func (f *frame) reply(c io.Writer, kind frameKind, bytes int64) error {
	answer := *f
	answer.kind, answer.flags, answer.bytes, answer.trailer = kind, 0, bytes, 0
	return answer.write(c, nil)
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

// event is what happened to the attempt; the caller says what.
func (k transferKey) event(at time.Duration) *control.Event {
	return &control.Event{Request: k.request, Attempt: k.attempt, AtPaperNs: int64(at)}
}

// failure is a Failed event.
func (k transferKey) failure(at time.Duration, stage string, err error, bytes int64) *control.Event {
	e := k.event(at)
	e.Event = &control.Event_Failed{Failed: &control.Failed{Stage: stage, Reason: err.Error(), Bytes: bytes}}
	return e
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checked is the payload of integrity mode: pseudo-random bytes that follow from request, attempt and stream number,
// and their running CRC-32C. The CRC starts from the seed, so that a stream delivered as another's fails even if its
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

// link is one outgoing connection. A stream that holds it writes; a reader goroutine reads the answers and notices
// at once when the peer closes, also while the connection is idle.
type link struct {
	conn  *dataConn
	from  netip.AddrPort
	to    netip.AddrPort
	back  chan frame    // acknowledgements and reads
	dead  chan struct{} // closed when the connection is gone
	cause error         // why; valid once dead is closed
	once  sync.Once
}

var errClosedHere = errors.New("closed by this agent")

// close ends the connection for a reason; the first reason is kept.
func (l *link) close(why error) {
	l.once.Do(func() {
		l.cause = why
		close(l.dead) // first, so that a write that fails because of it finds the reason
		_ = l.conn.Close()
	})
}

// closed returns the reason why the connection was closed, nil while it is open.
func (l *link) closed() error {
	select {
	case <-l.dead:
		return l.cause
	default:
		return nil
	}
}

// read passes frames on until the connection ends. The pool runs it.
func (l *link) read() {
	var b [frameSize]byte
	for {
		var f frame
		err := f.read(l.conn, &b)
		if errors.Is(err, io.EOF) {
			err = errors.New("closed by the peer")
		}
		if err != nil {
			l.close(err)
			return
		}
		select {
		case l.back <- f:
		default:
			l.close(fmt.Errorf("%w: unasked answers", errBadFrame))
			return
		}
	}
}

// await takes the next answer, which must be of the kind and belong to f.
func (l *link) await(kind frameKind, f *frame, done <-chan struct{}) (frame, error) {
	select {
	case got := <-l.back:
		if got.kind != kind || got.key() != f.key() || got.stream != f.stream {
			return got, fmt.Errorf("%w: answer of kind %d for %v stream %d, want kind %d for %v stream %d",
				errBadFrame, got.kind, got.key(), got.stream, kind, f.key(), f.stream)
		}
		return got, nil
	case <-l.dead:
		return frame{}, l.cause
	case <-done:
		return frame{}, errClosedHere
	}
}
