//go:build linux

package rtnl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// sendBytes keeps a send below what the kernel allocates in one piece.
	sendBytes = 16 << 10
	// queryChunk bounds unacknowledged requests with one answer each: an answer
	// takes about 4.5 KB of the socket's 208 KB receive buffer.
	queryChunk = 24
	// dumpTries bounds how often a dump is repeated that changes of the table interrupted.
	dumpTries = 8
	// answerSeconds is how long the kernel may take to answer a request.
	answerSeconds = 10
)

var receiveBuffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// Conn is an rtnetlink socket. It stays in the network namespace of the thread
// that opened it, wherever it is used from. Safe for concurrent use.
type Conn struct {
	mu  sync.Mutex
	fd  int
	seq uint32
	// kernel is where requests go; Sendto uses it as scratch memory.
	kernel unix.SockaddrNetlink
	// closed guards against use after Close, when fd may be another file.
	closed atomic.Bool
}

// Message is one answer: what follows the netlink header. It is valid until the
// callback returns.
type Message struct{ Payload []byte }

// OpError is a request that the kernel refused.
type OpError struct {
	What, Object string
	Errno        syscall.Errno
	Text         string // the kernel's own words, if it gave any
}

func (e *OpError) Error() string {
	s := strings.TrimSpace(e.What + " " + e.Object)
	if e.Text != "" {
		return fmt.Sprintf("%s: %v (kernel: %s)", s, e.Errno, strings.TrimSuffix(e.Text, "."))
	}
	return fmt.Sprintf("%s: %v", s, e.Errno)
}

// Unwrap gives the errno.
func (e *OpError) Unwrap() error { return e.Errno }

// ErrDumpInterrupted means that a table kept changing while it was read.
var ErrDumpInterrupted = errors.New("dump interrupted by concurrent changes")

// Open makes a socket in the calling thread's network namespace.
func Open() (*Conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink socket: %w", err)
	}
	for _, o := range []int{unix.NETLINK_EXT_ACK, unix.NETLINK_CAP_ACK} {
		_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, o, 1) // better error texts; older kernels have none
	}
	tv := unix.Timeval{Sec: answerSeconds}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("set rtnetlink deadline: %w", err)
	}
	return &Conn{fd: fd, kernel: unix.SockaddrNetlink{Family: unix.AF_NETLINK}}, nil
}

// Close frees the socket, which kept the namespace alive. Closing twice is harmless.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Swap(true) {
		return nil
	}
	return unix.Close(c.fd)
}

// Exec sends all requests of a batch and waits until the kernel has done them.
// All are tried; the errors of refused requests are joined, each an *OpError.
func (c *Conn) Exec(b *Batch) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b.finish()
	var errs []error
	for at := 0; at < len(b.ops); {
		end := at + 1
		for end < len(b.ops) && b.endOf(end)-b.ops[at].start <= sendBytes {
			end++
		}
		b.setFlags(end-1, unix.NLM_F_ACK)
		if err := c.lockedRun(b, at, end, nil, &errs); err != nil {
			return errors.Join(append(errs, err)...)
		}
		at = end
	}
	return errors.Join(errs...)
}

