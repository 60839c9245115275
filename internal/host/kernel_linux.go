package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// CongestionControls lists the TCP congestion controls that the kernel has loaded, sorted;
// modules may add others. It is empty if the kernel does not list them.
func CongestionControls() []string {
	text, _ := sysctl(Proc, "net.ipv4.tcp_available_congestion_control") // without a list, the caller's own attempt decides
	have := strings.Fields(text)
	slices.Sort(have)
	return have
}

// TryCongestionControl sets a TCP congestion control by name on a socket of root. The kernel
// loads its module if there is one.
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

// AnyUsersCongestionControl reports whether sockets of any user may set a congestion control (""
// means the default). Others need CAP_NET_ADMIN.
func AnyUsersCongestionControl(name string) bool {
	text, _ := sysctl(Proc, "net.ipv4.tcp_allowed_congestion_control")
	return name == "" || slices.Contains(strings.Fields(text), name)
}

// usableCPUs returns a function that reports whether this process may run on a CPU. If the host
// does not report it, all are allowed.
func usableCPUs() func(cpu int64) bool {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return func(int64) bool { return true }
	}
	return func(cpu int64) bool { return set.IsSet(int(cpu)) }
}
