package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/nodes"
)

// Info is one line of `netkvlab ps`.
type Info struct {
	Lab string `json:"lab"`
	// Status: building, ready, running, removing; left (its process died), damaged
	// (parts are missing) or unknown (no readable state).
	Status     string `json:"status"`
	Runtime    string `json:"runtime,omitempty"`
	Namespaces int    `json:"namespaces"`
	Agents     int    `json:"agents"`
	// MemoryBytes is what all agents use now, CPUSeconds what they have used so far.
	MemoryBytes int64       `json:"memory_bytes"`
	CPUSeconds  float64     `json:"cpu_seconds"`
	Created     time.Time   `json:"created,omitzero"`
	OwnerPID    int         `json:"owner_pid,omitempty"`
	Damage      []string    `json:"damage"`
	Members     []AgentInfo `json:"members"`
}

// statusDamaged is the status of a lab with missing or changed parts.
const statusDamaged = "damaged"

// AgentInfo is one line of `netkvlab ps LAB`.
type AgentInfo struct {
	Node string `json:"node"`
	// ID is the container's, if the agent is in one.
	ID  string `json:"id,omitempty"`
	PID int    `json:"pid"`
	// MemoryBytes is the resident memory of the agent's first process, and CPUSeconds its user and
	// system time since its start. Both are 0 if it is dead.
	MemoryBytes int64   `json:"memory_bytes"`
	CPUSeconds  float64 `json:"cpu_seconds"`
	Alive       bool    `json:"alive"`
}

// describe asks the kernel what a lab's agents use, the same way for every runtime.
func describe(st *State, namespaces int) Info {
	info := Info{
		Lab: st.Lab, Status: string(st.Phase), Runtime: st.Runtime, Namespaces: namespaces, Agents: len(st.Agents),
		Created: st.Created, OwnerPID: st.Owner.PID, Damage: []string{}, Members: []AgentInfo{},
	}
	for _, a := range st.Agents {
		m := AgentInfo{Node: a.Node, ID: a.ID, PID: a.PID}
		if alive, err := nodes.Alive(a); err == nil && alive {
			if u, err := host.UsageOf(host.Proc, a.PID); err == nil { // on an error it has just ended
				m.Alive, m.MemoryBytes, m.CPUSeconds = true, u.ResidentBytes, u.CPU.Seconds()
			}
		}
		info.Members = append(info.Members, m)
		info.MemoryBytes += m.MemoryBytes
		info.CPUSeconds += m.CPUSeconds
	}
	return info
}

// Since is when the lab was made, in local time.
func (i Info) Since() string {
	if i.Created.IsZero() {
		return "-"
	}
	return i.Created.Local().Format(time.DateTime)
}

// All names all labs: those with a folder, and those that only the kernel or an engine knows.
func All(ctx context.Context, opt Options) ([]string, error) {
	names, err := opt.Store.Labs()
	if err != nil {
		return nil, err
	}
	marked, err := kernel.Labs()
	if err != nil {
		return nil, err
	}
	labelled, err := opt.Containers.Labs(ctx)
	if err != nil {
		opt.Progress.Note("labs of which only containers are left are not listed: %v", err)
	}
	names = slices.Concat(names, marked, labelled)
	slices.Sort(names)
	return slices.Compact(names), nil
}

