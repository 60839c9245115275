package results

import (
	"fmt"
	"slices"
)

const gainsMethod = "paired by seed and request. ttft_ms, transfer_ms: requests completed under both, 100 (sum policy / sum baseline - 1) %, " +
	"negative is faster; slo: requests judged under both, difference of attainment in percentage points, positive is better. " +
	"ci95 as above over the seeds' own gains; with one seed over 10 batches of paired requests in arrival order. " +
	"gap_pp = packet - flow = transport_pp (packet - replay) + decisions_pp (replay - flow), over the packet run's seeds alone: where the flow world ran " +
	"more, flow_paired_pct is its gain on those; gap_ci95 needs the same two or more seeds in both"

// pair is one request under both policies.
type pair struct{ policy, baseline float64 }

// effect is a gain in one world, before it is written into a Gain.
type effect struct {
	basis  GainBasis
	value  *float64
	ci     *float64
	bySeed map[uint64]float64
}

// computeGains compares the policies of a summary in every world.
func computeGains(byGroup map[groupKey][]*Record, s *Summary, meta *Meta) []Gain {
	gains := []Gain{}
	metrics := []string{MetricTransfer}
	for _, records := range byGroup {
		if slices.ContainsFunc(records, (*Record).HasEngine) {
			metrics = []string{MetricTTFT, MetricTransfer, MetricSLO}
		}
	}
	for _, c := range Comparisons(s.Policies, meta.Baselines) {
		for _, m := range metrics {
			g := Gain{Policy: c[0], Baseline: c[1], Metric: m, Unit: "%", Worlds: map[string]GainBasis{}}
			if m == MetricSLO {
				g.Unit = "pp"
			}
			effects := map[string]*effect{}
			for w := range s.Worlds {
				e := compare(byGroup[groupKey{w, c[0]}], byGroup[groupKey{w, c[1]}], m, meta)
				effects[w] = e
				g.Worlds[w] = e.basis
			}
			effects[pairedFlow] = onSeedsOf(effects[WorldPacket], effects[WorldFlow], func(keep func(*Record) bool) *effect {
				return compare(only(byGroup[groupKey{WorldFlow, c[0]}], keep), only(byGroup[groupKey{WorldFlow, c[1]}], keep), m, meta)
			})
			g.fill(effects)
			gains = append(gains, g)
		}
	}
	return gains
}

// pairedFlow is the flow world on the packet run's seeds, beside the worlds' own names.
const pairedFlow = "flow on the packet run's seeds"

// onSeedsOf computes the flow world's effect over the packet world's seeds alone: of
// other seeds, the difference would be a difference of workloads.
func onSeedsOf(packet, flow *effect, again func(keep func(*Record) bool) *effect) *effect {
	if packet == nil || flow == nil || len(packet.bySeed) == 0 {
		return flow
	}
	for seed := range flow.bySeed {
		if _, ok := packet.bySeed[seed]; !ok {
			return again(func(r *Record) bool { _, ok := packet.bySeed[r.Seed]; return ok })
		}
	}
	return flow
}

