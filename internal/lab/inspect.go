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
	"github.com/netkvlab/netkvlab/kvagent"
	"github.com/netkvlab/netkvlab/kvagent/control"
	"github.com/netkvlab/netkvlab/nodes"
	"github.com/netkvlab/netkvlab/scenarios"
)

// Info is one line of `netkvlab ps`.
type Info struct {
	Lab string `json:"lab"`
	// Status: building, ready, running, removing; left (its process died), damaged (parts are
	// missing) or unknown (no readable state).
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
	labelled, err := opt.Engine.Labs(ctx)
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

// damagedError names the missing parts of a lab.
func damagedError(lab string, parts []string) error {
	return fmt.Errorf("lab %q is damaged (%s): remove it with `netkvlab down %s` and build it anew", lab, shorten(parts, 6), lab)
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

// Detail is everything about one lab.
type Detail struct {
	Info
	Scale scenarios.Scale `json:"scale"`
	Nodes []NodeDetail    `json:"nodes"`
	Links []LinkDetail    `json:"links"`
}

// NodeDetail is a node and its agent, if it has one.
type NodeDetail struct {
	Node      string       `json:"node"`
	Namespace string       `json:"namespace"`
	Addresses []string     `json:"addresses"`
	Agent     *AgentDetail `json:"agent,omitempty"`
}

// AgentDetail is an agent's own status. Bytes of KV memory are paper units.
type AgentDetail struct {
	PID               int    `json:"pid"`
	ID                string `json:"id,omitempty"`
	Role              string `json:"role"`
	Answers           bool   `json:"answers"`
	Error             string `json:"error,omitempty"`
	TransfersIn       int    `json:"transfers_in"`
	TransfersOut      int    `json:"transfers_out"`
	Reservations      int    `json:"reservations"`
	FreeBytes         int64  `json:"kv_free_bytes"`
	MemoryBytes       int64  `json:"kv_memory_bytes"`
	CachedBlocks      int    `json:"cached_blocks"`
	Connections       int    `json:"connections"`
	BytesIn           int64  `json:"bytes_in_emulated"`
	BytesOut          int64  `json:"bytes_out_emulated"`
	CongestionControl string `json:"congestion_control,omitempty"`
}

// AgentText formats the node's agent for the text table.
func (n NodeDetail) AgentText() string {
	a := n.Agent
	switch {
	case a == nil:
		return "-"
	case !a.Answers:
		return fmt.Sprintf("pid %d: %s", a.PID, a.Error)
	}
	free := "-"
	if a.MemoryBytes > 0 {
		free = fmt.Sprintf("%s of %s", scenarios.Bytes(a.FreeBytes), scenarios.Bytes(a.MemoryBytes))
	}
	return fmt.Sprintf("pid %d %s\t%d in, %d out\t%d\t%s\t%d\t%d", a.PID, a.Role, a.TransfersIn, a.TransfersOut,
		a.Reservations, free, a.CachedBlocks, a.Connections)
}

// LinkDetail is one link in paper and emulated units.
type LinkDetail struct {
	Link         string                  `json:"link"`
	Tier         int                     `json:"tier"`
	Rate         scenarios.BitsPerSecond `json:"rate_bits_per_second"`
	RateEmulated scenarios.BitsPerSecond `json:"rate_bits_per_second_emulated"`
	// Up is the port at the link's lower end, which sends up; Down is the one at the upper end.
	Up   PortDetail `json:"up"`
	Down PortDetail `json:"down"`
}

// PortDetail is the queue of a port, in emulated bytes.
type PortDetail struct {
	BurstBytes int `json:"burst_bytes"`
	// QueueBytes bounds the queue, or each of FlowQueues (0 means one first-in, first-out queue).
	QueueBytes int `json:"queue_bytes"`
	FlowQueues int `json:"flow_queues,omitempty"`
	MarkBytes  int `json:"mark_bytes,omitempty"`
}

func portDetail(s *fabric.Shape) PortDetail {
	return PortDetail{BurstBytes: s.BurstBytes, QueueBytes: s.LimitBytes, FlowQueues: s.FlowQueues, MarkBytes: s.MarkBytes}
}

// Text formats the port's queue for the text table.
func (p PortDetail) Text() string {
	text := scenarios.Bytes(p.QueueBytes).String()
	if p.FlowQueues > 0 {
		text = fmt.Sprintf("%d x %s", p.FlowQueues, text)
	}
	if p.MarkBytes > 0 {
		text += fmt.Sprintf(", marks from %s", scenarios.Bytes(p.MarkBytes))
	}
	return text
}

// Inspect describes a lab and what each agent holds. It takes no lock, so it works during a run.
func Inspect(ctx context.Context, name string, opt Options) (*Detail, error) {
	info, st, c, err := look(ctx, name, opt)
	d := &Detail{Info: info, Nodes: []NodeDetail{}, Links: []LinkDetail{}}
	if err != nil || st == nil {
		return d, err
	}
	plan := c.Plan
	d.Scale = plan.Scale
	for i := range plan.Nodes {
		n := &plan.Nodes[i]
		nd := NodeDetail{Node: n.Name, Namespace: name + "." + n.Name, Addresses: []string{}}
		for _, a := range n.Addrs {
			nd.Addresses = append(nd.Addresses, a.String())
		}
		if i := slices.IndexFunc(st.Agents, func(a nodes.Agent) bool { return a.Node == n.Name }); i >= 0 {
			nd.Agent = askAgent(ctx, st.Agents[i])
		}
		d.Nodes = append(d.Nodes, nd)
	}
	for i := range plan.Links {
		l := &plan.Links[i]
		d.Links = append(d.Links, LinkDetail{
			Link: plan.LinkName(fabric.Hop{Link: l.ID}), Tier: l.Tier, Rate: l.Rate, RateEmulated: l.RateEmulated,
			Up: portDetail(&l.A.Shape), Down: portDetail(&l.B.Shape),
		})
	}
	return d, nil
}

// askAgent asks an agent what it does, for at most five seconds: a lab may have many that do not
// answer.
func askAgent(ctx context.Context, a nodes.Agent) *AgentDetail {
	if alive, err := nodes.Alive(a); err == nil && !alive {
		return &AgentDetail{PID: a.PID, ID: a.ID, Error: "it is dead"}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var s *control.StatusResponse
	c, err := kvagent.Dial(ctx, a.Socket)
	if err == nil {
		defer func() { _ = c.Close() }() // only read; nothing can be lost
		s, err = c.Status(ctx)
	}
	if err != nil {
		return &AgentDetail{PID: a.PID, ID: a.ID, Error: err.Error()}
	}
	return &AgentDetail{
		PID: a.PID, ID: a.ID, Answers: true, Role: strings.ToLower(strings.TrimPrefix(s.GetRole().String(), "ROLE_")),
		TransfersIn: int(s.GetTransfersIn()), TransfersOut: int(s.GetTransfersOut()), Reservations: int(s.GetReservations()),
		FreeBytes: s.GetFreePaperBytes(), MemoryBytes: s.GetMemoryPaperBytes(), CachedBlocks: int(s.GetCachedBlocks()),
		Connections: int(s.GetConnections()), BytesIn: s.GetBytesIn(), BytesOut: s.GetBytesOut(),
		CongestionControl: s.GetCongestionControl(),
	}
}
