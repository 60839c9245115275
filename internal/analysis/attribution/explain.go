package attribution

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
)

// Explain splits the gap by cause. flow is the flow world that matches the packet run, records are
// the run's, of all three worlds, in any order, and transfers those of the packet run (Classify).
// The flow world may have more seeds than the packet world. Explain makes the other runs of the
// chain itself, on all CPUs. When the context ends it returns the context's error.
func Explain(
	ctx context.Context, flow trials.Flow, records []results.Record, transfers []Transfer, comparisons [][2]string,
) (*results.Attribution, error) {
	x := &explanation{table: analysis.Table{}, requests: map[string]int{}, class: map[request]string{}}
	byWorld := map[string][]results.Record{}
	for i := range records {
		w := records[i].World
		byWorld[w] = append(byWorld[w], records[i])
	}
	for world, of := range byWorld {
		add(x.table, world, of)
	}
	packet, flowRecords := byWorld[results.WorldPacket], byWorld[results.WorldFlow]
	for i := range packet {
		x.requests[packet[i].Policy]++
	}
	for i := range transfers {
		x.class[transfers[i].request] = transfers[i].class
	}
	jobs, wide, err := makeJobs(flow.Cluster, split(packet), seeds(flowRecords))
	if err == nil {
		err = run(ctx, flow, jobs, x.table)
	}
	if err != nil {
		return nil, fmt.Errorf("attribute the gap: %w", err)
	}
	labels := flow.Cluster.Labels()
	alone := make([][2]string, len(labels))
	for i, label := range labels {
		alone[i][0] = label
	}
	return &results.Attribution{
		Seeds: seeds(packet), WideSeeds: len(wide), Means: x.waterfalls(alone), Gains: x.waterfalls(comparisons),
		Decisions: countDecisions(labels, packet, flowRecords),
		Transport: Transport(labels, transfers, packet), Alone: CheckAlone(transfers), Methods: methods + redrawsMethod(jobs),
	}, nil
}

// seeds lists the seeds of records, sorted.
func seeds(records []results.Record) []uint64 {
	of := map[uint64]bool{}
	for i := range records {
		of[records[i].Seed] = true
	}
	return append([]uint64{}, slices.Sorted(maps.Keys(of))...)
}

// add adds a stage's records to a table, in any order. Requests that did not complete do not count.
func add(t analysis.Table, stage string, records []results.Record) {
	for i := range records {
		if r := &records[i]; r.Status == results.Completed {
			t.Set(analysis.Cell{Run: stage, Policy: r.Policy, Metric: results.MetricTTFT}, requestOf(r).Key, r.TTFTMS)
			t.Set(analysis.Cell{Run: stage, Policy: r.Policy, Metric: results.MetricTransfer}, requestOf(r).Key, &r.TransferMS)
		}
	}
}

// request names a request under one policy.
type request struct {
	policy string
	analysis.Key
}

func requestOf(r *results.Record) request {
	return request{r.Policy, analysis.Key{Seed: r.Seed, ID: r.ID}}
}

// trial is the records of one policy and seed, by request.
type trial struct {
	policy  string
	seed    uint64
	records []results.Record
}

// split groups records by policy and seed, sorted.
func split(records []results.Record) []trial {
	sorted := slices.SortedStableFunc(slices.Values(records), func(a, b results.Record) int {
		return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Seed, b.Seed), cmp.Compare(a.ID, b.ID))
	})
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

// countDecisions compares the decode instances request by request.
func countDecisions(labels []string, packet, flow []results.Record) []results.DecisionCount {
	chosen := make(map[request]string, len(flow))
	for i := range flow {
		chosen[requestOf(&flow[i])] = flow[i].Decode
	}
	out := make([]results.DecisionCount, len(labels))
	for i, label := range labels {
		out[i].Policy = label
	}
	for i := range packet {
		r := &packet[i]
		other, at := chosen[requestOf(r)], slices.Index(labels, r.Policy)
		if at < 0 || r.Decode == "" || other == "" {
			continue
		}
		c := &out[at]
		c.Requests++
		if r.Decode == other {
			continue
		}
		c.Different++
		if c.FirstDifferent == nil {
			c.FirstDifferent = map[uint64]int{}
		}
		if first, ok := c.FirstDifferent[r.Seed]; !ok || r.ID < first {
			c.FirstDifferent[r.Seed] = r.ID
		}
	}
	return out
}

// explanation holds what waterfalls are computed from.
type explanation struct {
	table    analysis.Table // by stage
	requests map[string]int // of the packet run, by policy
	class    map[request]string
}

// waterfalls computes the means of policies, or the gains of (policy, baseline) pairs.
func (x *explanation) waterfalls(pairs [][2]string) []results.Waterfall {
	out := []results.Waterfall{}
	for _, pair := range pairs {
		requests := x.requests[pair[0]]
		if pair[1] != "" {
			requests = min(requests, x.requests[pair[1]])
		}
		for _, metric := range analysis.Times() {
			w := results.Waterfall{
				Policy: pair[0], Baseline: pair[1], Metric: metric, NotCompared: requests,
				Levels: []results.Level{}, Steps: []results.Step{},
			}
			x.fill(&w)
			out = append(out, w)
		}
	}
	return out
}

// follow follows a waterfall's figure through stages.
func (x *explanation) follow(w *results.Waterfall, stages ...string) []analysis.Figure {
	out := make([]analysis.Figure, len(stages))
	for i, stage := range stages {
		out[i] = x.table.Figure(analysis.Cell{Run: stage, Policy: w.Policy, Metric: w.Metric}, w.Baseline)
	}
	return out
}

