package kvagent

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
)

// link is one outgoing connection. A stream that holds it writes; a reader
// goroutine reads the answers and notices at once when the peer closes, also
// while the connection is idle.
type link struct {
	conn  *dataConn
	from  netip.AddrPort
	to    netip.AddrPort
	peer  string
	back  chan frame    // acknowledgements and reads
	dead  chan struct{} // closed when the connection is gone
	cause error         // why; valid once dead is closed
	once  sync.Once
}

var errClosedHere = errors.New("closed by this agent")

func newLink(c *dataConn, p string, from, to netip.AddrPort) *link {
	// Room for one ack and one read frame: more would break the protocol.
	return &link{conn: c, from: from, to: to, peer: p, back: make(chan frame, 2), dead: make(chan struct{})}
}

// close ends the connection for a reason; the first reason is kept.
func (l *link) close(why error) {
	l.once.Do(func() {
		l.cause = why
		close(l.dead) // first, so that a write that fails because of it finds the reason
		_ = l.conn.Close()
	})
}

func (l *link) alive() bool {
	select {
	case <-l.dead:
		return false
	default:
		return true
	}
}

// read passes frames on until the connection ends. The pool runs it.
func (l *link) read() {
	var b [frameSize]byte
	for {
		var f frame
		_, err := io.ReadFull(l.conn, b[:])
		if err == nil {
			err = f.parse(&b)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("closed by the peer")
			}
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

// writeFrame sends a header and, if there is one, the first piece of payload
// in the same packet.
func (l *link) writeFrame(f *frame, payload []byte) error {
	var b [frameSize]byte
	f.put(&b)
	if len(payload) == 0 {
		_, err := l.conn.Write(b[:])
		return err
	}
	bufs := net.Buffers{b[:], payload}
	_, err := bufs.WriteTo(l.conn)
	return err
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
