package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/nodes"
	"github.com/netkvlab/netkvlab/nodes/docker"
	"github.com/netkvlab/netkvlab/scenarios"
)

// Removed says what was removed, and what had to be guessed.
type Removed struct {
	Lab        string   `json:"lab"`
	Namespaces int      `json:"namespaces"`
	Containers int      `json:"containers"`
	Processes  int      `json:"processes"` // without those of containers
	Nothing    bool     `json:"nothing"`   // there was no such lab
	Notes      []string `json:"notes"`
}

// remove removes a lab that this process has locked: agents, namespaces, folder.
func (l *Lab) remove(ctx context.Context) error {
	l.reportDead(ctx)
	l.opt.Progress.Phase("removing %s", l.Name())
	_ = l.record(PhaseRemoving, self()) // only informs other commands; removal continues without it
	errClose := l.close()
	out, err := remove(ctx, l.Name(), l.opt)
	for _, n := range out.Notes {
		l.opt.Progress.Note("%s", n)
	}
	return errors.Join(err, l.lock.Close(), errClose)
}

// mostDeadReported bounds how many dead agents are reported one by one.
const mostDeadReported = 3

// reportDead reports what is known about dead agents. After the removal this is no longer possible.
func (l *Lab) reportDead(ctx context.Context) {
	for i, a := range l.dead() {
		if i == mostDeadReported {
			l.opt.Progress.Note("and further agents are dead")
			return
		}
		l.opt.Progress.Note("agent %s is dead; the end of its log: %s", a.Node, l.logTail(ctx, a))
	}
}

// teardownTimeout bounds the removal of labs that this process works on.
const teardownTimeout = time.Minute

// RemoveGroup removes labs that this process has locked, also when the context has ended.
func RemoveGroup(ctx context.Context, labs []*Lab) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), teardownTimeout)
	defer cancel()
	errs := make([]error, len(labs))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, l := range labs {
		g.Go(func() error {
			errs[i] = l.remove(ctx)
			return nil
		})
	}
	_ = g.Wait() // each lab has its own error
	return errors.Join(errs...)
}

// DownAll removes labs by name, each with its group. A process that works on several of them is
// interrupted only once: after a second interruption it would stop at once and leave them
// behind.
func DownAll(ctx context.Context, names []string, opt Options) ([]Removed, error) {
	opt.asked = asked{}
	removed, done := []Removed{}, map[string]bool{}
	var errs []error
	for _, name := range names {
		members, err := opt.Store.members(name)
		errs = append(errs, err)
		for i, m := range append([]string{name}, members...) {
			if done[m] {
				continue
			}
			done[m] = true
			r, err := Down(ctx, m, opt)
			if err != nil {
				errs = append(errs, err)
			} else if i == 0 || !r.Nothing { // the process of the first may have removed the others
				removed = append(removed, r)
			}
		}
	}
	return removed, errors.Join(errs...)
}

// asked are processes that were asked to end.
type asked map[Process]bool

// first reports whether a process was not asked before, and remembers that it is now. A nil
// map remembers nothing.
func (a asked) first(p Process) bool {
	if a[p] {
		return false
	}
	if a != nil {
		a[p] = true
	}
	return true
}

// Down removes a lab by name, also one of another process. A process that works on it is asked
// to end first. A missing lab is no error.
func Down(ctx context.Context, name string, opt Options) (Removed, error) {
	if err := checkName(name); err != nil {
		return Removed{}, err
	}
	lk, err := opt.Store.tryLock(name, false)
	_, evicted := errors.AsType[*BusyError](err)
	var owner Process
	if evicted {
		lk, owner, err = evict(ctx, name, opt)
	}
	if err != nil && !errors.Is(err, ErrNotUp) {
		return Removed{}, err
	}
	out, err := remove(ctx, name, opt)
	if evicted {
		out.Nothing = false
		out.Notes = append(out.Notes, fmt.Sprintf("%s was working on it and ended", owner))
	}
	if lk != nil {
		err = errors.Join(err, lk.Close())
	}
	return out, err
}

const (
	evictPatience = 20 * time.Second // for an interrupted netkvlab to clean up
	killPatience  = 2 * time.Second  // for the kernel to end it then
)

