package lab

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/nodes"
)

// self identifies this process.
func self() Process {
	start, err := nodes.StartTime(os.Getpid())
	if err != nil {
		return Process{} // then no process will signal us, which is safe
	}
	return Process{PID: os.Getpid(), StartTime: start}
}

// running reports whether this same process still exists.
func (p Process) running() bool {
	start, err := nodes.StartTime(p.PID)
	return err == nil && start == p.StartTime
}

// String describes the process for a message; the zero value is a process that has not signed.
func (p Process) String() string {
	if p.PID > 0 {
		return fmt.Sprintf("process %d", p.PID)
	}
	return "another netkvlab process"
}

// endRounds bounds the search for processes that start others while they are being stopped.
const endRounds = 5

// endProcesses stops the processes that the lab started and returns them.
func endProcesses(ctx context.Context, name string) (ended []nodes.Proc, err error) {
	for range endRounds {
		procs, err := ownProcesses(name)
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

// ownProcesses returns the processes that the lab started: its agents, also if their namespace
// is no longer found by name, and the processes of `netkvlab exec` in its namespaces.
func ownProcesses(name string) ([]nodes.Proc, error) {
	found, err := kernel.Namespaces(name)
	if err != nil {
		return nil, err
	}
	inodes := make(map[uint64]bool, len(found))
	for _, s := range found {
		inodes[s.Inode] = true
	}
	procs, err := nodes.FindProcesses(inodes)
	if err != nil {
		return nil, err
	}
	var here unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &here); err != nil {
		return nil, fmt.Errorf("this thread's network namespace: %w", err)
	}
	own := pick(procs, name, nodes.Lineage(), here.Ino)
	agents, err := nodes.FindAgents(name)
	if err != nil {
		return nil, err
	}
	for _, a := range agents {
		if !slices.Contains(own, a) {
			own = append(own, a)
		}
	}
	return own, nil
}

// pick selects a lab's own processes among those in its namespaces. If the removal was requested
// from inside the lab, the requesting process and all others in its namespace are spared: the
// shell that `netkvlab exec` started, and the commands that its output is piped into.
func pick(procs []nodes.Proc, lab string, lineage map[int]bool, here uint64) (own []nodes.Proc) {
	for _, p := range procs {
		if p.Lab == lab && (p.Agent || !lineage[p.PID] && p.Netns != here) {
			own = append(own, p)
		}
	}
	return own
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
