//go:build !linux

package kvagent

import (
	"context"
	"net"
	"net/netip"
	"syscall"
	"time"
)

type socketOptions struct {
	congestion string
	dscp       int
}

func (socketOptions) control(_, _ string, _ syscall.RawConn) error { return errNotLinux }

func (socketOptions) listen(context.Context, netip.AddrPort) (*net.TCPListener, error) {
	return nil, errNotLinux
}

func (socketOptions) dial(context.Context, netip.AddrPort, netip.AddrPort) (*dataConn, error) {
	return nil, errNotLinux
}

func portTaken(error) bool { return false }

func congestionInForce(syscall.Conn) (string, error) { return "", errNotLinux }

type tcpStats struct {
	retransmits  uint32
	minRTT       uint32
	deliveryRate uint64
	busy         time.Duration
	limited      time.Duration
}

func readTCPStats(syscall.RawConn) (tcpStats, error) { return tcpStats{}, errNotLinux }

type dataConn struct {
	*net.TCPConn
	raw syscall.RawConn
}

func newDataConn(*net.TCPConn) (*dataConn, error) { return nil, errNotLinux }

func (*dataConn) wakeAt(int64) error { return errNotLinux }

// WakeAt needs Linux.
func WakeAt(syscall.RawConn, int) error { return errNotLinux }

func segmentDatagrams(net.Conn, int) error { return errNotLinux }

func joinDatagrams(net.PacketConn) error { return errNotLinux }
