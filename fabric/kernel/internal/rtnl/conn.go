//go:build linux

package rtnl

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
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
	fd  int // -1 after Close
	seq uint32
	// kernel is where requests go; Sendto uses it as scratch memory.
	kernel unix.SockaddrNetlink
}

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
	if c.fd < 0 {
		return nil
	}
	fd := c.fd
	c.fd = -1
	return unix.Close(fd)
}

// Exec sends all requests of a batch and waits until the kernel has done them.
// All are tried; the errors of refused requests are joined, each with its errno.
func (c *Conn) Exec(b *Batch) error {
	return c.inParts(b, func(at, end int) bool { return b.endOf(end)-b.ops[at].start <= sendBytes }, nil)
}

// Query sends requests that have one answer each, and calls fn for each answer
// with the request's position. The errors of refused requests are joined. A payload
// is valid until fn returns.
func (c *Conn) Query(b *Batch, fn func(i int, payload []byte)) error {
	return c.inParts(b, func(at, end int) bool { return end-at < queryChunk }, fn)
}

// inParts sends parts of a batch and reads the answers of each: one per request where fn
// takes them, else the last one's acknowledgement. fits reports whether a part that begins
// at one request can include another.
func (c *Conn) inParts(b *Batch, fits func(at, end int) bool, fn func(i int, payload []byte)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b.finish()
	var errs []error
	for at, end := 0, 0; at < len(b.ops); at = end {
		for end = at + 1; end < len(b.ops) && fits(at, end); end++ {
			continue
		}
		open := end - at
		if fn == nil {
			open = 1
			b.header(end - 1).Flags |= unix.NLM_F_ACK
		}
		err := c.lockedExchange(b, at, end, func(i int, h unix.NlMsghdr, payload []byte) (done bool) {
			if h.Type == unix.NLMSG_ERROR {
				if err := b.ops[i].refusal(h, payload); err != nil {
					errs = append(errs, err)
				}
			} else if fn != nil {
				fn(i, payload)
			}
			if fn != nil || i == end-1 {
				open--
			}
			return open == 0
		})
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	return errors.Join(errs...)
}

// Dump lists a table, which what names in errors: it sends one request with a header and
// calls fn for each entry. An interrupted dump is repeated from the start: reset is called
// before each try. A payload is valid until fn returns.
func (c *Conn) Dump(typ uint16, what string, header []byte, reset func(), fn func(payload []byte)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b Batch
	b.Begin(typ, unix.NLM_F_DUMP, "list", what)
	b.Bytes(header)
	b.finish()
	for range dumpTries {
		reset()
		interrupted, refusal := false, error(nil)
		err := c.lockedExchange(&b, 0, 1, func(_ int, h unix.NlMsghdr, payload []byte) (done bool) {
			interrupted = interrupted || h.Flags&unix.NLM_F_DUMP_INTR != 0
			switch h.Type {
			case unix.NLMSG_DONE:
			case unix.NLMSG_ERROR:
				refusal = b.ops[0].refusal(h, payload)
			default:
				fn(payload)
				return false
			}
			return true
		})
		if err = cmp.Or(err, refusal); err != nil || !interrupted {
			return err
		}
	}
	return b.ops[0].failure(errors.New("dump interrupted by concurrent changes"))
}

// lockedExchange sends requests [at, end) at once and gives every answer to fn with its
// request's position, until fn reports the last. Caller holds c.mu.
func (c *Conn) lockedExchange(b *Batch, at, end int, fn func(i int, h unix.NlMsghdr, payload []byte) (done bool)) error {
	first := c.seq + 1
	for i := at; i < end; i++ {
		c.seq++
		b.header(i).Seq = c.seq
	}
	if err := retry(func() error { return unix.Sendto(c.fd, b.buf[b.ops[at].start:b.endOf(end-1)], 0, &c.kernel) }); err != nil {
		return b.ops[at].failure(err)
	}
	for done := false; !done; {
		err := c.lockedReceive(func(h unix.NlMsghdr, payload []byte) {
			i := int(h.Seq - first) // others answer an earlier request that timed out
			if i >= 0 && i < end-at && fn(at+i, h, payload) {
				done = true
			}
		})
		if err != nil {
			return b.ops[at].failure(fmt.Errorf("read the answer: %w", err))
		}
	}
	return nil
}

// retry repeats a system call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// lockedReceive reads one datagram and calls fn for each message in it.
func (c *Conn) lockedReceive(fn func(h unix.NlMsghdr, payload []byte)) error {
	pooled := receiveBuffers.Get().(*[]byte)
	defer receiveBuffers.Put(pooled)
	var n int
	err := retry(func() (err error) {
		n, _, err = unix.Recvfrom(c.fd, *pooled, 0)
		return err
	})
	if err != nil {
		return err
	}
	for buf := (*pooled)[:n]; len(buf) >= unix.NLMSG_HDRLEN; {
		h := Get[unix.NlMsghdr](buf)
		length := int(h.Len)
		if length < unix.NLMSG_HDRLEN || length > len(buf) {
			return fmt.Errorf("message of %d bytes in %d", length, len(buf))
		}
		fn(h, buf[unix.NLMSG_HDRLEN:length])
		buf = Next(buf, length)
	}
	return nil
}

func (o op) failure(err error) error { return fmt.Errorf("%s %s: %w", o.what, o.object, err) }

// refusal is the error in an answer; nil when it is an acknowledgement.
func (o op) refusal(h unix.NlMsghdr, payload []byte) error {
	errno, text := parseError(h, payload)
	switch {
	case errno == 0:
		return nil
	case text != "":
		return fmt.Errorf("%s %s: %w (kernel: %s)", o.what, o.object, errno, strings.TrimSuffix(text, "."))
	}
	return o.failure(errno)
}

// parseError reads the errno and the kernel's own words, if it gave any.
func parseError(h unix.NlMsghdr, payload []byte) (syscall.Errno, string) {
	e, rest := Split[unix.NlMsgerr](payload)
	if len(payload) < unix.SizeofNlMsgerr-unix.NLMSG_HDRLEN {
		return unix.EPROTO, "short error message"
	}
	errno := syscall.Errno(-e.Error)
	if errno == 0 || h.Flags&unix.NLM_F_ACK_TLVS == 0 {
		return errno, ""
	}
	// The payload of the refused request is left out (CAP_ACK) unless the kernel does not
	// know that option.
	if h.Flags&unix.NLM_F_CAPPED == 0 && e.Msg.Len >= unix.NLMSG_HDRLEN {
		rest = Next(rest, int(e.Msg.Len)-unix.NLMSG_HDRLEN)
	}
	return errno, String(Find(rest, unix.NLMSGERR_ATTR_MSG))
}