// again returns the figure in the runs with other tie-break draws, up to the first run in which
// nothing completed or that was not made.
func (x *explanation) again(w *results.Waterfall) []analysis.Figure {
	var out []analysis.Figure
	for k := range redraws {
		one := x.follow(w, stageAgain(k))
		if len(analysis.Requests(one...)) == 0 {
			break
		}
		out = append(out, one...)
	}
	return out
}

// fill computes a waterfall.
func (x *explanation) fill(w *results.Waterfall) {
	names := stages()
	chain := x.follow(w, names...)
	keys := analysis.Requests(chain...)
	w.Unit = string(chain[0].Unit.OfDifference())
	w.Requests = len(keys)
	w.NotCompared -= w.Requests
	if len(keys) == 0 {
		w.Reason = "no request completed in every stage"
		return
	}
	for i, stage := range names {
		value, ok := chain[i].Value(keys)
		if !ok {
			w.Reason = "the baseline's mean is 0 in stage " + stage
			w.Levels, w.Steps = []results.Level{}, []results.Step{}
			return
		}
		w.Levels = append(w.Levels, results.Level{Stage: stage, Value: value})
		if i > 0 {
			w.Steps = append(w.Steps, x.step(w, chain, i, keys))
		}
	}
	first, flow, packet := chain[0], chain[slices.Index(names, stageFlow)], chain[len(chain)-1]
	whole, _ := packet.Minus(first, keys)
	gap, _ := packet.Minus(flow, keys)
	w.Whole, w.WholeCI95, w.Gap, w.GapCI95 = &whole.Value, whole.CI95, &gap.Value, gap.CI95
}

// step is the step that ends at the i-th stage. Both of its levels are defined.
func (x *explanation) step(w *results.Waterfall, chain []analysis.Figure, i int, keys []analysis.Key) results.Step {
	from, to := chain[i-1], chain[i]
	e, _ := to.Minus(from, keys)
	s := results.Step{From: stages()[i-1], To: stages()[i], Value: e.Value, CI95: e.CI95, CIMethod: e.Method, CIN: e.N}
	s.Name = steps[s.To]
	var wide bool
	switch s.To {
	case stagePacket:
		s.Classes = x.classes(w, from, to, keys)
	case stageDecisions:
		e, wide = againstRedraws(chain, i, x.again(w))
	case stageRandom, stageFraming, stageFlow: // these need no packet run, and were made on all seeds
		e, wide = to.Minus(from, analysis.Requests(from, to))
	}
	if wide {
		s.Wide, s.WideCI95 = &e.Value, e.CI95
	}
	return s
}

// classes splits the transport step by class of transfer. The difference of two gains, P/B in
// packets minus p/b in the replay, is split into the parts of P - p and B - b. With ratio
// r = p/b it is (P - p - r (B - b)) / B.
func (x *explanation) classes(w *results.Waterfall, replay, packet analysis.Figure, keys []analysis.Key) []results.ClassPart {
	parts := map[string]float64{}
	// split adds the scaled difference of two means. A request that moved nothing has no class and no difference.
	split := func(policy string, replay, packet analysis.Column, scaled func(ms float64) float64) {
		of := map[string]float64{}
		for _, k := range keys {
			of[x.class[request{policy, k}]] += (packet[k] - replay[k]) / float64(len(keys))
		}
		for class, ms := range of {
			parts[class] += scaled(ms)
		}
	}
	if w.Baseline == "" {
		split(w.Policy, replay.Policy, packet.Policy, func(ms float64) float64 { return ms })
	} else {
		mean := func(c analysis.Column) float64 {
			m, _ := analysis.Figure{Unit: analysis.MS, Policy: c}.Value(keys)
			return m
		}
		ratio, base := mean(replay.Policy)/mean(replay.Baseline), mean(packet.Baseline)
		split(w.Policy, replay.Policy, packet.Policy, func(ms float64) float64 { return 100 * ms / base })
		split(w.Baseline, replay.Baseline, packet.Baseline, func(ms float64) float64 { return -100 * ratio * ms / base })
	}
	var out []results.ClassPart
	for _, class := range Classes() {
		if value, ok := parts[class]; ok {
			out = append(out, results.ClassPart{Class: class, Value: value})
		}
	}
	return out
}

// againstRedraws is a stage minus the mean of runs that differ only in tie-break draws. One more
// such run would lie in the interval in 95% of cases. Decisions outside of it differ from the
// flow world's by more than chance.
func againstRedraws(chain []analysis.Figure, stage int, again []analysis.Figure) (analysis.Estimate, bool) {
	keys := analysis.Requests(slices.Concat(chain, again)...)
	value, ok := chain[stage].Value(keys)
	if !ok || len(again) < 2 {
		return analysis.Estimate{}, false
	}
	levels := make([]float64, len(again))
	sum := 0.0
	for i, a := range again {
		if levels[i], ok = a.Value(keys); !ok {
			return analysis.Estimate{}, false
		}
		sum += value - levels[i] // not a sum of levels, so that equal runs differ by exactly 0
	}
	n := float64(len(levels))
	_, half := analysis.Mean(levels)
	half *= math.Sqrt(n + 1)
	return analysis.Estimate{Value: sum / n, CI95: &half, N: len(levels)}, true
}
