package nodes

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// readStat returns an error that matches fs.ErrNotExist when there is no such process.
func readStat(pid int) (procfs.ProcStat, error) {
	var s procfs.ProcStat
	p, err := procfs.NewProc(pid)
	if err == nil {
		s, err = p.Stat()
	}
	if errors.Is(err, unix.ESRCH) { // it ended between open and read
		err = fs.ErrNotExist
	}
	if err != nil {
		return s, fmt.Errorf("process %d: %w", pid, err)
	}
	return s, nil
}

// ended reports whether a process has ended and its parent has not reaped it yet.
func ended(s procfs.ProcStat) bool { return s.State == "Z" || s.State == "X" }

// StartTime returns when a process began, in clock ticks since boot: with the PID it
// names the process for good. The error matches fs.ErrNotExist when there is none.
func StartTime(pid int) (uint64, error) {
	s, err := readStat(pid)
	return s.Starttime, err
}

// NameOf is the kernel's short name of a process; empty when there is none.
func NameOf(pid int) string {
	s, _ := readStat(pid) // none: it has just ended
	return s.Comm
}

// Lineage is this process and its ancestors, by PID.
func Lineage() map[int]bool {
	all := map[int]bool{}
	for pid := os.Getpid(); pid > 0; {
		all[pid] = true
		s, err := readStat(pid)
		if err != nil {
			break // it has ended, and its children have another parent
		}
		pid = s.PPID
	}
	return all
}

// FindProcesses lists every process whose network namespace has one of these inode
// numbers, by PID: agents, commands of Exec, and processes of other programs.
// It leaves out processes that end during the search, and those whose
// namespace the caller may not see; root may see all.
func FindProcesses(inodes map[uint64]bool) ([]Proc, error) {
	return find(func(_ int, inode uint64) bool { return inodes[inode] })
}

// FindAgents lists the agents of a lab by PID. It recognises them by the command and the
// environment that they were started with. So it also finds agents whose namespace has
// no name, or has one only in another mount namespace, which FindProcesses cannot find.
// Processes in the caller's own network namespace are never among them.
func FindAgents(lab string) ([]Proc, error) {
	var own unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &own); err != nil {
		return nil, fmt.Errorf("find agents: this thread's network namespace: %w", err)
	}
	return find(func(pid int, inode uint64) bool {
		return inode != own.Ino && calledAs(pid) == agentName && environ(pid, labEnv) == lab
	})
}

// find lists the processes for which want, given PID and inode of the network namespace, is true.
func find(want func(pid int, inode uint64) bool) ([]Proc, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("find processes: %w", err)
	}
	var out []Proc
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue // not a process
		}
		var st unix.Stat_t
		err = unix.Stat(filepath.Join("/proc", e.Name(), "ns", "net"), &st)
		if err == nil && !want(pid, st.Ino) || vanished(err) || errors.Is(err, unix.EACCES) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("network namespace of process %d: %w", pid, err)
		}
		s, err := readStat(pid)
		if vanished(err) || err == nil && ended(s) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, Proc{PID: pid, StartTime: s.Starttime, Comm: s.Comm, Lab: environ(pid, labEnv), Netns: st.Ino, Agent: calledAs(pid) == agentName})
	}
	slices.SortFunc(out, func(a, b Proc) int { return cmp.Compare(a.PID, b.PID) })
	return out, nil
}

func vanished(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
}

// calledAs is a process's first argument; empty when it cannot be read.
func calledAs(pid int) string {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return ""
	}
	name, _, _ := bytes.Cut(b, []byte{0})
	return string(name)
}

// environ returns a variable of a process's first environment; empty when there is
// none or it cannot be read.
func environ(pid int, name string) string {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return ""
	}
	for kv := range bytes.SplitSeq(b, []byte{0}) {
		if v, ok := bytes.CutPrefix(kv, []byte(name+"=")); ok {
			return string(v)
		}
	}
	return ""
}

const (
	termGrace = 2 * time.Second // between SIGTERM and SIGKILL
	killWait  = 5 * time.Second // for the kernel to end what was killed
)

// handle is a process held by descriptor, so that no signal reaches another process
// that has the same number by then.
type handle struct {
	Proc
	fd int
}

// hold opens a process. It returns nil when this process is gone, even if another one has
// its number.
func hold(p Proc) (*handle, error) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("hold process %d: %w", p.PID, err)
	}
	h := &handle{Proc: p, fd: fd}
	s, err := readStat(p.PID) // the descriptor keeps its process, so checking after opening is safe
	if err == nil && s.Starttime == p.StartTime {
		return h, nil
	}
	h.close()
	if err == nil || vanished(err) {
		return nil, nil
	}
	return nil, err
}

func (h *handle) close() { _ = unix.Close(h.fd) }

// signal sends a signal; a process that has ended is no error.
func (h *handle) signal(sig syscall.Signal) error {
	if err := unix.PidfdSendSignal(h.fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("send %v to process %d (%s): %w", sig, h.PID, h.Comm, err)
	}
	return nil
}

// awaitAll waits until all have ended, the time is over or ctx is done, and returns
// those that have not ended.
func awaitAll(ctx context.Context, all []*handle, within time.Duration) ([]*handle, error) {
	end := time.Now().Add(within)
	for len(all) > 0 {
		fds := make([]unix.PollFd, len(all))
		for i, h := range all {
			fds[i] = unix.PollFd{Fd: int32(h.fd), Events: unix.POLLIN}
		}
		left := time.Until(end)
		if left <= 0 || ctx.Err() != nil {
			return all, ctx.Err()
		}
		// In short steps, to check ctx in between.
		_, err := unix.Poll(fds, int(min(left, 50*time.Millisecond)/time.Millisecond)+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return all, fmt.Errorf("wait for processes to end: %w", err)
		}
		var running []*handle
		for i, h := range all {
			if fds[i].Revents == 0 {
				running = append(running, h)
			}
		}
		all = running
	}
	return nil, nil
}

// Ask sends SIGTERM and waits until all have ended, at most two seconds. Processes that
// have ended before, or whose PID belongs to another process by now, are left alone.
func Ask(ctx context.Context, procs []Proc) error {
	running, err := ask(ctx, procs)
	closeAll(running)
	return err
}

// Terminate ends processes as Ask does, ends the remaining ones by SIGKILL, and waits until
// all are gone.
func Terminate(ctx context.Context, procs []Proc) error {
	asked, err := ask(ctx, procs)
	defer closeAll(asked)
	errs := []error{err}
	for _, h := range asked {
		errs = append(errs, h.signal(unix.SIGKILL))
	}
	// Wait for a killed process even if ctx is done.
	running, err := awaitAll(context.WithoutCancel(ctx), asked, killWait)
	errs = append(errs, err)
	for _, h := range running {
		errs = append(errs, fmt.Errorf("process %d (%s) does not end %v after SIGKILL", h.PID, h.Comm, killWait))
	}
	return errors.Join(errs...)
}

// ask returns those that still run, which the caller has to close.
func ask(ctx context.Context, procs []Proc) (running []*handle, err error) {
	var held []*handle
	var errs []error
	for _, p := range procs {
		h, err := hold(p)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if h != nil {
			held = append(held, h)
			errs = append(errs, h.signal(unix.SIGTERM))
		}
	}
	running, err = awaitAll(ctx, held, termGrace)
	closeAll(slices.DeleteFunc(held, func(h *handle) bool { return slices.Contains(running, h) }))
	return running, errors.Join(append(errs, err)...)
}

func closeAll(all []*handle) {
	for _, h := range all {
		h.close()
	}
}
