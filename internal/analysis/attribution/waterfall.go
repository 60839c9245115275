package attribution

import (
	"math"

	"github.com/netkvlab/netkvlab/internal/analysis"
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
			t.fill(&w, series{columns: t.chain(p, m)}, t.again(m, p))
			means = append(means, w)
		}
	}
	for _, c := range comparisons {
		for _, m := range metrics {
			w := results.Waterfall{Policy: c[0], Baseline: c[1], Metric: m, Unit: "pp", NotCompared: min(t.packet[c[0]], t.packet[c[1]])}
			t.fill(&w, series{columns: t.chain(c[0], m), baseline: t.chain(c[1], m)}, t.again(m, c[0], c[1]))
			gains = append(gains, w)
		}
	}
	return means, gains
}

// series is what a waterfall follows through the stages: a policy's mean, or its gain
// over a baseline.
type series struct{ columns, baseline []analysis.Column }

// common lists the requests that the stages from and to and all between them share.
func (s series) common(from, to int) []analysis.Key {
	columns := s.columns[from : to+1]
	if s.baseline != nil {
		columns = append(append([]analysis.Column{}, columns...), s.baseline[from:to+1]...)
	}
	return analysis.Common(columns...)
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

// fill computes a waterfall. again is the flow stage once more, with other luck.
func (t *Table) fill(w *results.Waterfall, s series, again []series) {
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
		e, ok = s.step(s.common(to-1, to), to-1, to)
	case stage == StageDecisions:
		e, ok = s.againstLuck(packetKeys, to, again)
	}
	if ok {
		step.Wide, step.WideCI95 = &e.Value, e.CI95
	}
}

// againstLuck is a stage minus the mean of runs that differ in nothing but luck. The
// interval is where one more of those would lie in 95%: decisions outside it are
// not what the flow world might have taken as well.
func (s series) againstLuck(keys []analysis.Key, stage int, again []series) (analysis.Estimate, bool) {
	for _, a := range again {
		keys = both(keys, a.common(0, 0))
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
	half, _ := results.HalfWidth(levels)
	half *= math.Sqrt(n + 1)
	return analysis.Estimate{Value: sum / n, CI95: &half, N: len(levels)}, true
}

// both lists what is in both of two sorted lists.
func both(a, b []analysis.Key) []analysis.Key {
	var out []analysis.Key
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch c := analysis.Compare(a[i], b[j]); {
		case c == 0:
			out = append(out, a[i])
			i, j = i+1, j+1
		case c < 0:
			i++
		default:
			j++
		}
	}
	return out
}
