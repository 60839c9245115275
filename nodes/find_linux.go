package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// errNoProcess says that there is no process of that number.
var errNoProcess = errors.New("no such process")

// stat is what /proc/PID/stat tells of a process.
type stat struct {
	comm  string
	state byte
	start uint64
}

// dead reports a process that has ended and waits for its parent.
func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' }

func readStat(pid int) (stat, error) {
	if pid <= 0 {
		return stat{}, errNoProcess
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return stat{}, fmt.Errorf("process %d: %w", pid, errNoProcess)
	}
	if err != nil {
		return stat{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	// The name stands in parentheses and may hold spaces and parentheses itself.
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return stat{}, fmt.Errorf("look at process %d: unexpected /proc/PID/stat", pid)
	}
	f := strings.Fields(string(data[end+1:]))
	const startField = 22 - 3 // fields are counted from 1, and the first after the name is 3
	if len(f) <= startField {
		return stat{}, fmt.Errorf("look at process %d: unexpected /proc/PID/stat", pid)
	}
	start, err := strconv.ParseUint(f[startField], 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	return stat{comm: string(data[open+1 : end]), state: f[0][0], start: start}, nil
}

// StartTime gives a process's start, in clock ticks since boot: with the PID it
// names a process for good.
func StartTime(pid int) (uint64, error) {
	s, err := readStat(pid)
	return s.start, err
}

// FindProcesses lists the processes whose network namespace is one of those
// inodes, by PID. Processes that end meanwhile are left out.
func FindProcesses(netnsInodes map[uint64]bool) ([]Proc, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	if len(dirs) == 0 {
		return nil, errors.New("find processes: /proc is not mounted")
	}
	var out []Proc
	for _, dir := range dirs {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, "ns/net"), &st); err != nil || !netnsInodes[st.Ino] {
			continue // ended, or a kernel thread, or elsewhere
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		s, err := readStat(pid)
		if err != nil || s.dead() {
			continue
		}
		out = append(out, Proc{PID: pid, StartTime: s.start, Comm: s.comm, Lab: environ(dir, labEnv)})
	}
	return out, nil
}

// environ reads one variable of a process's environment; empty where it cannot.
func environ(dir, name string) string {
	data, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err != nil {
		return ""
	}
	for entry := range bytes.SplitSeq(data, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(name+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// Terminate ends processes: it asks all, gives them a second, kills those that
// are left and waits for them. A process that is gone, or whose number another
// one has by now, is passed over.
func Terminate(ctx context.Context, procs []Proc) error {
	open, err := openAll(procs)
	defer func() {
		for _, p := range open {
			_ = unix.Close(p.fd) // only waited on
		}
	}()
	if err != nil {
		return err
	}
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		for _, p := range open {
			if err := unix.PidfdSendSignal(p.fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("signal process %d (%s): %w", p.PID, p.Comm, err)
			}
		}
		left, err := waitAll(ctx, open, time.Now().Add(stopPatience))
		if err != nil || len(left) == 0 {
			return err
		}
	}
	return fmt.Errorf("process %d (%s) does not end", open[0].PID, open[0].Comm)
}

// handle is a process held by a descriptor: signals cannot reach another one.
type handle struct {
	Proc
	fd int
}

func openAll(procs []Proc) ([]handle, error) {
	var out []handle
	for _, p := range procs {
		fd, err := unix.PidfdOpen(p.PID, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return out, fmt.Errorf("open process %d: %w", p.PID, err)
		}
		out = append(out, handle{p, fd})
		if start, err := StartTime(p.PID); err != nil || start != p.StartTime {
			_ = unix.Close(fd)
			out = out[:len(out)-1] // not the process that was meant
		}
	}
	return out, nil
}

// waitAll waits until all have ended or the deadline has passed.
func waitAll(ctx context.Context, procs []handle, deadline time.Time) ([]handle, error) {
	left := procs
	for len(left) > 0 && time.Now().Before(deadline) {
		if err := ctx.Err(); err != nil {
			return left, err
		}
		fds := []unix.PollFd{{Fd: int32(left[0].fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 20) // short: ctx may end
		if err != nil && !errors.Is(err, unix.EINTR) {
			return left, fmt.Errorf("wait for process %d: %w", left[0].PID, err)
		}
		if n > 0 {
			left = left[1:]
		}
	}
	return left, nil
}
