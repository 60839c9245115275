package attribution

import (
	"math"

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
			t.fill(&w, t.again(m, p))
			means = append(means, w)
		}
	}
	for _, c := range comparisons {
		for _, m := range metrics {
			w := results.Waterfall{Policy: c[0], Baseline: c[1], Metric: m, Unit: "pp", NotCompared: min(t.packet[c[0]], t.packet[c[1]])}
			t.fill(&w, t.again(m, c[0], c[1]))
			gains = append(gains, w)
		}
	}
	return means, gains
}

// series is what a waterfall follows through the stages: a policy's mean, or its gain
// over a baseline.
type series struct{ columns, baseline []paired.Column }

func (t *Table) series(w *results.Waterfall) series {
	s := series{columns: t.chain(w.Policy, w.Metric)}
	if w.Baseline != "" {
		s.baseline = t.chain(w.Baseline, w.Metric)
	}
	return s
}

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

// fill computes a waterfall. again is the flow stage once more, with other luck.
func (t *Table) fill(w *results.Waterfall, again []series) {
	s := t.series(w)
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

// splitTransport splits the transport step of each waterfall by class of transfer.
func (t *Table) splitTransport(waterfalls []results.Waterfall, all []classified) {
	classOf := map[string]map[paired.Key]string{} // by policy
	for i := range all {
		c := &all[i]
		if classOf[c.policy] == nil {
			classOf[c.policy] = map[paired.Key]string{}
		}
		classOf[c.policy][c.key] = c.class
	}
	last := len(Stages()) - 1
	for i := range waterfalls {
		w := &waterfalls[i]
		if w.Reason != "" {
			continue
		}
		s := t.series(w)
		keys := s.common(0, last)
		parts := byClass(keys, s.columns[last], s.columns[last-1], classOf[w.Policy])
		if s.baseline != nil {
			parts = pointsByClass(keys, s, parts, byClass(keys, s.baseline[last], s.baseline[last-1], classOf[w.Baseline]))
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
func byClass(keys []paired.Key, packet, replay paired.Column, classOf map[paired.Key]string) map[string]float64 {
	parts := map[string]float64{}
	for _, k := range keys {
		parts[classOf[k]] += (packet[k] - replay[k]) / float64(len(keys))
	}
	return parts
}

// pointsByClass splits the difference of two gains, P/B in packets minus p/b in the replay,
// by the parts of P - p and B - b. With ratio r = p/b it is (P - p - r (B - b)) / B.
func pointsByClass(keys []paired.Key, s series, policy, baseline map[string]float64) map[string]float64 {
	last := len(s.columns) - 1
	ratio := s.columns[last-1].Mean(keys) / s.baseline[last-1].Mean(keys)
	base := s.baseline[last].Mean(keys)
	parts := map[string]float64{}
	for class, ms := range policy {
		parts[class] += 100 * ms / base
	}
	for class, ms := range baseline {
		parts[class] -= 100 * ratio * ms / base
	}
	return parts
}

// flowStage is where StageFlow stands in the chain.
const flowStage = 3

// wide adds what more runs of the flow world say about a step.
func (s series) wide(step *results.Step, to int, packetKeys []paired.Key, again []series) {
	var e paired.Estimate
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
func (s series) againstLuck(keys []paired.Key, stage int, again []series) (paired.Estimate, bool) {
	for _, a := range again {
		keys = both(keys, a.common(0, 0))
	}
	value, ok := s.level(keys, stage)
	if !ok || len(again) < 2 || len(keys) == 0 {
		return paired.Estimate{}, false
	}
	levels := make([]float64, len(again))
	sum := 0.0
	for i, a := range again {
		if levels[i], ok = a.level(keys, 0); !ok {
			return paired.Estimate{}, false
		}
		sum += value - levels[i] // not of levels: equal runs differ by 0 to the bit
	}
	n := float64(len(levels))
	half, _ := results.HalfWidth(levels)
	half *= math.Sqrt(n + 1)
	return paired.Estimate{Value: sum / n, CI95: &half, N: len(levels)}, true
}

// both lists what is in both of two sorted lists.
func both(a, b []paired.Key) []paired.Key {
	var out []paired.Key
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch c := paired.Compare(a[i], b[j]); {
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
