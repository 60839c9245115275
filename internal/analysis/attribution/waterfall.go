package attribution

import (
	"math"
	"slices"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/results"
)

// metrics are the metrics whose steps add up: means of times.
var metrics = []string{results.MetricTTFT, results.MetricTransfer}

// Waterfalls computes the means of each policy and the gains of each (policy, baseline) pair. It
// is a pure function of the records in the table.
func (t *Table) Waterfalls(policies []string, comparisons [][2]string) (means, gains []results.Waterfall) {
	means, gains = []results.Waterfall{}, []results.Waterfall{}
	c := t.columns()
	for _, p := range policies {
		for _, m := range metrics {
			w := results.Waterfall{Policy: p, Metric: m, NotCompared: t.packet[p]}
			c.fill(&w)
			means = append(means, w)
		}
	}
	for _, pair := range comparisons {
		for _, m := range metrics {
			w := results.Waterfall{Policy: pair[0], Baseline: pair[1], Metric: m, NotCompared: min(t.packet[pair[0]], t.packet[pair[1]])}
			c.fill(&w)
			gains = append(gains, w)
		}
	}
	return means, gains
}

// fill computes a waterfall.
func (c columns) fill(w *results.Waterfall) {
	chain := c.chain(Stages(), w.Metric, w.Policy, w.Baseline)
	again := c.again(w.Metric, w.Policy, w.Baseline)
	w.Levels, w.Steps = []results.Level{}, []results.Step{}
	stages := Stages()
	last := len(stages) - 1
	w.Unit = string(chain[0].Unit.OfDifference())
	keys := analysis.Requests(chain...)
	w.Requests = len(keys)
	w.NotCompared -= w.Requests
	if len(keys) == 0 {
		w.Reason = "no request completed in every stage"
		return
	}
	for i, stage := range stages {
		value, ok := chain[i].Value(keys)
		if !ok {
			w.Reason = "the baseline's mean is 0 in stage " + string(stage)
			w.Levels, w.Steps = []results.Level{}, []results.Step{}
			return
		}
		w.Levels = append(w.Levels, results.Level{Stage: string(stage), Value: value})
		if i == 0 {
			continue
		}
		e, _ := chain[i].Minus(chain[i-1], keys) // both levels are defined
		step := results.Step{
			Name: stepName[stage], From: string(stages[i-1]), To: string(stage),
			Value: e.Value, CI95: e.CI95, CIMethod: e.Method, CIN: e.N,
		}
		switch {
		case flowOnly(stage):
			e, ok = chain[i].Minus(chain[i-1], analysis.Requests(chain[i-1], chain[i]))
		case stage == StageDecisions:
			e, ok = againstRedraws(chain, i, again)
		default:
			ok = false
		}
		if ok {
			step.Wide, step.WideCI95 = &e.Value, e.CI95
		}
		w.Steps = append(w.Steps, step)
	}
	whole, _ := chain[last].Minus(chain[0], keys)
	gap, _ := chain[last].Minus(chain[flowStage], keys)
	w.Whole, w.WholeCI95 = &whole.Value, whole.CI95
	w.Gap, w.GapCI95 = &gap.Value, gap.CI95
}

// splitTransport splits the transport step of each waterfall by class of transfer.
func (t *Table) splitTransport(waterfalls []results.Waterfall, all []classified) {
	classOf := map[string]map[analysis.Key]string{} // by policy
	for i := range all {
		c := &all[i]
		if classOf[c.policy] == nil {
			classOf[c.policy] = map[analysis.Key]string{}
		}
		classOf[c.policy][c.key] = c.class
	}
	columns, last := t.columns(), len(Stages())-1
	for i := range waterfalls {
		w := &waterfalls[i]
		if w.Reason != "" {
			continue
		}
		chain := columns.chain(Stages(), w.Metric, w.Policy, w.Baseline)
		keys := analysis.Requests(chain...)
		packet, replay := chain[last], chain[last-1]
		parts := byClass(keys, packet.Policy, replay.Policy, classOf[w.Policy])
		if w.Baseline != "" {
			parts = pointsByClass(keys, packet, replay, parts, byClass(keys, packet.Baseline, replay.Baseline, classOf[w.Baseline]))
		}
		for _, class := range Classes() {
			if value, ok := parts[class]; ok {
				w.Steps[last-1].Classes = append(w.Steps[last-1].Classes, results.ClassPart{Class: class, Value: value})
			}
		}
	}
}

// byClass splits the difference of the means of packet and replay. A request that moved
// nothing has no class and no difference.
func byClass(keys []analysis.Key, packet, replay analysis.Column, classOf map[analysis.Key]string) map[string]float64 {
	parts := map[string]float64{}
	of := replay.At(keys)
	for i, ms := range packet.At(keys) {
		parts[classOf[keys[i]]] += (ms - of[i]) / float64(len(keys))
	}
	return parts
}

// pointsByClass splits the difference of two gains, P/B in packets minus p/b in the replay, into
// the parts of P - p and B - b. With ratio r = p/b it is (P - p - r (B - b)) / B.
func pointsByClass(keys []analysis.Key, packet, replay analysis.Figure, policy, baseline map[string]float64) map[string]float64 {
	mean := func(c analysis.Column) float64 { m, _ := analysis.Mean(c.At(keys)); return m }
	ratio, base := mean(replay.Policy)/mean(replay.Baseline), mean(packet.Baseline)
	parts := map[string]float64{}
	for class, ms := range policy {
		parts[class] += 100 * ms / base
	}
	for class, ms := range baseline {
		parts[class] -= 100 * ratio * ms / base
	}
	return parts
}

// flowStage is the index of StageFlow in the chain.
const flowStage = 3

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
