package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/netkvlab/netkvlab/internal/results"
)

const maxViolations = 10

// Summarize computes the summary of a run. It does not change the records, and their order does
// not matter. Records that break a law (Record.Check, or a request that occurs twice) are still
// counted, are listed in Violations, and make the fidelity verdict invalid.
func Summarize(records []results.Record, meta results.Meta) *results.Summary {
	sorted := sortRecords(records)
	s := &results.Summary{
		Format: results.FormatVersion, Version: meta.Version, Scenario: meta.Scenario, Interrupted: meta.Interrupted,
		Seeds: append([]uint64{}, meta.Seeds...), Scale: meta.Scale, Scaling: meta.Scaling,
		SLO: results.SLOMS{ // a threshold of 0 stays absent
			TTFTMS: optional(meta.SLO.TTFT > 0, results.MS(meta.SLO.TTFT)), TBTMS: optional(meta.SLO.TBT > 0, results.MS(meta.SLO.TBT)),
		},
		Fidelity: results.Fidelity{
			Verdict: meta.Fidelity.Verdict,
			Reasons: append([]string{}, meta.Fidelity.Reasons...), Notes: append([]string{}, meta.Fidelity.Notes...),
			Figures: meta.Fidelity.Figures,
		},
		Trials:   append([]results.Trial{}, meta.Trials...),
		Policies: order(meta.Policies, sorted, func(r *results.Record) string { return r.Policy }), Worlds: map[string]map[string]*results.Group{},
		Methods: methods(),
	}
	type group struct{ world, policy string }
	byGroup := map[group][]*results.Record{}
	for _, r := range sorted {
		k := group{r.World, r.Policy}
		byGroup[k] = append(byGroup[k], r)
	}
	for _, w := range order(meta.Worlds, sorted, func(r *results.Record) string { return r.World }) {
		s.Worlds[w] = map[string]*results.Group{}
		for _, p := range s.Policies {
			s.Worlds[w][p] = summarizeGroup(byGroup[group{w, p}], &meta)
		}
	}
	s.Gains = computeGains(sorted, s, &meta)
	judge(s, sorted)
	return s
}

// sortRecords returns the records by world, policy, seed and request, so that sums do not depend
// on the order in which they finished.
func sortRecords(records []results.Record) []*results.Record {
	out := make([]*results.Record, len(records))
	for i := range records {
		out[i] = &records[i]
	}
	slices.SortStableFunc(out, compare)
	return out
}

func compare(a, b *results.Record) int {
	return cmp.Or(cmp.Compare(a.World, b.World), cmp.Compare(a.Policy, b.Policy), keyOf(a).compare(keyOf(b)))
}

func keyOf(r *results.Record) Key { return Key{r.Seed, r.ID} }

