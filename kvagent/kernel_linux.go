package kvagent

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// onDescriptor calls f with a socket's descriptor. Its error says what was being done.
func onDescriptor(rc syscall.RawConn, what string, f func(fd int) error) error {
	var serr error
	err := rc.Control(func(fd uintptr) { serr = f(int(fd)) })
	if err = cmp.Or(err, serr); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// availableCongestionControl lists the namespace's algorithms, for error messages.
func availableCongestionControl() string {
	b, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	if err != nil {
		return fmt.Sprintf("unknown (%v)", err)
	}
	return strings.TrimSpace(string(b))
}

// control applies the options of a socket that is about to bind.
func (o socketOptions) control(_, address string, rc syscall.RawConn) error {
	return onDescriptor(rc, "socket options for "+address, o.apply)
}

func (o socketOptions) apply(fd int) error {
	// Several connections share a source port when their destinations differ.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return fmt.Errorf("set SO_REUSEADDR: %w", err)
	}
	// Closing sends a reset: no TIME_WAIT that would block the source port for a minute, no half-closed socket that
	// would hold a namespace. Nothing is lost, since a stream is closed after its acknowledgement or as a failure.
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
		return fmt.Errorf("set SO_LINGER: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, o.dscp<<2); err != nil {
		return fmt.Errorf("set IP_TOS to DSCP %d: %w", o.dscp, err)
	}
	if o.congestion == "" {
		return nil
	}
	if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, o.congestion); err != nil {
		return fmt.Errorf("congestion control %q (available: %s): %w", o.congestion, availableCongestionControl(), err)
	}
	got, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	if err != nil {
		return fmt.Errorf("read back congestion control: %w", err)
	}
	if got != o.congestion {
		return fmt.Errorf("congestion control is %q after asking for %q (available: %s)", got, o.congestion, availableCongestionControl())
	}
	return nil
}

// congestionInForce reads the algorithm of a socket back.
func congestionInForce(c syscall.Conn) (name string, err error) {
	rc, err := c.SyscallConn()
	if err != nil {
		return "", fmt.Errorf("read congestion control: %w", err)
	}
	err = onDescriptor(rc, "read congestion control", func(fd int) (err error) {
		name, err = unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		return err
	})
	return name, err
}

func readTCPStats(rc syscall.RawConn) (tcpStats, error) {
	var info *unix.TCPInfo
	var serr error
	err := rc.Control(func(fd uintptr) { info, serr = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if err = cmp.Or(err, serr); err != nil {
		return tcpStats{}, fmt.Errorf("read TCP_INFO: %w", err)
	}
	const us = uint64(time.Microsecond)
	return tcpStats{
		retransmits: info.Total_retrans, minRTT: info.Min_rtt, deliveryRate: info.Delivery_rate,
		busy: time.Duration(info.Busy_time * us), limited: time.Duration((info.Rwnd_limited + info.Sndbuf_limited) * us),
	}, nil
}

// segmentDatagrams lets the kernel cut each write into datagrams of this size.
func segmentDatagrams(c net.Conn, payload int) error {
	return setUDP(c.(*net.UDPConn), unix.UDP_SEGMENT, payload)
}

// joinDatagrams lets a read take several datagrams that came as one packet.
func joinDatagrams(c net.PacketConn) error { return setUDP(c.(*net.UDPConn), unix.UDP_GRO, 1) }

func setUDP(c *net.UDPConn, option, value int) error {
	rc, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("set option of a UDP socket: %w", err)
	}
	return onDescriptor(rc, "set option of a UDP socket", func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_UDP, option, value)
	})
}

// dataConn is a TCP connection of the data plane. It reads and writes by raw system calls, of which Go's scheduler
// gets no notice. None of them blocks. With notice, the scheduler would wake its monitor thread for each call of a
// process that was asleep; with a hundred agents on few cores that took a fifth of the CPU. One goroutine may read
// and one write.
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
	for written < len(b) && err == nil {
		var n int
		n, err = c.out.move(b[written:])
		written += n
	}
	return written, err
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

// wakeAt is WakeAt. It makes no call where nothing changes, and is not for concurrent use.
func (c *dataConn) wakeAt(bytes int64) error {
	if bytes = max(bytes, 1); bytes == max(c.lowat, 1) {
		return nil
	}
	c.lowat = bytes
	return WakeAt(c.raw, int(bytes))
}

// WakeAt makes the kernel wake the poller of a connection when this number of bytes has come (SO_RCVLOWAT). Until
// then the kernel acknowledges and keeps them, and makes room.
func WakeAt(rc syscall.RawConn, bytes int) error {
	var serr error
	err := rc.Control(func(fd uintptr) { serr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, bytes) })
	if err = cmp.Or(err, serr); err != nil {
		return fmt.Errorf("set SO_RCVLOWAT: %w", err)
	}
	return nil
}

// Monotonic is the host's CLOCK_MONOTONIC in nanoseconds, the time base of the control protocol: the same in every
// process and network namespace.
func Monotonic() int64 {
	var ts unix.Timespec
	// It fails only for an unknown clock; this one exists since Linux 2.6.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}

// kernelTimer is a timerfd. When the process is otherwise idle, the runtime's own timers wait in whole milliseconds
// and so come up to a millisecond late. A timerfd wakes the poller when it is due.
type kernelTimer struct {
	*os.File
	raw syscall.RawConn
	in  *mover
}

func newKernelTimer() (*kernelTimer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("create timerfd: %w", err)
	}
	f := os.NewFile(uintptr(fd), "timerfd")
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create timerfd: %w", err), f.Close())
	}
	return &kernelTimer{File: f, raw: raw, in: newMover(raw.Read, unix.SYS_READ)}, nil
}

// set arms the timer for a monotonic time; a past one fires at once. It fails only when the timer is closed.
func (t *kernelTimer) set(at int64) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(at, 1))} // 0 would disarm
	_ = t.raw.Control(func(fd uintptr) {                            // without the scheduler's notice, as in dataConn
		_, _, _ = unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, fd, unix.TFD_TIMER_ABSTIME, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	})
}

// wait blocks until the timer fires, and returns an error once it is closed.
func (t *kernelTimer) wait() error {
	var count [8]byte
	_, err := t.in.move(count[:])
	return err
}
