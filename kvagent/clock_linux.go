package kvagent

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Monotonic is the host's CLOCK_MONOTONIC in nanoseconds, the time base of
// the control protocol: the same in every process and network namespace.
func Monotonic() int64 { return monotonic() }

func monotonic() int64 {
	var ts unix.Timespec
	// It fails only for an unknown clock; this one exists since Linux 2.6.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}

// kernelTimer is a timerfd. When the process is otherwise idle, the runtime's own timers
// wait in whole milliseconds and so come up to a millisecond late. A timerfd
// wakes the poller when it is due.
type kernelTimer struct {
	f   *os.File
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
		_ = f.Close()
		return nil, fmt.Errorf("create timerfd: %w", err)
	}
	return &kernelTimer{f: f, raw: raw, in: newMover(raw.Read, unix.SYS_READ)}, nil
}

// set arms the timer for a monotonic time; a time that has passed fires at once.
func (t *kernelTimer) set(at int64) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(at, 1))} // 0 would disarm
	var errno unix.Errno
	if err := t.raw.Control(func(fd uintptr) { // without the scheduler's notice, as in dataConn
		_, _, errno = unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, fd, unix.TFD_TIMER_ABSTIME, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	}); err != nil {
		return fmt.Errorf("arm timerfd: %w", err)
	}
	if errno != 0 {
		return fmt.Errorf("arm timerfd for %v: %w", time.Duration(at), errno)
	}
	return nil
}

// wait blocks until the timer fires, and returns an error once it is closed.
func (t *kernelTimer) wait() error {
	var count [8]byte
	_, err := t.in.move(count[:])
	return err
}

func (t *kernelTimer) close() error { return t.f.Close() }
