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
// on few cores that took a fifth of the CPU.
type dataConn struct {
	*net.TCPConn
	raw   syscall.RawConn
	lowat int64 // SO_RCVLOWAT as last set by wakeAt; 0: never set
}

func newDataConn(c *net.TCPConn) (*dataConn, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("connection to %s: %w", c.RemoteAddr(), err)
	}
	return &dataConn{TCPConn: c, raw: raw}, nil
}

// Read is net.Conn's.
func (c *dataConn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := move(c.raw.Read, unix.SYS_READ, b)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// Write is net.Conn's.
func (c *dataConn) Write(b []byte) (written int, err error) {
	for written < len(b) {
		n, err := move(c.raw.Write, unix.SYS_WRITE, b[written:])
		if err != nil {
			return written, err
		}
		written += n
	}
	return written, nil
}

// move makes one call that moves something, as soon as one can.
func move(ready func(func(fd uintptr) bool) error, call uintptr, b []byte) (int, error) {
	var n uintptr
	var errno unix.Errno
	err := ready(func(fd uintptr) bool {
		for {
			n, _, errno = unix.RawSyscall(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
			if errno != unix.EINTR {
				return errno != unix.EAGAIN
			}
		}
	})
	switch {
	case err != nil:
		return 0, err
	case errno != 0:
		return 0, errno
	}
	return int(n), nil
}

// wakeAt has the reader woken when so many bytes are there (SO_RCVLOWAT); until then what
// comes is acknowledged and kept. The kernel makes room for them. It is not for
// concurrent use.
func (c *dataConn) wakeAt(bytes int64) error {
	if bytes = max(bytes, 1); bytes == max(c.lowat, 1) {
		return nil
	}
	c.lowat = bytes
	var serr error
	if err := c.raw.Control(func(fd uintptr) {
		serr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, int(bytes))
	}); err != nil {
		return fmt.Errorf("set SO_RCVLOWAT: %w", err)
	}
	if serr != nil {
		return fmt.Errorf("set SO_RCVLOWAT: %w", serr)
	}
	return nil
}