// evict interrupts the process that has locked a lab and waits until it releases the lock. It
// kills a process that hangs. It returns the process for the report.
func evict(ctx context.Context, name string, opt Options) (*os.File, Process, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var owner Process
	since, killed := time.Now(), false
	for {
		lk, err := opt.Store.tryLock(name, false)
		busy, ok := errors.AsType[*BusyError](err)
		if !ok {
			return lk, owner, err
		}
		waited := time.Since(since)
		err = nil
		switch {
		// The holder signs only after it has locked, and another process may lock after it: read the
		// owner again each time.
		case busy.Owner != owner && busy.Owner.PID > 0 && busy.Owner.running():
			owner, since, killed = busy.Owner, time.Now(), false
			if opt.asked.first(owner) {
				opt.Progress.Phase("asking process %d to end its work on %s", owner.PID, name)
				err = signal(owner, name, unix.SIGTERM)
			}
		case waited > evictPatience+killPatience:
			return nil, owner, busy
		case waited > evictPatience && !killed && owner.PID > 0 && owner.running():
			killed = true
			err = signal(owner, name, unix.SIGKILL)
		}
		if err != nil {
			return nil, owner, err
		}
		select {
		case <-ctx.Done():
			return nil, owner, ctx.Err()
		case <-tick.C:
		}
	}
}

func signal(owner Process, name string, s unix.Signal) error {
	if err := unix.Kill(owner.PID, s); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("end process %d, which works on lab %q: %w", owner.PID, name, err)
	}
	return nil
}

// remove works from the kernel's own state. The journal only adds the names of namespaces that
// were made but not yet marked.
func remove(ctx context.Context, name string, opt Options) (Removed, error) {
	out := Removed{Lab: name, Notes: []string{}}
	planned, err := opt.Store.planned(name)
	if err != nil {
		out.Notes = append(out.Notes, err.Error())
	}
	st, err := opt.Store.Load(name)
	if err != nil && !errors.Is(err, ErrNotUp) && !errors.Is(err, fs.ErrNotExist) {
		out.Notes = append(out.Notes, fmt.Sprintf("%v; went by the kernel's state instead", err))
	}
	_, errFolder := os.Stat(opt.Store.dir(name))
	if st != nil {
		// Otherwise the engine kills them at once, and they have no time to clean up.
		if err := nodes.Ask(ctx, inContainers(st.Agents)); err != nil {
			out.Notes = append(out.Notes, fmt.Sprintf("ask the containers to end: %v", err))
		}
	}
	var errDock error
	out.Containers, errDock = opt.removeContainers(ctx, name, st)
	stopped, errProc := endProcesses(ctx, name)
	out.Processes = len(stopped)
	for _, p := range stopped {
		if !p.Agent {
			out.Notes = append(out.Notes, fmt.Sprintf("ended process %d (%q), which `netkvlab exec` had started", p.PID, p.Comm))
		}
	}
	gone, errNet := kernel.Remove(ctx, name, kernel.Options{Planned: planned, Leave: true})
	out.Namespaces = len(gone.Namespaces)
	out.Notes = append(out.Notes, leftAlone(name, gone.Held)...)
	for _, f := range gone.Files {
		out.Notes = append(out.Notes, fmt.Sprintf("removed %s, a namespace that was begun and never made", f))
	}
	if err := errors.Join(errDock, errProc, errNet); err != nil {
		return out, fmt.Errorf("remove lab %q: %w", name, err)
	}
	out.Nothing = errFolder != nil && out.Namespaces == 0 && out.Containers == 0 && out.Processes == 0 && len(gone.Files) == 0
	return out, opt.Store.removeDir(name)
}

// endRounds bounds the search for processes that start others while they are being stopped.
const endRounds = 5

// endProcesses stops the processes that the lab started and returns them.
func endProcesses(ctx context.Context, name string) (ended []nodes.Proc, err error) {
	for range endRounds {
		found, err := kernel.Namespaces(name)
		if err != nil {
			return ended, err
		}
		inodes := make(map[uint64]bool, len(found))
		for _, s := range found {
			inodes[s.Inode] = true
		}
		procs, err := nodes.OfLab(name, inodes)
		if err != nil || len(procs) == 0 {
			return ended, err
		}
		if err := nodes.Terminate(ctx, procs); err != nil {
			return ended, err
		}
		ended = append(ended, procs...)
	}
	return ended, fmt.Errorf("lab %q: processes keep appearing in its namespaces", name)
}

