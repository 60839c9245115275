//go:build !linux

package kvagent

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// errNotLinux is the error, outside Linux, of all that needs sockets in namespaces.
var errNotLinux = errors.New("agents run on Linux only: use the flow world (netkvlab sim) here")

func (socketOptions) control(_, _ string, _ syscall.RawConn) error { return errNotLinux }
func congestionInForce(syscall.Conn) (string, error)               { return "", errNotLinux }
func readTCPStats(syscall.RawConn) (tcpStats, error)               { return tcpStats{}, errNotLinux }
func segmentDatagrams(net.Conn, int) error                         { return errNotLinux }
func joinDatagrams(net.PacketConn) error                           { return errNotLinux }

type dataConn struct {
	*net.TCPConn
	raw syscall.RawConn
}

func newDataConn(*net.TCPConn) (*dataConn, error) { return nil, errNotLinux }
func (*dataConn) wakeAt(int64) error              { return errNotLinux }

// WakeAt needs Linux.
func WakeAt(syscall.RawConn, int) error { return errNotLinux }

var started = time.Now()

// Monotonic is nanoseconds since the process started: outside Linux there is no other process to share a clock with.
func Monotonic() int64 { return int64(time.Since(started)) }

type kernelTimer struct{}

func newKernelTimer() (*kernelTimer, error) { return nil, errNotLinux }
func (*kernelTimer) set(int64)              {}
func (*kernelTimer) wait() error            { return errNotLinux }
func (*kernelTimer) Close() error           { return errNotLinux }
