package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// CongestionControls lists the TCP congestion controls that the kernel has at the moment,
// sorted; modules may add to it. Empty where it does not say.
func CongestionControls() []string {
	text, _ := sysctl(Proc, "net.ipv4.tcp_available_congestion_control") // else the caller's own attempt decides
	have := strings.Fields(text)
	slices.Sort(have)
	return have
}

// TryCongestionControl asks the kernel for a TCP congestion control by name, as a
// socket of root's would; the kernel loads a module for it if it has one.
func TryCongestionControl(name string) error {
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

// AnyUsersCongestionControl reports whether the kernel gives a congestion control to sockets
// of any user ("": its default); others need CAP_NET_ADMIN.
func AnyUsersCongestionControl(name string) bool {
	text, _ := sysctl(Proc, "net.ipv4.tcp_allowed_congestion_control")
	return name == "" || slices.Contains(strings.Fields(text), name)
}
