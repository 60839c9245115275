package fabric

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

var kindNames = []string{"instance", "background", "tor", "agg", "core"}

// String is the kind's name as in JSON.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// MarshalText writes the kind's name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

var roleNames = []string{"none", "prefill", "decode"}

// String is the role's name as in JSON.
func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return fmt.Sprintf("role(%d)", uint8(r))
}

// MarshalText writes the role's name.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// lines describes the plan in plan order, one part per line.
func (p *Plan) lines() []string {
	out := []string{fmt.Sprintf("lab %s: scale.rate %v, scale.time %v, %d nodes, %d links, classes %v (kv dscp %d, background dscp %d)",
		p.Lab, p.Scale.Rate, p.Scale.Time, len(p.Nodes), len(p.Links), p.Classes, p.KVDSCP, p.BackgroundDSCP)}
	for i := range p.Nodes {
		out = append(out, p.nodeLines(&p.Nodes[i])...)
	}
	for i := range p.Links {
		l := &p.Links[i]
		out = append(out, fmt.Sprintf("link %s: tier %d, %d bit/s emulated as %d", p.LinkName(Hop{Link: l.ID}), l.Tier, l.Rate, l.RateEmulated))
	}
	return out
}

func (p *Plan) nodeLines(n *Node) []string {
	where := fmt.Sprintf("node %s: %s", n.Name, n.Kind)
	if n.Role != RoleNone {
		where += ", " + n.Role.String()
	}
	if len(n.Addrs) > 0 {
		where += fmt.Sprintf(", addresses %v", n.Addrs)
	}
	if n.IsSwitch() {
		where += fmt.Sprintf(", hash seed %d", n.HashSeed)
	}
	out := []string{where}
	for _, port := range p.Ports[n.ID] {
		s := port.Shape
		line := fmt.Sprintf("node %s port %s: %s, rate %d bit/s, burst %d, limit %d", n.Name, port.Name, port.Addr, s.Rate, s.BurstBytes, s.LimitBytes)
		if port.GSOMaxSegs > 0 {
			line += fmt.Sprintf(", gso_max_segs %d", port.GSOMaxSegs)
		}
		if s.FlowQueues > 0 {
			line += fmt.Sprintf(" for each of %d queues of flows, served %d bytes in turn", s.FlowQueues, s.QuantumBytes)
		}
		if s.MarkBytes > 0 {
			line += fmt.Sprintf(", marks from %d", s.MarkBytes)
		}
		if s.Delay > 0 {
			line += fmt.Sprintf(", delay %v", s.Delay)
		}
		if s.Classes {
			line += fmt.Sprintf(", classes kv %d, background %d, other %d", s.KVRate, s.BackgroundRate, s.OtherRate)
		}
		out = append(out, line)
	}
	for _, r := range n.Routes {
		out = append(out, fmt.Sprintf("node %s route %s", n.Name, p.routeText(n.ID, r)))
	}
	for _, r := range n.Rules {
		out = append(out, fmt.Sprintf("node %s rule from %s table %d", n.Name, r.From, r.Table))
	}
	return out
}

func (p *Plan) routeText(node NodeID, r Route) string {
	var b strings.Builder
	b.WriteString(r.Dst.String())
	for _, nh := range r.NextHops {
		fmt.Fprintf(&b, " via %s dev %s", nh.Via, p.Ports[node][nh.Port].Name)
	}
	if r.Src.IsValid() {
		fmt.Fprintf(&b, " src %s", r.Src)
	}
	if r.Table != 0 {
		fmt.Fprintf(&b, " table %d", r.Table)
	}
	return b.String()
}

// String describes the whole plan, one part per line; equal plans give equal text.
func (p *Plan) String() string { return strings.Join(p.lines(), "\n") + "\n" }

// Diff lists what differs: lines of the plan that only p has, marked "-", and
// lines that only q has, marked "+", each in plan order. It is empty for equal plans.
func (p *Plan) Diff(q *Plan) []string {
	a, b := p.lines(), q.lines()
	only := func(mark string, of, other []string) (out []string) {
		known := make(map[string]bool, len(other))
		for _, l := range other {
			known[l] = true
		}
		for _, l := range of {
			if !known[l] {
				out = append(out, mark+" "+l)
			}
		}
		return out
	}
	return append(only("-", a, b), only("+", b, a)...)
}

// Equal reports whether two plans describe the same fabric.
func (p *Plan) Equal(q *Plan) bool { return slices.Equal(p.lines(), q.lines()) }

// MarshalJSON writes the plan's fields in a fixed order, so that equal plans
// give equal bytes. Empty lists are [], not null.
func (p *Plan) MarshalJSON() ([]byte, error) {
	type plain Plan // without this method
	c := plain(*p)
	for _, list := range []*[]NodeID{&c.Prefill, &c.Decode, &c.Background} {
		if *list == nil {
			*list = []NodeID{}
		}
	}
	return json.Marshal(&c)
}
