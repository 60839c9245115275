package packetworld

import (
	"fmt"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/flowsim"
	"github.com/netkvlab/netkvlab/internal/fidelity/telemetry"
)

// counters polls every port and returns the counters in the order of telemetry.Ports: for
// each link the direction from A to B, then from B to A.
func (w *World) counters() ([]telemetry.Counters, error) {
	polled, err := w.lab.Fabric.Counters()
	if err != nil {
		return nil, fmt.Errorf("poll the emulated ports: %w", err)
	}
	plan := w.cluster.Plan
	out := make([]telemetry.Counters, 2*len(plan.Links))
	for i := range polled {
		c := &polled[i]
		port := plan.Ports[c.Node][c.Port]
		k := flowsim.HopLink(plan.HopOf(port)) // the order of telemetry.Ports, too
		out[k] = telemetry.Counters{At: c.At, Bytes: c.Bytes, OthersBytes: c.Bytes, Drops: c.Drops, Marks: c.Marks, Backlog: c.BacklogBytes}
		switch {
		case port.Shape.Classes:
			out[k].OthersBytes = c.Background.Bytes + c.Other.Bytes
		case plan.Classes && plan.Nodes[c.Node].Kind == fabric.KindInstance:
			out[k].OthersBytes = 0 // all that an instance sends belongs to transfers; no traffic class is needed
		}
	}
	return out, nil
}

// own returns the bytes that each port carried for the transfers between two polls; -1
// where other traffic cannot be separated.
func (w *World) own(before, after []telemetry.Counters) []int64 {
	ports := telemetry.Ports(w.cluster.Plan)
	out := make([]int64, len(after))
	for i := range after {
		total := int64(after[i].Bytes - before[i].Bytes)
		switch {
		case w.cluster.Plan.Egress(ports[i].Hop).Shape.Classes:
			out[i] = total - int64(after[i].OthersBytes-before[i].OthersBytes)
		case w.cluster.Scenario.Background.Enabled():
			out[i] = -1
		default:
			out[i] = total
		}
	}
	return out
}
