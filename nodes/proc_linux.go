package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sort"
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

// Alive reports whether that very agent still runs. It asks the kernel, which knows a
// container's first process like any other, at once and without an engine.
func Alive(a Agent) (bool, error) {
	s, err := readStat(a.PID)
	if vanished(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("agent %s: %w", a.Node, err)
	}
	return s.Starttime == a.StartTime && !ended(s), nil
}

// NameOf is the kernel's short name of a process; empty when there is none.
func NameOf(pid int) string {
	s, _ := readStat(pid) // none: it has just ended
	return s.Comm
}

// lineage is this process and its ancestors, by PID.
func lineage() map[int]bool {
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

// OfLab lists the processes that this package started for a lab, by PID: its agents, and
// commands of Exec in the network namespaces with these inode numbers.
//
// Agents are recognised by the command and the environment that they were started with. So they
// are also found in a namespace that has no name, or has one only in another mount namespace; but
// not in the caller's own, unless that is one of the lab's.
//
// Left out are processes that end during the search, and those whose namespace the caller may not
// see (root may see all). If the caller runs in the lab itself, it, its ancestors and all commands
// in its namespace are left out: the shell that Exec started, and what its output is piped into.
func OfLab(lab string, inodes map[uint64]bool) ([]Proc, error) {
	var here unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &here); err != nil {
		return nil, fmt.Errorf("this thread's network namespace: %w", err)
	}
	found, err := find(func(pid int, inode uint64) bool {
		return inodes[inode] || inode != here.Ino && calledAs(pid) == agentName && environ(pid, labEnv) == lab
	})
	return pick(found, lab, lineage(), here.Ino), err
}

// pick selects a lab's own processes, by the lineage and the network namespace of the caller.
func pick(procs []Proc, lab string, lineage map[int]bool, here uint64) (own []Proc) {
	for _, p := range procs {
		if p.Lab == lab && (p.Agent || !lineage[p.PID] && p.Netns != here) {
			own = append(own, p)
		}
	}
	return own
}

// find lists the processes for which want, given PID and inode of the network namespace, is true.
func find(want func(pid int, inode uint64) bool) ([]Proc, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("find processes: %w", err)
	}
	sort.Sort(all)
	var out []Proc
	for _, p := range all {
		var st unix.Stat_t
		err := unix.Stat(fmt.Sprintf("/proc/%d/ns/net", p.PID), &st)
		if err == nil && !want(p.PID, st.Ino) || vanished(err) || errors.Is(err, unix.EACCES) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("network namespace of process %d: %w", p.PID, err)
		}
		s, err := readStat(p.PID)
		if vanished(err) || err == nil && ended(s) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, Proc{
			PID: p.PID, StartTime: s.Starttime, Comm: s.Comm,
			Lab: environ(p.PID, labEnv), Netns: st.Ino, Agent: calledAs(p.PID) == agentName,
		})
	}
	return out, nil
}

func vanished(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// calledAs is a process's first argument; empty when it cannot be read.
func calledAs(pid int) string {
	args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	name, _, _ := bytes.Cut(args, []byte{0})
	return string(name)
}

// environ returns a variable of a process's first environment; empty when there is
// none or it cannot be read.
func environ(pid int, name string) string {
	all, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	for kv := range bytes.SplitSeq(all, []byte{0}) {
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

// Ask sends SIGTERM and waits until all have ended, at most two seconds. Processes that
// have ended before, or whose PID belongs to another process by now, are left alone.
func Ask(ctx context.Context, procs []Proc) error { return end(ctx, procs, false) }

// Terminate ends processes as Ask does, ends the remaining ones by SIGKILL, and waits until
// all are gone.
func Terminate(ctx context.Context, procs []Proc) error { return end(ctx, procs, true) }

func end(ctx context.Context, procs []Proc, kill bool) error {
	var held []*handle
	var errs []error
	for _, p := range procs {
		h, err := hold(p)
		errs = append(errs, err)
		if h != nil {
			defer h.close()
			held = append(held, h)
			errs = append(errs, h.signal(unix.SIGTERM))
		}
	}
	running, err := awaitAll(ctx, held, termGrace)
	errs = append(errs, err)
	if !kill {
		return errors.Join(errs...)
	}
	for _, h := range running {
		errs = append(errs, h.signal(unix.SIGKILL))
	}
	// Wait for a killed process even if ctx is done.
	running, err = awaitAll(context.WithoutCancel(ctx), running, killWait)
	errs = append(errs, err)
	for _, h := range running {
		errs = append(errs, fmt.Errorf("process %d (%s) does not end %v after SIGKILL", h.PID, h.Comm, killWait))
	}
	return errors.Join(errs...)
}

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
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var errs []error
	running := slices.DeleteFunc(slices.Clone(all), func(h *handle) bool {
		ended, err := h.await(limited)
		errs = append(errs, err)
		return ended
	})
	if len(running) > 0 {
		errs = append(errs, ctx.Err())
	}
	return running, errors.Join(errs...)
}

// await waits until the process has ended or ctx is done, and reports whether it has ended.
func (h *handle) await(ctx context.Context) (ended bool, err error) {
	for step := 50; step > 0; { // ms: in short steps, to check ctx in between
		if ctx.Err() != nil {
			step = 0
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(h.fd), Events: unix.POLLIN}}, step)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false, fmt.Errorf("wait for process %d (%s) to end: %w", h.PID, h.Comm, err)
		}
		if n > 0 {
			return true, nil
		}
	}
	return false, nil
}
