package analysis

import (
	"fmt"
	"slices"

	"github.com/netkvlab/netkvlab/internal/results"
)

// computeGains compares the policies of a summary in every world.
func computeGains(records []*results.Record, s *results.Summary, meta *results.Meta) []results.Gain {
	metrics := []string{results.MetricTransfer}
	t := Table{}
	for _, r := range records {
		set := func(metric string, value *float64) { t.Set(Cell{r.World, r.Policy, metric}, keyOf(r), value) }
		if r.Status == results.Completed {
			set(results.MetricTTFT, r.TTFTMS)
			set(results.MetricTransfer, &r.TransferMS)
		}
		if judged(meta, r) {
			met := 0.0
			if attained(&meta.SLO, r) {
				met = 1
			}
			set(results.MetricSLO, &met)
		}
		if r.HasEngine() {
			metrics = []string{results.MetricTTFT, results.MetricTransfer, results.MetricSLO}
		}
	}
	gains := []results.Gain{}
	for _, c := range Comparisons(s.Policies, nil) {
		for _, m := range metrics {
			unit := Percent
			if m == results.MetricSLO {
				unit = Points
			}
			g := results.Gain{Policy: c[0], Baseline: c[1], Metric: m, Unit: string(unit), Worlds: map[string]results.GainBasis{}}
			effects := map[string]*effect{}
			for w, groups := range s.Worlds {
				gain := t.Figure(Cell{w, c[0], m}, c[1])
				gain.Unit = unit
				e := gain.effect(Requests(gain))
				effects[w] = e
				policy, baseline := groups[c[0]].Requests, groups[c[1]].Requests
				g.Worlds[w] = results.GainBasis{
					Pairs: len(e.keys), PolicyNotCompleted: policy.Submitted - policy.Completed,
					BaselineNotCompleted: baseline.Submitted - baseline.Completed,
					CIMethod:             e.Method, CIN: e.N, Reason: e.reason(m),
				}
			}
			fill(&g, effects)
			gains = append(gains, g)
		}
	}
	return gains
}

// Comparisons lists (policy, baseline) pairs in the order of the policies: each policy
// against each one listed before it, or against the baselines named.
func Comparisons(policies, baselines []string) [][2]string {
	var out [][2]string
	for i, p := range policies {
		against := policies[:i]
		if len(baselines) > 0 {
			against = baselines
		}
		for _, b := range against {
			if b != p && slices.Contains(policies, b) {
				out = append(out, [2]string{p, b})
			}
		}
	}
	return out
}

// effect is a gain over some requests, with each seed's own gain.
type effect struct {
	Estimate
	gain    Figure
	keys    []Key
	defined bool
	// ofSeed holds the gain of each of seeds, which are those whose gain is defined.
	seeds  []uint64
	ofSeed []float64
}

// effect computes the gain. Its interval is from the seeds' gains, or from a single seed's
// batches.
func (f Figure) effect(keys []Key) *effect {
	e := &effect{gain: f, keys: keys}
	if e.Value, e.defined = f.Value(keys); !e.defined {
		return e
	}
	all := f.on(keys)
	for _, r := range seedRuns(keys) {
		p := all.part(r)
		if base := p.base(); base != 0 {
			e.seeds, e.ofSeed = append(e.seeds, keys[r.from].Seed), append(e.ofSeed, p.value(base))
		}
	}
	parts := e.ofSeed
	runs, method := cut(keys, seedsAlone)
	if method == MethodBatches {
		parts = nil
		for _, r := range runs {
			parts = append(parts, all.part(r).value(all.base()))
		}
	}
	e.Estimate = interval(e.Value, parts, method)
	return e
}

// value is nil where there is none.
func (e *effect) value() *float64 {
	if e == nil || !e.defined {
		return nil
	}
	return &e.Value
}

// reason says why the value is missing.
func (e *effect) reason(metric string) string {
	switch {
	case e.defined:
		return ""
	case len(e.keys) > 0:
		return fmt.Sprintf("the baseline's mean %s is 0", metric)
	case e.gain.Unit == Points:
		return "no request was judged under both policies"
	}
	return "no request completed under both policies"
}

// onSeedsOf returns the effect over only the seeds of other, since with other seeds the
// workloads would differ too. If it has no further seeds, it returns the effect itself.
func (e *effect) onSeedsOf(other *effect) *effect {
	if e == nil || other == nil || len(other.seeds) == 0 {
		return e
	}
	further := func(seed uint64) bool { return !slices.Contains(other.seeds, seed) }
	if !slices.ContainsFunc(e.seeds, further) {
		return e
	}
	return e.gain.effect(slices.DeleteFunc(slices.Clone(e.keys), func(k Key) bool { return further(k.Seed) }))
}

// fill writes the effect of each world and the values computed from them into the gain.
func fill(g *results.Gain, effects map[string]*effect) {
	packet, all, replay := effects[results.WorldPacket], effects[results.WorldFlow], effects[results.WorldReplay]
	flow := all.onSeedsOf(packet)
	if packet != nil {
		g.PacketPct, g.PacketCI95 = packet.value(), packet.CI95
	}
	if all != nil {
		g.FlowPct, g.FlowCI95 = all.value(), all.CI95
	}
	if flow != all {
		g.FlowPairedPct, g.FlowPairedCI95 = flow.value(), flow.CI95
	}
	g.ReplayPct = replay.value()
	g.GapPP = minus(g.PacketPct, flow.value())
	g.TransportPP = minus(g.PacketPct, g.ReplayPct)
	g.DecisionsPP = minus(g.ReplayPct, flow.value())
	if g.GapPP != nil {
		g.GapCI95 = gapInterval(packet, flow)
	}
}

// gapInterval is the interval of the gaps per seed, where both worlds have the same seeds.
func gapInterval(packet, flow *effect) *float64 {
	if !slices.Equal(packet.seeds, flow.seeds) {
		return nil
	}
	gaps := slices.Clone(packet.ofSeed)
	for i, gain := range flow.ofSeed {
		gaps[i] -= gain
	}
	return interval(0, gaps, MethodSeeds).CI95
}

func minus(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	return new(*a - *b)
}
