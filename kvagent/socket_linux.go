package kvagent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socketOptions are set on every data socket before it connects or listens.
type socketOptions struct {
	congestion string // empty: the namespace's default
	dscp       int
}

// availableCongestionControl lists the namespace's algorithms, for error messages.
func availableCongestionControl() string {
	b, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	if err != nil {
		return fmt.Sprintf("unknown (%v)", err)
	}
	return strings.TrimSpace(string(b))
}

// control applies the options of a TCP socket that is about to bind.
func (o socketOptions) control(_, address string, rc syscall.RawConn) error {
	var serr error
	if err := rc.Control(func(fd uintptr) { serr = o.apply(int(fd)) }); err != nil {
		return fmt.Errorf("socket options for %s: %w", address, err)
	}
	if serr != nil {
		return fmt.Errorf("socket options for %s: %w", address, serr)
	}
	return nil
}

func (o socketOptions) apply(fd int) error {
	// Several connections share a source port when their destinations differ.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return fmt.Errorf("set SO_REUSEADDR: %w", err)
	}
	// Closing sends a reset: no TIME_WAIT that would block the source port for a
	// minute, no half-closed socket that would hold a namespace. Nothing is lost,
	// since a stream is closed after its acknowledgement or as a failure.
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

// listen opens a data socket. Multipath TCP, Go's default for listeners, stays
// out: it would bypass the chosen congestion control.
func (o socketOptions) listen(ctx context.Context, at netip.AddrPort) (*net.TCPListener, error) {
	lc := net.ListenConfig{Control: o.control, KeepAlive: -1}
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(ctx, "tcp4", at.String())
	if err != nil {
		return nil, fmt.Errorf("listen for data on %s: %w", at, err)
	}
	return l.(*net.TCPListener), nil
}

// dial connects from exactly the given address and port (0: the kernel's choice).
func (o socketOptions) dial(ctx context.Context, from, to netip.AddrPort) (*dataConn, error) {
	d := net.Dialer{Control: o.control, KeepAlive: -1, LocalAddr: net.TCPAddrFromAddrPort(from)}
	d.SetMultipathTCP(false)
	c, err := d.DialContext(ctx, "tcp4", to.String())
	if err != nil {
		return nil, fmt.Errorf("connect %s to %s: %w", from, to, err)
	}
	return newDataConn(c.(*net.TCPConn)) // TCP_NODELAY is Go's default
}

// portTaken reports whether a dial failed because of its source port, so that
// another one may do.
func portTaken(err error) bool {
	return errors.Is(err, unix.EADDRINUSE) || errors.Is(err, unix.EADDRNOTAVAIL)
}

// congestionInForce reads the algorithm of a socket back.
func congestionInForce(c syscall.Conn) (string, error) {
	var name string
	var serr error
	rc, err := c.SyscallConn()
	if err != nil {
		return "", fmt.Errorf("read congestion control: %w", err)
	}
	if err := rc.Control(func(fd uintptr) {
		name, serr = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	}); err != nil {
		return "", fmt.Errorf("read congestion control: %w", err)
	}
	return name, serr
}

// tcpStats is the part of TCP_INFO that streams report.
type tcpStats struct {
	retransmits  uint32 // segments, since the connection began
	minRTT       uint32 // microseconds
	deliveryRate uint64 // bytes per second
	// busy is how long there was data to send. limited is the part of that time in which the
	// sender's buffer was full or the receiver had announced no room.
	busy, limited time.Duration
}

func readTCPStats(rc syscall.RawConn) (tcpStats, error) {
	var info *unix.TCPInfo
	var serr error
	if err := rc.Control(func(fd uintptr) {
		info, serr = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); err != nil {
		return tcpStats{}, fmt.Errorf("read TCP_INFO: %w", err)
	}
	if serr != nil {
		return tcpStats{}, fmt.Errorf("read TCP_INFO: %w", serr)
	}
	const us = uint64(time.Microsecond)
	return tcpStats{
		retransmits: info.Total_retrans, minRTT: info.Min_rtt, deliveryRate: info.Delivery_rate,
		busy: time.Duration(info.Busy_time * us), limited: time.Duration((info.Rwnd_limited + info.Sndbuf_limited) * us),
	}, nil
}

// segmentDatagrams lets the kernel cut each write into datagrams of this size.
func segmentDatagrams(c net.Conn, payload int) error { return setUDP(c, unix.UDP_SEGMENT, payload) }

// joinDatagrams lets a read take several datagrams that came as one packet.
func joinDatagrams(c net.PacketConn) error { return setUDP(c, unix.UDP_GRO, 1) }

func setUDP(c any, option, value int) error {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return fmt.Errorf("set option of a UDP socket: %T is none", c)
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return fmt.Errorf("set option of a UDP socket: %w", err)
	}
	var serr error
	if err := rc.Control(func(fd uintptr) { serr = unix.SetsockoptInt(int(fd), unix.SOL_UDP, option, value) }); err != nil {
		return fmt.Errorf("set option of a UDP socket: %w", err)
	}
	return serr
}
