package lab

import (
	"context"
	"fmt"
	"strings"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/kvagent"
	"github.com/netkvlab/netkvlab/kvagent/control"
	"github.com/netkvlab/netkvlab/nodes"
	"github.com/netkvlab/netkvlab/scenarios"
)

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
	agents := map[string]nodes.Agent{}
	for _, a := range st.Agents {
		agents[a.Node] = a
	}
	for i := range plan.Nodes {
		n := &plan.Nodes[i]
		nd := NodeDetail{Node: n.Name, Namespace: name + "." + n.Name, Addresses: []string{}}
		for _, a := range n.Addrs {
			nd.Addresses = append(nd.Addresses, a.String())
		}
		if a, ok := agents[n.Name]; ok {
			nd.Agent = askAgent(ctx, a)
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

func askAgent(ctx context.Context, a nodes.Agent) *AgentDetail {
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
