package experiment

import (
	"fmt"

	"github.com/netkvlab/netkvlab/internal/telemetry"
)

// counters polls every port and gives the figures in the order of telemetry.Ports:
// each link's direction away from A, then the one back.
func (r *run) counters() ([]telemetry.Counters, error) {
	polled, err := r.lab.Fabric.Counters()
	if err != nil {
		return nil, fmt.Errorf("poll the emulated ports: %w", err)
	}
	plan := r.plan
	out := make([]telemetry.Counters, 2*len(plan.Links))
	for i := range polled {
		c := &polled[i]
		port := plan.Ports[c.Node][c.Port]
		hop := plan.HopOf(port)
		k := 2 * int(hop.Link)
		if hop.Reverse {
			k++
		}
		out[k] = telemetry.Counters{At: c.At, Bytes: c.Bytes, OthersBytes: c.Bytes, Drops: c.Drops, Marks: c.Marks, Backlog: c.BacklogBytes}
		if port.Shape.Classes {
			out[k].OthersBytes = c.Background.Bytes + c.Other.Bytes
		}
	}
	return out, nil
}

// own is what of two polls' difference each port carried for the transfers; nil where
// other traffic cannot be told from it.
func (r *run) own(before, after []telemetry.Counters) []uint64 {
	if !r.plan.Classes && r.opt.Scenario.Background.Enabled() {
		return nil
	}
	ports := telemetry.Ports(r.plan)
	out := make([]uint64, len(after))
	for i := range after {
		out[i] = after[i].Bytes - before[i].Bytes
		if shapeOf(r.plan, ports[i].Hop).Classes {
			out[i] -= after[i].OthersBytes - before[i].OthersBytes
		}
	}
	return out
}