// order returns the given names, then those that only records know, sorted.
func order(given []string, records []*results.Record, name func(*results.Record) string) []string {
	known := map[string]bool{}
	for _, r := range records {
		known[name(r)] = true
	}
	out := []string{}
	for _, n := range slices.Concat(given, slices.Sorted(maps.Keys(known))) {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// judge lists broken laws and sets the verdict accordingly.
func judge(s *results.Summary, sorted []*results.Record) {
	note := func(text string) {
		s.ViolationCount++
		if len(s.Violations) < maxViolations {
			s.Violations = append(s.Violations, text)
		}
	}
	for i, r := range sorted {
		if err := r.Check(); err != nil {
			note(err.Error())
		}
		if i > 0 && compare(sorted[i-1], r) == 0 {
			note(r.Key() + ": recorded twice")
		}
	}
	if s.ViolationCount > 0 {
		s.Fidelity.Verdict = results.VerdictInvalid
		s.Fidelity.Reasons = append(s.Fidelity.Reasons,
			fmt.Sprintf("%d records break a law of the records, the first: %s", s.ViolationCount, s.Violations[0]))
	}
	if s.Fidelity.Verdict == "" {
		s.Fidelity.Verdict = results.VerdictInvalid
		s.Fidelity.Reasons = append(s.Fidelity.Reasons, "the run ended before it was judged")
	}
}

// summarizeGroup computes the figures of one policy in one world. The records
// are sorted by seed and request.
func summarizeGroup(records []*results.Record, meta *results.Meta) *results.Group {
	g := &results.Group{PeakTransfersIntoOne: peakTransfersInto(records)}
	var met, all, hit, prompt int
	var tiers [4]int
	for _, r := range records {
		count(g, r)
		if judged(meta, r) {
			all++
			if attained(&meta.SLO, r) {
				met++
			}
		}
		if r.Status != results.Completed {
			continue
		}
		if r.HasEngine() {
			hit, prompt = hit+r.HitTokens, prompt+r.PromptTokens
		}
		if r.Tier >= 0 && r.Tier < len(tiers) {
			tiers[r.Tier]++
			g.Transfers++
		}
	}
	g.SLOAttainment = optional(all > 0, float64(met)/float64(all))
	g.HitShare = optional(prompt > 0, float64(hit)/float64(prompt))
	if g.Transfers > 0 {
		g.TierShare = map[string]float64{} // with all tiers, so that the shares sum to 1
		for t, n := range tiers {
			g.TierShare[strconv.Itoa(t)] = float64(n) / float64(g.Transfers)
		}
	}
	g.TTFT = describe(records, func(r *results.Record) *float64 { return r.TTFTMS })
	g.TBT = describe(records, func(r *results.Record) *float64 { return r.TBTMS })
	// A transfer that moved nothing, since the whole prompt was cached, counts with its time of 0: it was saved.
	g.Transfer = describe(records, func(r *results.Record) *float64 { return &r.TransferMS })
	g.Queue = describe(records, func(r *results.Record) *float64 { return optional(r.HasEngine(), r.PrefillWaitMS+r.DecodeWaitMS) })
	g.Prefill = describe(records, func(r *results.Record) *float64 { return optional(r.HasEngine(), r.PrefillMS) })
	// Absent where nothing was decided or decisions were not timed.
	g.Decision = describe(records, func(r *results.Record) *float64 { return optional(r.DecisionUS > 0, r.DecisionUS) })
	switch {
	case len(records) == 0:
		g.Reason = "no request was submitted"
	case g.Requests.Completed == 0:
		g.Reason = "no request completed"
	}
	return g
}

// optional is nil where a value is not known.
func optional(known bool, value float64) *float64 {
	if !known {
		return nil
	}
	return &value
}

// count adds one record to the counters.
func count(g *results.Group, r *results.Record) {
	g.Requests.Submitted++
	switch r.Status {
	case results.Completed:
		g.Requests.Completed++
	case results.Failed:
		g.Requests.Failed++
	default: // all others did not end
		g.Requests.Incomplete++
	}
	if r.Status != results.Completed && r.Reason != "" {
		if g.FailureReasons == nil {
			g.FailureReasons = map[string]int{}
		}
		g.FailureReasons[r.Reason]++
	}
	g.BytesMoved += r.MovedBytesEmulated
	g.PayloadBytes += r.PayloadBytes
	g.PayloadBytesEmulated += r.PayloadBytesEmulated
	g.WastedBytesEmulated += r.WastedBytesEmulated
	g.Retransmits += int64(r.Retransmits)
}

// describe summarises a figure of the completed records that have it; nil when none has.
func describe(records []*results.Record, of func(*results.Record) *float64) *results.Stats {
	var keys []Key
	var values []float64
	for _, r := range records {
		if r.Status != results.Completed {
			continue
		}
		if v := of(r); v != nil {
			keys, values = append(keys, keyOf(r)), append(values, *v)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	e := estimate(mean(values), keys, values, seedsAlone)
	slices.Sort(values)
	return &results.Stats{
		N: len(values), Mean: e.Value, CI95: e.CI95, CIMethod: e.Method, CIN: e.N,
		Min: values[0], P50: Percentile(values, 50), P90: Percentile(values, 90), P99: Percentile(values, 99), Max: values[len(values)-1],
	}
}

// attained reports whether a request met every threshold. A threshold of 0 is no threshold. An
// answer of one token has no time between tokens, so it cannot miss that threshold.
func attained(slo *results.SLO, r *results.Record) bool {
	return r.Status == results.Completed && r.TTFTMS != nil &&
		(slo.TTFT <= 0 || *r.TTFTMS <= results.MS(slo.TTFT)) &&
		(slo.TBT <= 0 || r.TBTMS == nil || *r.TBTMS <= results.MS(slo.TBT))
}

// judged reports whether a request counts for the SLO: all do, except those without an engine
// and those that an interruption cut off.
func judged(meta *results.Meta, r *results.Record) bool {
	return r.HasEngine() && (!meta.Interrupted || r.Status != results.Incomplete)
}

// peakTransfersInto is the largest number of transfers into one decode instance at once, over
// all seeds. It shows when decisions crowd on one instance, because of old state or equal views.
// Transfers that moved nothing or never completed do not count. A transfer that starts in the
// nanosecond in which another ends does not overlap it.
func peakTransfersInto(records []*results.Record) int {
	type target struct {
		seed   uint64
		decode string
	}
	type edge struct {
		at int64 // ns since the trial's start
		by int   // 1 where a transfer starts, -1 where it ends
	}
	edges := map[target][]edge{}
	nanoseconds := func(ms float64) int64 { return int64(math.Round(ms * 1e6)) }
	for _, r := range records {
		from, to := nanoseconds(r.TransferStartMS), nanoseconds(r.TransferEndMS())
		if r.Decode != "" && r.PayloadBytes != 0 && r.TransferMS > 0 && to > from {
			k := target{r.Seed, r.Decode}
			edges[k] = append(edges[k], edge{from, 1}, edge{to, -1})
		}
	}
	peak := 0
	for _, e := range edges {
		slices.SortFunc(e, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
		n := 0
		for _, x := range e {
			n += x.by
			peak = max(peak, n)
		}
	}
	return peak
}

// methods names the definitions behind the figures.
func methods() results.Methods {
	return results.Methods{
		Percentile: "linear interpolation between closest ranks: p at position (n-1)p/100 of the sorted values (numpy's default)",
		CI95: fmt.Sprintf("half width of the 95%% interval of the mean by Student's t; seeds-t: over the means of the seeds (%d seeds or more); "+
			"batch-means-t: one seed, over the means of %d equal batches of requests in arrival order (%d values or more); absent with less",
			seedsAlone, Batches, 2*Batches),
		Gains: fmt.Sprintf("paired by seed and request. ttft_ms, transfer_ms: requests completed under both, 100 (sum policy / sum baseline - 1) %%, "+
			"negative is faster; slo: requests judged under both, difference of attainment in percentage points, positive is better. "+
			"ci95 as above over the seeds' own gains; with one seed over %d batches of paired requests in arrival order. "+
			"gap_pp = packet - flow = transport_pp (packet - replay) + decisions_pp (replay - flow), over the packet run's seeds alone: where the flow world ran "+
			"more, flow_paired_pct is its gain on those; gap_ci95 needs the same two or more seeds in both", Batches),
		SLO: "share of submitted requests that completed within every threshold; a failed request misses; " +
			"requests cut off by an interruption are left out",
		Units: "times in paper milliseconds (decision_us: wall-clock microseconds), bytes in paper units; " +
			"bytes_moved and keys ending in _emulated count this host's bytes",
	}
}
