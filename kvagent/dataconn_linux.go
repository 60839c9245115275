package kvagent

import (
	"fmt"
	"io"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dataConn is a TCP connection of the data plane. It reads and writes by raw system calls,
// of which Go's scheduler gets no notice. None of them blocks. With notice, the scheduler
// would wake its monitor thread for each call of a process that was asleep; with a hundred
// agents on few cores that took a fifth of the CPU. One goroutine may read and one write.
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
	ready func(func(fd uintptr) bool) error // runs a function when something can be moved, until the function returns true
	try   func(fd uintptr) bool             // made once: a closure per call would be garbage
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

// wakeAt makes the kernel wake the reader when this number of bytes has come
// (SO_RCVLOWAT). Until then the kernel acknowledges and keeps them, and makes room. It is
// not for concurrent use.
func (c *dataConn) wakeAt(bytes int64) error {
	if bytes = max(bytes, 1); bytes == max(c.lowat, 1) {
		return nil
	}
	c.lowat = bytes
	return WakeAt(c.raw, int(bytes))
}

// WakeAt makes the kernel wake the poller of a connection when this number of bytes has
// come (SO_RCVLOWAT).
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
