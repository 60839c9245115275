package attribution

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/results"
)

// Explain splits the gap by cause. records are the run's, of all three worlds, in any order;
// those of the flow world may have more seeds than the packet world's. It makes the other runs
// of the chain itself, on all CPUs. When the context ends it returns the context's error.
func Explain(ctx context.Context, e *Experiment, records []results.Record, comparisons [][2]string) (*results.Attribution, error) {
	var t Table
	byWorld := map[string][]results.Record{}
	for i := range records {
		byWorld[records[i].World] = append(byWorld[records[i].World], records[i])
	}
	t.Add(StageFlow, byWorld[results.WorldFlow])
	t.Add(StageReplay, byWorld[results.WorldReplay])
	t.Add(StagePacket, byWorld[results.WorldPacket])
	packet := split(byWorld[results.WorldPacket])
	jobs, wide, err := e.jobs(packet, slices.Sorted(maps.Keys(t.wide)))
	if err != nil {
		return nil, fmt.Errorf("attribute the gap: %w", err)
	}
	if err := e.run(ctx, jobs, &t); err != nil {
		return nil, fmt.Errorf("attribute the gap: %w", err)
	}
	labels := e.Cluster.Labels()
	a := &results.Attribution{
		Seeds: append([]uint64{}, slices.Sorted(maps.Keys(t.seeds))...), WideSeeds: len(wide), Methods: methods + redrawsMethod(jobs),
	}
	a.Means, a.Gains = t.Waterfalls(labels, comparisons)
	a.Decisions = countDecisions(labels, byWorld[results.WorldPacket], byWorld[results.WorldFlow])
	all, err := classifyAll(ctx, e.Flow.Config, byWorld[results.WorldPacket], byWorld[results.WorldReplay])
	if err != nil {
		return nil, fmt.Errorf("classify transfers: %w", err)
	}
	a.Transport, a.Alone = classes(labels, all, byWorld[results.WorldPacket]), checkAlone(all)
	t.splitTransport(a.Means, all)
	t.splitTransport(a.Gains, all)
	return a, nil
}

// trial is the records of one policy and seed, by request.
type trial struct {
	policy  string
	seed    uint64
	records []results.Record
}

// split groups records by policy and seed, sorted.
func split(records []results.Record) []trial {
	sorted := slices.Clone(records)
	slices.SortStableFunc(sorted, func(a, b results.Record) int { return compareRecords(&a, &b) })
	var out []trial
	for i := range sorted {
		r := &sorted[i]
		if n := len(out); n == 0 || out[n-1].policy != r.Policy || out[n-1].seed != r.Seed {
			out = append(out, trial{policy: r.Policy, seed: r.Seed})
		}
		last := &out[len(out)-1]
		last.records = append(last.records, *r)
	}
	return out
}

func compareRecords(a, b *results.Record) int {
	return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Seed, b.Seed), cmp.Compare(a.ID, b.ID))
}

// countDecisions compares the decode instances request by request.
func countDecisions(labels []string, packet, flow []results.Record) []results.DecisionCount {
	type key struct {
		policy string
		analysis.Key
	}
	keyOf := func(r *results.Record) key { return key{r.Policy, analysis.Key{Seed: r.Seed, ID: r.ID}} }
	chosen := make(map[key]string, len(flow))
	for i := range flow {
		chosen[keyOf(&flow[i])] = flow[i].Decode
	}
	out := make([]results.DecisionCount, len(labels))
	for i, label := range labels {
		c := &out[i]
		c.Policy = label
		for j := range packet {
			r := &packet[j]
			other := chosen[keyOf(r)]
			if r.Policy != label || r.Decode == "" || other == "" {
				continue
			}
			c.Requests++
			if r.Decode == other {
				continue
			}
			c.Different++
			if first, ok := c.FirstDifferent[r.Seed]; !ok || r.ID < first {
				if c.FirstDifferent == nil {
					c.FirstDifferent = map[uint64]int{}
				}
				c.FirstDifferent[r.Seed] = r.ID
			}
		}
	}
	return out
}
