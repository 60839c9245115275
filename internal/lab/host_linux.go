package lab

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// CongestionControl asks the kernel for a TCP congestion control by name, as a
// socket of root's would; the kernel loads a module for it if it has one.
func CongestionControl(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket to try %s: %w", name, err)
	}
	err = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
	if err := errors.Join(err, unix.Close(fd)); err != nil {
		return fmt.Errorf("this kernel has no %q (%w): choose one of those it has (%s) or load its module", name, err, strings.Join(CongestionControls(), ", "))
	}
	return nil
}

// everybodys reports whether the kernel gives a congestion control to sockets of any
// user; others need CAP_NET_ADMIN.
func everybodys(name string) bool {
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
	return name == "" || err == nil && slices.Contains(strings.Fields(string(text)), name)
}