func only(records []*Record, keep func(*Record) bool) []*Record {
	out := make([]*Record, 0, len(records))
	for _, r := range records {
		if keep(r) {
			out = append(out, r)
		}
	}
	return out
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

// fill writes the worlds' effects into the gain's own keys, and what follows from them.
func (g *Gain) fill(effects map[string]*effect) {
	packet, flow, replay := effects[WorldPacket], effects[pairedFlow], effects[WorldReplay]
	if packet != nil {
		g.PacketPct, g.PacketCI95 = packet.value, packet.ci
	}
	if all := effects[WorldFlow]; all != nil {
		g.FlowPct, g.FlowCI95 = all.value, all.ci
		if flow != all {
			g.FlowPairedPct, g.FlowPairedCI95 = flow.value, flow.ci
		}
	} else {
		flow = &effect{}
	}
	if replay != nil {
		g.ReplayPct = replay.value
	}
	g.GapPP = minus(g.PacketPct, flow.value)
	g.TransportPP = minus(g.PacketPct, g.ReplayPct)
	g.DecisionsPP = minus(g.ReplayPct, flow.value)
	if g.GapPP != nil {
		g.GapCI95 = gapInterval(packet.bySeed, flow.bySeed)
	}
}

func minus(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	v := *a - *b
	return &v
}

// gapInterval is the interval of the seeds' own gaps, where both worlds have the same seeds.
func gapInterval(packet, flow map[uint64]float64) *float64 {
	if len(packet) != len(flow) {
		return nil
	}
	seeds := make([]uint64, 0, len(packet))
	for seed := range packet {
		if _, ok := flow[seed]; !ok {
			return nil
		}
		seeds = append(seeds, seed)
	}
	slices.Sort(seeds)
	gaps := make([]float64, len(seeds))
	for i, seed := range seeds {
		gaps[i] = packet[seed] - flow[seed]
	}
	if half, ok := HalfWidth(gaps); ok {
		return &half
	}
	return nil
}

// compare computes one metric's effect in one world.
func compare(policy, baseline []*Record, metric string, meta *Meta) *effect {
	e := &effect{bySeed: map[uint64]float64{}}
	e.basis.PolicyNotCompleted = notCompleted(policy)
	e.basis.BaselineNotCompleted = notCompleted(baseline)
	value := valueOf(metric, meta)
	seeds, pairs := pairUp(policy, baseline, value)
	all := slices.Concat(pairs...)
	e.basis.Pairs = len(all)
	if len(all) == 0 {
		e.basis.Reason = "no request completed under both policies"
		if metric == MetricSLO {
			e.basis.Reason = "no request was judged under both policies"
		}
		return e
	}
	base, relative := baselineMean(all), metric != MetricSLO
	if relative && base == 0 {
		e.basis.Reason = fmt.Sprintf("the baseline's mean %s is 0", metric)
		return e
	}
	total := change(all, base, relative)
	e.value = &total

	var parts []float64
	for i, seed := range seeds {
		own := baselineMean(pairs[i])
		if relative && own == 0 {
			continue
		}
		e.bySeed[seed] = change(pairs[i], own, relative)
		parts = append(parts, e.bySeed[seed])
	}
	method := methodSeeds
	if len(seeds) == 1 {
		method, parts = methodBatches, nil
		for _, b := range splitBatches(len(all)) {
			parts = append(parts, change(all[b[0]:b[1]], base, relative))
		}
	}
	if half, ok := HalfWidth(parts); ok {
		e.ci, e.basis.CIMethod, e.basis.CIN = &half, method, len(parts)
	}
	return e
}

// valueOf returns a metric's value of a record, and whether it has one.
func valueOf(metric string, meta *Meta) measure {
	completed := func(m measure) measure {
		return func(r *Record) (float64, bool) {
			if r.Status != Completed {
				return 0, false
			}
			return m(r)
		}
	}
	switch metric {
	case MetricTTFT:
		return completed(ttft)
	case MetricTransfer:
		return completed(transfer)
	default:
		return func(r *Record) (float64, bool) {
			if meta.SLO.attained(r) {
				return 1, meta.judged(r)
			}
			return 0, meta.judged(r)
		}
	}
}

// pairUp merges two sorted lists by seed and request, and groups the pairs by seed.
func pairUp(policy, baseline []*Record, value measure) (seeds []uint64, pairs [][]pair) {
	for i, j := 0, 0; i < len(policy) && j < len(baseline); {
		a, b := policy[i], baseline[j]
		switch {
		case a.Seed < b.Seed || a.Seed == b.Seed && a.ID < b.ID:
			i++
			continue
		case a.Seed != b.Seed || a.ID != b.ID:
			j++
			continue
		}
		i, j = i+1, j+1
		x, okX := value(a)
		y, okY := value(b)
		if !okX || !okY {
			continue
		}
		if len(seeds) == 0 || seeds[len(seeds)-1] != a.Seed {
			seeds, pairs = append(seeds, a.Seed), append(pairs, nil)
		}
		pairs[len(pairs)-1] = append(pairs[len(pairs)-1], pair{x, y})
	}
	return seeds, pairs
}

// change is the mean difference in percent of base, or in points.
func change(pairs []pair, base float64, relative bool) float64 {
	var diff float64
	for _, p := range pairs {
		diff += p.policy - p.baseline
	}
	diff *= 100 / float64(len(pairs))
	if relative {
		diff /= base
	}
	return diff
}

func baselineMean(pairs []pair) float64 {
	var sum float64
	for _, p := range pairs {
		sum += p.baseline
	}
	return sum / float64(len(pairs))
}

func notCompleted(records []*Record) int {
	n := 0
	for _, r := range records {
		if r.Status != Completed {
			n++
		}
	}
	return n
}
