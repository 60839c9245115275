//go:build linux

package kernel_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel"
)

const dataPort = 5001

// patience bounds every wait in these tests.
const patience = 60 * time.Second

// congestion sets the congestion control of a socket, which is what agents do.
func congestion(name string) func(_, _ string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var err error
		ctlErr := c.Control(func(fd uintptr) {
			if err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name); err == nil {
				err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
			}
		})
		if ctlErr != nil {
			return ctlErr
		}
		return err
	}
}

// mustListen opens a TCP listener on a host's first address. The sockets of
// one thread stay in the namespace they were made in.
func mustListen(tb testing.TB, f *kernel.Fabric, host fabric.NodeID) *net.TCPListener {
	tb.Helper()
	return mustListenWith(tb, f, host, "cubic")
}

func mustListenWith(tb testing.TB, f *kernel.Fabric, host fabric.NodeID, control string) *net.TCPListener {
	tb.Helper()
	var l net.Listener
	require.NoError(tb, f.Do(host, func() (err error) {
		lc := net.ListenConfig{Control: congestion(control)}
		lc.SetMultipathTCP(false)
		l, err = lc.Listen(context.Background(), "tcp4", netip.AddrPortFrom(f.Plan().Nodes[host].Addrs[0], dataPort).String())
		return err
	}))
	tb.Cleanup(func() { _ = l.Close() })
	return l.(*net.TCPListener)
}

// connection is a warm TCP connection between two hosts.
type connection struct {
	out, in *net.TCPConn
}

// mustConnect dials from a source port and exchanges a byte, so that later
// measurements begin on an established connection.
func mustConnect(tb testing.TB, f *kernel.Fabric, src, dst fabric.NodeID, l *net.TCPListener, sport uint16) connection {
	tb.Helper()
	return mustConnectWith(tb, f, src, dst, l, sport, "cubic")
}

func mustConnectWith(tb testing.TB, f *kernel.Fabric, src, dst fabric.NodeID, l *net.TCPListener, sport uint16, control string) connection {
	tb.Helper()
	var c net.Conn
	require.NoError(tb, f.Do(src, func() (err error) {
		d := net.Dialer{
			Timeout: patience, Control: congestion(control),
			LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(f.Plan().Nodes[src].Addrs[0], sport)),
		}
		c, err = d.DialContext(tb.Context(), "tcp4", netip.AddrPortFrom(f.Plan().Nodes[dst].Addrs[0], dataPort).String())
		return err
	}))
	require.NoError(tb, l.SetDeadline(time.Now().Add(patience)))
	in, err := l.AcceptTCP()
	require.NoError(tb, err)
	k := connection{out: c.(*net.TCPConn), in: in}
	tb.Cleanup(k.close)
	_, err = k.out.Write([]byte{1})
	require.NoError(tb, err)
	_, err = io.ReadFull(k.in, make([]byte, 1))
	require.NoError(tb, err)
	return k
}

func (k connection) close() {
	// A reset leaves no state behind that would hold the namespace.
	_ = k.out.SetLinger(0)
	_ = k.in.SetLinger(0)
	_ = k.out.Close()
	_ = k.in.Close()
}

// transfer moves n bytes and returns when the receiver had the last.
func (k connection) transfer(n int) (last time.Time, err error) {
	deadline := time.Now().Add(patience)
	if err := k.out.SetDeadline(deadline); err != nil {
		return last, err
	}
	if err := k.in.SetDeadline(deadline); err != nil {
		return last, err
	}
	sent := make(chan error, 1)
	go func() {
		buf := make([]byte, 256<<10)
		for left := n; left > 0; {
			m, err := k.out.Write(buf[:min(left, len(buf))])
			if err != nil {
				sent <- err
				return
			}
			left -= m
		}
		sent <- nil
	}()
	buf := make([]byte, 256<<10)
	got := 0
	for got < n {
		m, err := k.in.Read(buf[:min(n-got, len(buf))])
		got += m
		if err != nil {
			return last, fmt.Errorf("after %d of %d bytes: %w", got, n, err)
		}
	}
	last = time.Now()
	return last, <-sent
}

// mustUDP opens a UDP socket on a host's first address; port 0 means any port.
func mustUDP(tb testing.TB, f *kernel.Fabric, host fabric.NodeID, port uint16) *net.UDPConn {
	tb.Helper()
	var c *net.UDPConn
	require.NoError(tb, f.Do(host, func() (err error) {
		c, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(f.Plan().Nodes[host].Addrs[0], port)))
		return err
	}))
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// sendUDP sends datagrams of a size with a TOS byte.
func sendUDP(tb testing.TB, f *kernel.Fabric, from *net.UDPConn, to fabric.NodeID, count, size int, tos int) {
	tb.Helper()
	raw, err := from.SyscallConn()
	require.NoError(tb, err)
	require.NoError(tb, raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, tos)
	}))
	require.NoError(tb, err)
	dst := netip.AddrPortFrom(f.Plan().Nodes[to].Addrs[0], dataPort)
	for range count {
		_, err := from.WriteToUDPAddrPort(make([]byte, size), dst)
		require.NoError(tb, err)
	}
}

// udpFrame is the Ethernet frame of a datagram: 14 + 20 + 8 bytes of headers.
func udpFrame(size int) uint64 { return uint64(size + 42) }

// mustSettle reads counters until nothing waits in any queue and two readings agree.
func mustSettle(tb testing.TB, f *kernel.Fabric) map[string]kernel.PortCounters {
	tb.Helper()
	deadline := time.Now().Add(patience)
	var before []kernel.PortCounters
	for {
		now, err := f.Counters()
		require.NoError(tb, err)
		quiet := before != nil
		for i, c := range now {
			if quiet {
				c.At = before[i].At // only the time of the reading may differ
				quiet = c.BacklogBytes == 0 && c == before[i]
			}
		}
		if quiet {
			return byName(f.Plan(), now)
		}
		require.True(tb, time.Now().Before(deadline), "queues do not empty")
		before = now
		<-time.After(20 * time.Millisecond) // packets between queues are in no queue
	}
}

// byName keys counters as LinkName does: "tor0-0>agg0-1".
func byName(p *fabric.Plan, counters []kernel.PortCounters) map[string]kernel.PortCounters {
	m := make(map[string]kernel.PortCounters, len(counters))
	for _, c := range counters {
		m[p.LinkName(p.HopOf(p.Ports[c.Node][c.Port]))] = c
	}
	return m
}