// List describes every lab.
func List(ctx context.Context, opt Options) ([]Info, error) {
	names, err := All(ctx, opt)
	if err != nil {
		return nil, err
	}
	infos := make([]Info, 0, len(names))
	for _, n := range names {
		i, err := Look(ctx, n, opt)
		if errors.Is(err, ErrNotUp) {
			continue // it has been removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, i)
	}
	return infos, nil
}

// Info describes a lab that this process has built. Unlike Look it does not look for damage,
// since the lab has just been verified.
func (l *Lab) Info() Info { return describe(l.state, len(l.Plan.Nodes)) }

// Look describes one lab. It is an error only if the lab does not exist at all.
func Look(ctx context.Context, name string, opt Options) (Info, error) {
	info, _, _, err := look(ctx, name, opt)
	return info, err
}

// look also returns the lab's state and cluster, if they can be read.
func look(ctx context.Context, name string, opt Options) (info Info, st *State, c *trials.Cluster, err error) {
	if err := checkName(name); err != nil {
		return info, nil, nil, err
	}
	spaces, err := kernel.Namespaces(name)
	if err != nil {
		return info, nil, nil, err
	}
	if st, c, err = read(opt.Store, name); err != nil {
		info = Info{Lab: name, Status: "unknown", Namespaces: len(spaces), Damage: []string{}, Members: []AgentInfo{}}
		n, errCount := opt.containers(ctx, name)
		if n > 0 {
			info.Damage = append(info.Damage, fmt.Sprintf("%d containers are left of it", n))
		}
		if errors.Is(err, ErrNotUp) && len(spaces) == 0 && errCount == nil && n == 0 {
			return info, nil, nil, fmt.Errorf("%w: `netkvlab ps` lists the labs", err)
		}
		info.Damage = append(info.Damage, err.Error(), fmt.Sprintf("remove it with `netkvlab down %s`", name))
		return info, nil, nil, nil
	}
	info = describe(st, len(spaces))
	switch {
	case st.Phase != PhaseReady && !st.Owner.running():
		info.Status = "left"
		info.Damage = append(info.Damage, fmt.Sprintf("process %d ended while the lab was %s: remove it with `netkvlab down %s`", st.Owner.PID, st.Phase, name))
	case st.Phase == PhaseReady || st.Phase == PhaseRunning:
		if info.Damage = damaged(ctx, st, c.Plan); len(info.Damage) > 0 {
			info.Status = statusDamaged
		}
	}
	return info, st, c, nil
}

// Worker returns the process that works on a lab; false if there is none, or no such lab.
func Worker(name string, opt Options) (pid int, working bool) {
	st, err := opt.Store.Load(name)
	if err != nil || !st.Owner.running() {
		return 0, false
	}
	return st.Owner.PID, true
}

// DamagedError names the missing parts of a lab.
type DamagedError struct {
	Lab   string
	Parts []string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("lab %q is damaged (%s): remove it with `netkvlab down %s` and build it anew", e.Lab, shorten(e.Parts, 6), e.Lab)
}

// shorten keeps a list readable.
func shorten(parts []string, most int) string {
	if len(parts) <= most {
		return strings.Join(parts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(parts[:most], ", "), len(parts)-most)
}

// damaged lists the missing parts of a lab: namespaces, links, agents.
func damaged(ctx context.Context, st *State, plan *fabric.Plan) []string {
	parts := []string{}
	d, err := kernel.Inspect(ctx, st.Lab, plan, kernel.Options{})
	switch {
	case err != nil:
		parts = append(parts, fmt.Sprintf("cannot look at the fabric: %v", err))
	case !d.None():
		parts = append(parts, d.String())
	}
	for _, a := range st.Agents {
		alive, err := nodes.Alive(a)
		switch {
		case err != nil:
			parts = append(parts, fmt.Sprintf("agent %s: %v", a.Node, err))
		case !alive:
			parts = append(parts, fmt.Sprintf("agent %s is dead", a.Node))
		}
	}
	return parts
}

// Exec runs a command inside a node's namespace, which it finds by the names of lab and node,
// and returns its exit code. It takes no lock, so that it works while a lab runs.
func Exec(ctx context.Context, c nodes.ExecSpec) (int, error) {
	if err := checkName(c.Lab); err != nil {
		return 0, err
	}
	all, err := kernel.Namespaces(c.Lab)
	if err != nil {
		return 0, err
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("lab %q: %w: `netkvlab ps` lists the labs", c.Lab, ErrNotUp)
	}
	var known []string
	for _, s := range all {
		if s.Node == c.Node {
			c.Netns = s.Path
			return nodes.Exec(ctx, c)
		}
		known = append(known, s.Node)
	}
	return 0, fmt.Errorf("lab %q has no node %q; it has %s", c.Lab, c.Node, strings.Join(known, " "))
}
