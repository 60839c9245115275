package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/internal/host"
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

// measure asks the kernel what a lab's agents use, the same way for every runtime.
func (i *Info) measure(agents []nodes.Agent) {
	for _, a := range agents {
		m := AgentInfo{Node: a.Node, ID: a.ID, PID: a.PID}
		if alive, err := nodes.Alive(a); err == nil && alive {
			if u, err := host.UsageOf(host.Proc, a.PID); err == nil { // on an error it has just ended
				m.Alive, m.MemoryBytes, m.CPUSeconds = true, u.ResidentBytes, u.CPU.Seconds()
			}
		}
		i.Members = append(i.Members, m)
		i.MemoryBytes += m.MemoryBytes
		i.CPUSeconds += m.CPUSeconds
	}
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
	names = append(names, marked...)
	if opt.Containers != nil {
		labelled, err := opt.Containers.Labs(ctx)
		if err != nil {
			opt.Progress.Note("labs of which only containers are left are not listed: %v", err)
		}
		names = append(names, labelled...)
	}
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
func (l *Lab) Info() Info {
	info := Info{
		Lab: l.Name(), Status: string(l.state.Phase), Runtime: l.state.Runtime, Namespaces: len(l.Plan.Nodes),
		Agents: len(l.state.Agents), Created: l.state.Created, OwnerPID: l.state.Owner.PID,
		Damage: []string{}, Members: []AgentInfo{},
	}
	info.measure(l.state.Agents)
	return info
}

// Look describes one lab. It is an error only if the lab does not exist at all.
func Look(ctx context.Context, name string, opt Options) (Info, error) {
	info := Info{Lab: name, Status: "unknown", Damage: []string{}, Members: []AgentInfo{}}
	if err := checkName(name); err != nil {
		return info, err
	}
	spaces, err := kernel.Namespaces(name)
	if err != nil {
		return info, err
	}
	info.Namespaces = len(spaces)
	st, c, err := read(opt.Store, name)
	if err != nil {
		n, errCount := opt.containers(ctx, name)
		if n > 0 {
			info.Damage = append(info.Damage, fmt.Sprintf("%d containers are left of it", n))
		}
		if errors.Is(err, ErrNotUp) && len(spaces) == 0 && errCount == nil && n == 0 {
			return info, fmt.Errorf("%w: `netkvlab ps` lists the labs", err)
		}
		info.Damage = append(info.Damage, err.Error(), fmt.Sprintf("remove it with `netkvlab down %s`", name))
		return info, nil
	}
	info.Runtime, info.Agents, info.Created, info.OwnerPID = st.Runtime, len(st.Agents), st.Created, st.Owner.PID
	info.measure(st.Agents)
	info.Status = string(st.Phase)
	working := st.Phase != PhaseReady && st.Owner.running()
	if st.Phase != PhaseReady && !working {
		info.Status = "left"
		info.Damage = append(info.Damage, fmt.Sprintf("process %d ended while the lab was %s: remove it with `netkvlab down %s`", st.Owner.PID, st.Phase, name))
		return info, nil
	}
	if st.Phase == PhaseReady || st.Phase == PhaseRunning {
		if parts := damaged(ctx, st, c.Plan, opt); len(parts) > 0 {
			info.Status, info.Damage = statusDamaged, append(info.Damage, parts...)
		}
	}
	return info, nil
}

// Worker returns the process that works on a lab; false if there is none, or no such lab.
func Worker(name string, opt Options) (pid int, working bool) {
	st, err := opt.Store.Load(name)
	if err != nil || !st.Owner.running() {
		return 0, false
	}
	return st.Owner.PID, true
}
