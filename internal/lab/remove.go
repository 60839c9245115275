package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/nodes"
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

// Remove removes a lab that this process has locked: agents, namespaces, folder.
func (l *Lab) Remove(ctx context.Context) (Removed, error) {
	l.mourn(ctx)
	l.opt.Progress.Phase("removing %s", l.Name())
	if l.state != nil {
		l.state.Owner = self()
		_ = l.setPhase(PhaseRemoving) // only informs other commands; removal continues without it
	}
	lk := l.lock
	l.lock = nil // held until the folder is gone
	errClose := l.close()
	out, err := remove(ctx, l.Name(), l.opt)
	for _, n := range out.Notes {
		l.opt.Progress.Note("%s", n)
	}
	if lk != nil {
		err = errors.Join(err, lk.release())
	}
	return out, errors.Join(err, errClose)
}

// mournAtMost bounds how many dead agents are reported one by one.
const mournAtMost = 3

// mourn reports what is known about dead agents. After the removal this is no longer possible.
func (l *Lab) mourn(ctx context.Context) {
	told := 0
	for _, a := range l.Agents {
		alive, err := l.opt.Runtime.Alive(a.Agent)
		if a.PID == 0 || err != nil || alive {
			continue
		}
		if told++; told > mournAtMost {
			l.opt.Progress.Note("and further agents are dead")
			return
		}
		l.opt.Progress.Note("agent %s is dead; the end of its log: %s", a.Node, l.lastWords(ctx, a.Agent))
	}
}

// Down removes a lab by name, also one of another process. A process that works on it is asked
// to end first. A missing lab is no error.
func Down(ctx context.Context, name string, opt Options) (Removed, error) {
	if err := checkName(name); err != nil {
		return Removed{}, err
	}
	lk, err := opt.Store.tryLock(name, false)
	var busy *BusyError
	evicted := errors.As(err, &busy)
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
		err = errors.Join(err, lk.release())
	}
	return out, err
}

const (
	// evictPatience is how long an interrupted netkvlab may take to clean up.
	evictPatience = 20 * time.Second
	// killPatience is how long the kernel may then take to end it.
	killPatience = 2 * time.Second
)

// evict interrupts the process that has locked a lab and waits until it releases the lock. It
// kills a process that hangs. It returns the process for the report.
func evict(ctx context.Context, name string, opt Options) (*lock, Process, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var owner Process
	since, killed := time.Now(), false
	for {
		lk, err := opt.Store.tryLock(name, false)
		var busy *BusyError
		if !errors.As(err, &busy) {
			return lk, owner, err
		}
		waited := time.Since(since)
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
			return nil, owner, err
		case waited > evictPatience && !killed && owner.PID > 0 && owner.running():
			killed = true
			err = signal(owner, name, unix.SIGKILL)
		}
		if err != nil && !errors.As(err, &busy) {
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
	_, statErr := os.Stat(opt.Store.dir(name))
	folder := statErr == nil

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
	out.Nothing = !folder && out.Namespaces == 0 && out.Containers == 0 && out.Processes == 0 && len(gone.Files) == 0
	return out, opt.Store.removeDir(name)
}
