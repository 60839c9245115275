package attribution

import (
	"math"
	"slices"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/results"
)

// metrics are those that add up: means of times.
var metrics = []string{results.MetricTTFT, results.MetricTransfer}

// Waterfalls computes the means of each policy and the gains of each (policy,
// baseline) pair. It is a pure function of what was added to the table.
func (t *Table) Waterfalls(policies []string, comparisons [][2]string) (means, gains []results.Waterfall) {
	means, gains = []results.Waterfall{}, []results.Waterfall{}
	c := t.columns()
	for _, p := range policies {
		for _, m := range metrics {
			w := results.Waterfall{Policy: p, Metric: m, Unit: "ms", NotCompared: t.packet[p]}
			fill(&w, c.chain(Stages(), m, p), c.again(m, p))
			means = append(means, w)
		}
	}
	for _, pair := range comparisons {
		p, b := pair[0], pair[1]
		for _, m := range metrics {
			w := results.Waterfall{Policy: p, Baseline: b, Metric: m, Unit: "pp", NotCompared: min(t.packet[p], t.packet[b])}
			fill(&w, c.chain(Stages(), m, p, b), c.again(m, p, b))
			gains = append(gains, w)
		}
	}
	return means, gains
}

// all lists the columns of the stages from and to and all between them.
func (s series) all(from, to int) []analysis.Column {
	if s.baseline == nil {
		return s.columns[from : to+1]
	}
	return slices.Concat(s.columns[from:to+1], s.baseline[from:to+1])
}

func (s series) gain(stage int) analysis.Gain {
	return analysis.Gain{Policy: s.columns[stage], Baseline: s.baseline[stage]}
}

// level is the value of a stage.
func (s series) level(keys []analysis.Key, stage int) (float64, bool) {
	if s.baseline == nil {
		return s.columns[stage].Mean(keys), true
	}
	return s.gain(stage).Percent(keys)
}

// step is the difference between two stages on the same requests.
func (s series) step(keys []analysis.Key, from, to int) (analysis.Estimate, bool) {
	if s.baseline == nil {
		return analysis.Difference(keys, s.columns[to], s.columns[from]), true
	}
	return analysis.GainDifference(keys, s.gain(to), s.gain(from))
}

// fill computes a waterfall. again is the flow stage once more, with other tie-break draws.
func fill(w *results.Waterfall, s series, again []series) {
	w.Levels, w.Steps = []results.Level{}, []results.Step{}
	stages := Stages()
	last := len(stages) - 1
	keys := analysis.Common(s.all(0, last)...)
	w.Requests = len(keys)
	w.NotCompared -= w.Requests
	if len(keys) == 0 {
		w.Reason = "no request completed in every stage"
		return
	}
	for i, stage := range stages {
		value, ok := s.level(keys, i)
		if !ok {
			w.Reason = "the baseline's mean is 0 in stage " + string(stage)
			w.Levels, w.Steps = []results.Level{}, []results.Step{}
			return
		}
		w.Levels = append(w.Levels, results.Level{Stage: string(stage), Value: value})
		if i == 0 {
			continue
		}
		e, _ := s.step(keys, i-1, i) // both levels are defined
		step := results.Step{
			Name: stepName[stage], From: string(stages[i-1]), To: string(stage),
			Value: e.Value, CI95: e.CI95, CIMethod: e.Method, CIN: e.N,
		}
		s.wide(&step, i, keys, again)
		w.Steps = append(w.Steps, step)
	}
	whole, _ := s.step(keys, 0, last)
	gap, _ := s.step(keys, flowStage, last)
	w.Whole, w.WholeCI95 = &whole.Value, whole.CI95
	w.Gap, w.GapCI95 = &gap.Value, gap.CI95
}

// flowStage is where StageFlow stands in the chain.
const flowStage = 3

// wide adds what more runs of the flow world say about a step.
func (s series) wide(step *results.Step, to int, packetKeys []analysis.Key, again []series) {
	var e analysis.Estimate
	var ok bool
	switch stage := Stages()[to]; {
	case flowOnly(stage):
		e, ok = s.step(analysis.Common(s.all(to-1, to)...), to-1, to)
	case stage == StageDecisions:
		e, ok = s.againstRedraws(packetKeys, to, again)
	}
	if ok {
		step.Wide, step.WideCI95 = &e.Value, e.CI95
	}
}

// againstRedraws is a stage minus the mean of runs that differ in nothing but tie-break
// draws. The interval is where one more of those would lie in 95%: decisions outside
// it are not what the flow world might have taken as well.
func (s series) againstRedraws(keys []analysis.Key, stage int, again []series) (analysis.Estimate, bool) {
	for _, a := range again {
		keys = analysis.Within(keys, a.all(0, 0)...)
	}
	value, ok := s.level(keys, stage)
	if !ok || len(again) < 2 || len(keys) == 0 {
		return analysis.Estimate{}, false
	}
	levels := make([]float64, len(again))
	sum := 0.0
	for i, a := range again {
		if levels[i], ok = a.level(keys, 0); !ok {
			return analysis.Estimate{}, false
		}
		sum += value - levels[i] // not of levels: equal runs differ by 0 to the bit
	}
	n := float64(len(levels))
	_, half := analysis.Mean(levels)
	half *= math.Sqrt(n + 1)
	return analysis.Estimate{Value: sum / n, CI95: &half, N: len(levels)}, true
}
