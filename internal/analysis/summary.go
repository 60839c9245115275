package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

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
		Seeds: append([]uint64{}, meta.Seeds...), Scale: meta.Scale, Scaling: meta.Scaling, SLO: milliseconds(meta.SLO),
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

// milliseconds renders the thresholds; 0 stays absent.
func milliseconds(slo results.SLO) results.SLOMS {
	var out results.SLOMS
	if slo.TTFT > 0 {
		out.TTFTMS = new(results.MS(slo.TTFT))
	}
	if slo.TBT > 0 {
		out.TBTMS = new(results.MS(slo.TBT))
	}
	return out
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