// Query sends requests that have one answer each, and calls fn for each answer
// with the request's position. A request that the kernel refuses gives an
// *OpError; all are joined.
func (c *Conn) Query(b *Batch, fn func(i int, m Message)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b.finish()
	var errs []error
	for at := 0; at < len(b.ops); at += queryChunk {
		if err := c.lockedRun(b, at, min(at+queryChunk, len(b.ops)), fn, &errs); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	return errors.Join(errs...)
}

func (b *Batch) endOf(i int) int {
	if i+1 < len(b.ops) {
		return b.ops[i+1].start
	}
	return len(b.buf)
}

func (b *Batch) setFlags(i int, flags uint16) {
	at := b.buf[b.ops[i].start+6:]
	binary.NativeEndian.PutUint16(at, binary.NativeEndian.Uint16(at)|flags)
}

// lockedRun sends requests [at, end) at once and reads until the last is
// settled: by its acknowledgement, or with fn when each has its answer.
// Caller holds c.mu.
func (c *Conn) lockedRun(b *Batch, at, end int, fn func(int, Message), errs *[]error) error {
	if c.closed.Load() {
		return fmt.Errorf("%s %s: %w", b.ops[at].what, b.ops[at].object, unix.EBADF)
	}
	first := c.seq + 1
	for i := at; i < end; i++ {
		c.seq++
		binary.NativeEndian.PutUint32(b.buf[b.ops[i].start+8:], c.seq)
	}
	if err := c.lockedSend(b.buf[b.ops[at].start:b.endOf(end-1)]); err != nil {
		return fmt.Errorf("%s %s: %w", b.ops[at].what, b.ops[at].object, err)
	}
	open := end - at
	for open > 0 {
		err := c.lockedReceive(func(h header, payload []byte) {
			i := int(h.seq - first)
			if i < 0 || i >= end-at {
				return // an answer to an earlier request that timed out
			}
			o := b.ops[at+i]
			if h.typ == unix.NLMSG_ERROR {
				if errno, text := parseError(h, payload); errno != 0 {
					*errs = append(*errs, &OpError{What: o.what, Object: o.object, Errno: errno, Text: text})
				}
				if fn == nil && i != end-at-1 {
					return
				}
			} else if fn != nil {
				fn(at+i, Message{Payload: payload})
			}
			if fn == nil {
				open = 0
			} else {
				open--
			}
		})
		if err != nil {
			return fmt.Errorf("%s %s: read the answer: %w", b.ops[at].what, b.ops[at].object, err)
		}
	}
	return nil
}

// Dump sends one request for a table and calls fn for each entry. An
// interrupted dump is repeated from the start: reset is called before each try.
func (c *Conn) Dump(b *Batch, reset func(), fn func(m Message)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b.finish()
	b.setFlags(0, unix.NLM_F_DUMP)
	for range dumpTries {
		reset()
		again, err := c.lockedDump(b, fn)
		if err != nil || !again {
			return err
		}
	}
	return fmt.Errorf("%s %s: %w", b.ops[0].what, b.ops[0].object, ErrDumpInterrupted)
}

func (c *Conn) lockedDump(b *Batch, fn func(m Message)) (interrupted bool, err error) {
	o := b.ops[0]
	if c.closed.Load() {
		return false, fmt.Errorf("%s %s: %w", o.what, o.object, unix.EBADF)
	}
	c.seq++
	seq := c.seq
	binary.NativeEndian.PutUint32(b.buf[8:], seq)
	if err := c.lockedSend(b.buf); err != nil {
		return false, fmt.Errorf("%s %s: %w", o.what, o.object, err)
	}
	var failed error
	for done := false; !done; {
		err := c.lockedReceive(func(h header, payload []byte) {
			if h.seq != seq {
				return
			}
			interrupted = interrupted || h.flags&unix.NLM_F_DUMP_INTR != 0
			switch h.typ {
			case unix.NLMSG_DONE:
				done = true
			case unix.NLMSG_ERROR:
				done = true
				if errno, text := parseError(h, payload); errno != 0 {
					failed = &OpError{What: o.what, Object: o.object, Errno: errno, Text: text}
				}
			default:
				fn(Message{Payload: payload})
			}
		})
		if err != nil {
			return false, fmt.Errorf("%s %s: read the answer: %w", o.what, o.object, err)
		}
	}
	return interrupted, failed
}

func (c *Conn) lockedSend(buf []byte) error {
	for {
		err := unix.Sendto(c.fd, buf, 0, &c.kernel)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

type header struct {
	typ, flags uint16
	seq        uint32
}

// lockedReceive reads one datagram and calls fn for each message in it.
func (c *Conn) lockedReceive(fn func(h header, payload []byte)) error {
	pooled := receiveBuffers.Get().(*[]byte)
	defer receiveBuffers.Put(pooled)
	var n int
	for {
		var err error
		n, _, err = unix.Recvfrom(c.fd, *pooled, 0)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	buf := (*pooled)[:n]
	for len(buf) >= unix.NLMSG_HDRLEN {
		length := int(binary.NativeEndian.Uint32(buf))
		if length < unix.NLMSG_HDRLEN || length > len(buf) {
			return fmt.Errorf("message of %d bytes in %d", length, len(buf))
		}
		fn(header{
			typ: binary.NativeEndian.Uint16(buf[4:]), flags: binary.NativeEndian.Uint16(buf[6:]),
			seq: binary.NativeEndian.Uint32(buf[8:]),
		}, buf[unix.NLMSG_HDRLEN:length])
		buf = buf[min((length+3)&^3, len(buf)):]
	}
	return nil
}

func parseError(h header, payload []byte) (syscall.Errno, string) {
	if len(payload) < 4 {
		return unix.EPROTO, "short error message"
	}
	errno := syscall.Errno(-int32(binary.NativeEndian.Uint32(payload)))
	if errno == 0 || h.flags&unix.NLM_F_ACK_TLVS == 0 {
		return errno, ""
	}
	// errno, then the request's header; its payload is left out (CAP_ACK)
	// unless the kernel does not know that option.
	rest := payload[min(4+unix.NLMSG_HDRLEN, len(payload)):]
	if h.flags&unix.NLM_F_CAPPED == 0 && len(payload) >= 8 {
		rest = payload[min(4+int(binary.NativeEndian.Uint32(payload[4:])+3)&^3, len(payload)):]
	}
	text := ""
	Attrs(rest, func(typ uint16, v []byte) {
		if typ == unix.NLMSGERR_ATTR_MSG {
			text = String(v)
		}
	})
	return errno, text
}
