package kvagent

import (
	"fmt"
	"io"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dataConn is a TCP connection of the data plane. It reads and writes without telling Go's
// scheduler of the system calls: none of them blocks, and the scheduler would wake its
// monitor thread for each that a process makes which was asleep. With a hundred agents
// on few cores that took a fifth of the CPU. One goroutine may read and one write.
type dataConn struct {
	*net.TCPConn
	raw     syscall.RawConn
	in, out *mover
	lowat   int64 // SO_RCVLOWAT as last set by wakeAt; 0: never set
}

func newDataConn(c *net.TCPConn) (*dataConn, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("connection to %s: %w", c.RemoteAddr(), err)
	}
	return &dataConn{TCPConn: c, raw: raw, in: newMover(raw.Read, unix.SYS_READ), out: newMover(raw.Write, unix.SYS_WRITE)}, nil
}

// Read is net.Conn's.
func (c *dataConn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := c.in.move(b)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// Write is net.Conn's.
func (c *dataConn) Write(b []byte) (written int, err error) {
	for written < len(b) {
		n, err := c.out.move(b[written:])
		if err != nil {
			return written, err
		}
		written += n
	}
	return written, nil
}

// mover makes one kind of call on one descriptor. It is not for concurrent use.
type mover struct {
	ready func(func(fd uintptr) bool) error // runs a function when something can be moved, until that says true
	try   func(fd uintptr) bool             // made once: a closure a call would be garbage
	b     []byte
	n     uintptr
	errno unix.Errno
}

func newMover(ready func(func(fd uintptr) bool) error, call uintptr) *mover {
	m := &mover{ready: ready}
	m.try = func(fd uintptr) bool {
		for {
			m.n, _, m.errno = unix.RawSyscall(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(m.b))), uintptr(len(m.b)))
			if m.errno != unix.EINTR {
				return m.errno != unix.EAGAIN
			}
		}
	}
	return m
}

// move makes the call as soon as it moves something.
func (m *mover) move(b []byte) (int, error) {
	m.b = b
	err := m.ready(m.try)
	m.b = nil
	switch {
	case err != nil:
		return 0, err
	case m.errno != 0:
		return 0, m.errno
	}
	return int(m.n), nil
}

// wakeAt has the reader woken when so many bytes are there (SO_RCVLOWAT); until then what
// comes is acknowledged and kept. The kernel makes room for them. It is not for
// concurrent use.
func (c *dataConn) wakeAt(bytes int64) error {
	if bytes = max(bytes, 1); bytes == max(c.lowat, 1) {
		return nil
	}
	c.lowat = bytes
	return WakeAt(c.raw, int(bytes))
}

// WakeAt has whoever polls a connection woken when so many bytes are there (SO_RCVLOWAT).
func WakeAt(rc syscall.RawConn, bytes int) error {
	var serr error
	if err := rc.Control(func(fd uintptr) {
		serr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, bytes)
	}); err != nil {
		return fmt.Errorf("set SO_RCVLOWAT: %w", err)
	}
	if serr != nil {
		return fmt.Errorf("set SO_RCVLOWAT: %w", serr)
	}
	return nil
}
