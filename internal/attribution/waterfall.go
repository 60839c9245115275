package attribution

import (
	"github.com/netkvlab/netkvlab/internal/paired"
	"github.com/netkvlab/netkvlab/internal/results"
)

// metrics are those that add up: means of times.
var metrics = []string{results.MetricTTFT, results.MetricTransfer}

// Waterfalls computes the means of each policy and the gains of each (policy,
// baseline) pair. It is a pure function of what was added to the table.
func (t *Table) Waterfalls(policies []string, comparisons [][2]string) (means, gains []results.Waterfall) {
	means, gains = []results.Waterfall{}, []results.Waterfall{}
	for _, p := range policies {
		for _, m := range metrics {
			w := results.Waterfall{Policy: p, Metric: m, Unit: "ms", NotCompared: t.packet[p]}
			t.fill(&w, series{columns: t.chain(p, m)})
			means = append(means, w)
		}
	}
	for _, c := range comparisons {
		for _, m := range metrics {
			w := results.Waterfall{Policy: c[0], Baseline: c[1], Metric: m, Unit: "pp", NotCompared: min(t.packet[c[0]], t.packet[c[1]])}
			t.fill(&w, series{columns: t.chain(c[0], m), baseline: t.chain(c[1], m)})
			gains = append(gains, w)
		}
	}
	return means, gains
}

// series is what a waterfall follows through the stages: a policy's mean, or its gain
// over a baseline.
type series struct{ columns, baseline []paired.Column }

// common lists the requests that the stages from and to and all between them share.
func (s series) common(from, to int) []paired.Key {
	columns := s.columns[from : to+1]
	if s.baseline != nil {
		columns = append(append([]paired.Column{}, columns...), s.baseline[from:to+1]...)
	}
	return paired.Common(columns...)
}

func (s series) gain(stage int) paired.Gain {
	return paired.Gain{Policy: s.columns[stage], Baseline: s.baseline[stage]}
}

// level is the value of a stage.
func (s series) level(keys []paired.Key, stage int) (float64, bool) {
	if s.baseline == nil {
		return s.columns[stage].Mean(keys), true
	}
	return s.gain(stage).Percent(keys)
}

// step is the difference between two stages on the same requests.
func (s series) step(keys []paired.Key, from, to int) (paired.Estimate, bool) {
	if s.baseline == nil {
		return paired.Difference(keys, s.columns[to], s.columns[from]), true
	}
	return paired.GainDifference(keys, s.gain(to), s.gain(from))
}

// own is a stage's value with an interval for comparing it with other requests.
func (s series) own(keys []paired.Key, stage int) (paired.Estimate, bool) {
	if s.baseline == nil {
		return paired.Mean(keys, s.columns[stage]), true
	}
	return s.gain(stage).Alone(keys)
}

func (t *Table) fill(w *results.Waterfall, s series) {
	w.Levels, w.Steps = []results.Level{}, []results.Step{}
	stages := Stages()
	last := len(stages) - 1
	keys := s.common(0, last)
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
		s.wide(&step, i, keys)
		w.Steps = append(w.Steps, step)
	}
	whole, _ := s.step(keys, 0, last)
	gap, _ := s.step(keys, flowStage, last)
	w.Whole, w.WholeCI95 = &whole.Value, whole.CI95
	w.Gap, w.GapCI95 = &gap.Value, gap.CI95
}

// flowStage is where StageFlow stands in the chain.
const flowStage = 3

// wide adds what all seeds of the flow world say about a step.
func (s series) wide(step *results.Step, to int, packetKeys []paired.Key) {
	var e paired.Estimate
	switch stage := Stages()[to]; {
	case flowOnly(stage):
		keys := s.common(to-1, to)
		var ok bool
		if e, ok = s.step(keys, to-1, to); !ok {
			return
		}
	case stage == StageDecisions:
		b, okB := s.own(packetKeys, to)
		a, okA := s.own(s.common(to-1, to-1), to-1)
		if !okA || !okB {
			return
		}
		e = paired.Independent(b, a)
	default:
		return
	}
	step.Wide, step.WideCI95 = &e.Value, e.CI95
}