// inContainers returns the agents that are the first process of a container.
func inContainers(agents []nodes.Agent) (procs []nodes.Proc) {
	for _, a := range agents {
		if a.ID != "" {
			procs = append(procs, nodes.Proc{PID: a.PID, StartTime: a.StartTime, Comm: a.Node})
		}
	}
	return procs
}

// leftAlone describes the processes that still run in namespaces that the lab no longer has.
func leftAlone(lab string, held map[string][]int) (notes []string) {
	for _, name := range slices.Sorted(maps.Keys(held)) {
		var who []string
		for _, pid := range held[name] {
			if pid != os.Getpid() {
				who = append(who, fmt.Sprintf("process %d (%q)", pid, nodes.NameOf(pid)))
			}
		}
		if len(who) > 0 {
			notes = append(notes, fmt.Sprintf("left alone in node %s: %s; the network there has lost its name and its links, and is gone when they end",
				strings.TrimPrefix(name, lab+"."), shorten(who, 6)))
		}
	}
	return notes
}

// containers counts a lab's containers; 0 if no engine answers.
func (o Options) containers(ctx context.Context, lab string) (int, error) {
	ctx, cancel := patience(ctx, o.Runtime.Name())
	defer cancel()
	n, err := o.ask(lab, func(e *docker.Engine) (int, error) { return e.Count(ctx, lab) })
	// A broken engine does not matter to a lab that does not use it, and operations that need an
	// engine report that none answers.
	if err != nil && (o.Runtime.Name() != scenarios.RuntimeDocker || errors.Is(err, docker.ErrNoEngine)) {
		return 0, nil
	}
	return n, err
}

// strangerPatience is how long a lab waits for an engine that it does not use.
const strangerPatience = 2 * time.Second

// patience bounds a call to the engine: shorter if the lab does not use one.
func patience(ctx context.Context, runtime string) (context.Context, context.CancelFunc) {
	if runtime == scenarios.RuntimeDocker {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, strangerPatience)
}

// Engines returns this host's engine and the engines of the given labs.
func (o Options) Engines(labs []string) []*docker.Engine {
	engines := []*docker.Engine{o.Engine}
	for _, name := range labs {
		host := o.Store.Engine(name)
		known := slices.ContainsFunc(engines, func(e *docker.Engine) bool { return e.Host() == host })
		if host != "" && !known {
			engines = append(engines, docker.EngineAt(host))
		}
	}
	return engines
}

// ask calls question with this host's engine and with the one that the lab was made with, whose
// answer decides. The lab's engine may have a new address by now: if nothing answers at the old
// one, but the host's engine knows the lab, that is no error.
func (o Options) ask(lab string, question func(*docker.Engine) (int, error)) (n int, err error) {
	more := 0
	for _, engine := range o.Engines([]string{lab}) {
		more, err = question(engine)
		n += more
	}
	if n > 0 && errors.Is(err, docker.ErrNoEngine) {
		return n, nil
	}
	return n, err
}

// removeContainers removes a lab's containers. An engine that does not answer is an error only
// if the lab is known to have containers: their processes end in any case, since they are in the
// lab's namespaces, but the engine keeps a record of each container.
func (o Options) removeContainers(ctx context.Context, name string, st *State) (int, error) {
	known := o.Store.Engine(name) != "" || st != nil && st.Runtime == scenarios.RuntimeDocker
	if st != nil {
		var cancel context.CancelFunc
		ctx, cancel = patience(ctx, st.Runtime)
		defer cancel()
	}
	unsure := known && (st == nil || st.Phase == PhaseBuilding)
	n, err := o.ask(name, func(e *docker.Engine) (int, error) { return e.Remove(ctx, name, unsure) })
	switch {
	case err != nil && known:
		return n, fmt.Errorf("its containers' processes have ended, but not their records: when the engine answers again, `netkvlab down %s` removes those too; if it never will, delete %s: %w",
			name, o.Store.dir(name), err)
	case st != nil || errors.Is(err, docker.ErrNoEngine):
		return n, nil // it has none, or it is not known
	}
	return n, err
}
