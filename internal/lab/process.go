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

// self names this process.
func self() Process {
	start, err := nodes.StartTime(os.Getpid())
	if err != nil {
		return Process{} // then nobody will signal us, which is the safe side
	}
	return Process{PID: os.Getpid(), StartTime: start}
}

// running reports whether that very process still exists.
func (p Process) running() bool {
	start, err := nodes.StartTime(p.PID)
	return err == nil && start == p.StartTime
}

// String names the process for a message; the zero value is one that has not signed.
func (p Process) String() string {
	if p.PID > 0 {
		return fmt.Sprintf("process %d", p.PID)
	}
	return "another netkvlab process"
}

// endRounds bounds the hunt for processes that start others while being stopped.
const endRounds = 5

// endProcesses stops what the lab started and returns it.
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

// ownProcesses are those that the lab started: its agents, also where their namespace can
// no longer be found by name, and in its namespaces what `netkvlab exec` started.
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

// pick takes a lab's own out of the processes in its namespaces. Who asks for the removal
// from inside of the lab is spared, with all that is beside it in its namespace: the
// shell that `netkvlab exec` started, and what it pipes the answer into.
func pick(procs []nodes.Proc, lab string, lineage map[int]bool, here uint64) (own []nodes.Proc) {
	for _, p := range procs {
		if p.Lab == lab && (p.Agent || !lineage[p.PID] && p.Netns != here) {
			own = append(own, p)
		}
	}
	return own
}

// inContainers are the agents that are the first process of a container.
func inContainers(agents []nodes.Agent) (procs []nodes.Proc) {
	for _, a := range agents {
		if a.ID != "" {
			procs = append(procs, nodes.Proc{PID: a.PID, StartTime: a.StartTime, Comm: a.Node})
		}
	}
	return procs
}

// leftAlone says which processes still live in namespaces that a lab has given up.
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
