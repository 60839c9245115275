package trials

import (
	"fmt"
	"slices"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/controller"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/workload"
)

// Endpoints lists the nodes that explicit flows may name, in index order.
func Endpoints(p *fabric.Plan) []fabric.NodeID {
	var ids []fabric.NodeID
	for i := range p.Nodes {
		if p.Nodes[i].Kind == fabric.KindInstance {
			ids = append(ids, p.Nodes[i].ID)
		}
	}
	return ids
}

// flows builds the driver of explicit transfers. If a flow names a path, all its streams
// use the slot of that path; otherwise each stream draws its slot.
func (c *Cluster) flows(t Trial, flows []workload.FlowRequest) (*controller.Flows, error) {
	s, p := c.Scenario, c.Plan
	ids := Endpoints(p)
	index := make(map[string]int, len(ids))
	for i, id := range ids {
		index[p.Nodes[id].Name] = i
	}
	specs := make([]controller.FlowSpec, len(flows))
	for i := range flows {
		f := &flows[i]
		from, ok := index[f.From]
		to, ok2 := index[f.To]
		if !ok || !ok2 {
			return nil, fmt.Errorf("flow %d: %s to %s: no such instance in %s", i, f.From, f.To, s.Name)
		}
		slots, err := slots(p, ids[from], ids[to], f, s.Transfer.Streams)
		if err != nil {
			return nil, fmt.Errorf("flow %d: %w", i, err)
		}
		specs[i] = controller.FlowSpec{
			ID: f.ID, Start: f.Start, From: from, To: to, Tier: p.Tier(ids[from], ids[to]), Bytes: int64(f.Bytes), Slots: slots,
		}
	}
	return c.Transfers(t, specs)
}

// Transfers builds the driver of a trial's transfers, which need not be in the scenario, such as
// those of a calibration. They name their ends by index in Endpoints.
func (c *Cluster) Transfers(t Trial, specs []controller.FlowSpec) (*controller.Flows, error) {
	return controller.NewFlows(controller.FlowsConfig{
		World: t.World, Seed: t.Seed, Flows: specs, Endpoints: Names(c.Plan, Endpoints(c.Plan)), RateScale: c.Plan.Scale.Rate,
		NICs: c.Scenario.Topology.NICsPerInstance, Drain: c.Scenario.Limits.Drain,
	})
}

func slots(p *fabric.Plan, from, to fabric.NodeID, f *workload.FlowRequest, streams int) ([]int, error) {
	paths := p.EqualCostPaths(from, to)
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s to %s: no path", f.From, f.To)
	}
	out := make([]int, streams)
	if len(f.Via) == 0 {
		for s := range out {
			out[s] = int(f.PathDraws[s] % uint64(len(paths)))
		}
		return out, nil
	}
	slot, err := p.SlotVia(from, to, f.Via)
	if err != nil {
		return nil, err
	}
	return slices.Repeat([]int{slot}, streams), nil
}

// NamePaths writes the nodes that each stream crossed into the records, from the
// slots that the records carry.
func NamePaths(p *fabric.Plan, records []results.Record) {
	known := map[[2]string][][]string{}
	for i := range records {
		r := &records[i]
		pair := [2]string{r.Prefill, r.Decode}
		names, ok := known[pair]
		if !ok && len(r.Streams) > 0 {
			from, fok := p.Lookup(r.Prefill)
			to, tok := p.Lookup(r.Decode)
			if fok && tok {
				for _, path := range p.EqualCostPaths(from, to) {
					names = append(names, p.PathNodes(path))
				}
			}
			known[pair] = names
		}
		for s := range r.Streams {
			if slot := r.Streams[s].Slot; slot >= 0 && slot < len(names) {
				r.Streams[s].Path = names[slot]
			}
		}
	}
}
