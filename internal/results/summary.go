package results

import (
	"cmp"
	"fmt"
	"slices"
)

const (
	sloMethod = "share of submitted requests that completed within every threshold; a failed request misses; " +
		"requests cut off by an interruption are left out"
	unitsMethod = "times in paper milliseconds (decision_us: wall-clock microseconds), bytes in paper units; " +
		"bytes_moved and keys ending in _emulated count this host's bytes"
	maxViolations = 10
)

// Summarize computes the summary of a run. It does not change the records, and
// their order does not matter. Records that break a law (Record.Check, or a
// request that occurs twice) are counted as they are, listed in Violations, and
// make the fidelity verdict invalid.
func Summarize(records []Record, meta Meta) *Summary {
	sorted := sortRecords(records)
	s := &Summary{
		Format: FormatVersion, Version: meta.Version, Scenario: meta.Scenario, Interrupted: meta.Interrupted,
		Seeds: slices.Clone(meta.Seeds), Scale: meta.Scale, Scaling: meta.Scaling, SLO: meta.SLO.milliseconds(),
		Fidelity: Fidelity{
			Verdict: meta.Fidelity.Verdict,
			Reasons: append([]string{}, meta.Fidelity.Reasons...), Notes: append([]string{}, meta.Fidelity.Notes...),
			Figures: meta.Fidelity.Figures,
		},
		Trials:   append([]Trial{}, meta.Trials...),
		Policies: policyOrder(sorted, meta.Policies), Worlds: map[string]map[string]*Group{},
		Methods: Methods{
			Percentile: percentileMethod, CI95: ciMethod, Gains: gainsMethod, SLO: sloMethod, Units: unitsMethod,
		},
	}
	if s.Seeds == nil {
		s.Seeds = []uint64{}
	}
	byGroup := map[groupKey][]*Record{}
	for _, r := range sorted {
		k := groupKey{r.World, r.Policy}
		byGroup[k] = append(byGroup[k], r)
	}
	for _, w := range worldOrder(sorted, meta.Worlds) {
		s.Worlds[w] = map[string]*Group{}
		for _, p := range s.Policies {
			s.Worlds[w][p] = summarizeGroup(byGroup[groupKey{w, p}], &meta)
		}
	}
	s.Gains = computeGains(byGroup, s, &meta)
	s.judge(sorted)
	return s
}

// groupKey is one row of the comparison.
type groupKey struct{ world, policy string }

// sortRecords returns the records by world, policy, seed and request, so that
// sums do not depend on the order they finished in.
func sortRecords(records []Record) []*Record {
	out := make([]*Record, len(records))
	for i := range records {
		out[i] = &records[i]
	}
	slices.SortStableFunc(out, func(a, b *Record) int {
		return cmp.Or(cmp.Compare(a.World, b.World), cmp.Compare(a.Policy, b.Policy),
			cmp.Compare(a.Seed, b.Seed), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// policyOrder returns the given labels, then those only records know, sorted.
func policyOrder(sorted []*Record, given []string) []string {
	return order(given, sorted, func(r *Record) string { return r.Policy })
}

func worldOrder(sorted []*Record, given []string) []string {
	return order(given, sorted, func(r *Record) string { return r.World })
}

func order(given []string, records []*Record, name func(*Record) string) []string {
	out := []string{}
	seen := map[string]bool{}
	for _, n := range given {
		if !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	known := len(out)
	for _, r := range records {
		if n := name(r); !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	slices.Sort(out[known:])
	return out
}

// judge lists broken laws and makes the verdict follow from them.
func (s *Summary) judge(sorted []*Record) {
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
		if i > 0 && sameRequest(sorted[i-1], r) {
			note(r.Key() + ": recorded twice")
		}
	}
	if s.ViolationCount > 0 {
		s.Fidelity.Verdict = VerdictInvalid
		s.Fidelity.Reasons = append(s.Fidelity.Reasons,
			fmt.Sprintf("%d records break a law of the records, the first: %s", s.ViolationCount, s.Violations[0]))
	}
	if s.Fidelity.Verdict == "" {
		s.Fidelity.Verdict = VerdictInvalid
		s.Fidelity.Reasons = append(s.Fidelity.Reasons, "the run ended before it was judged")
	}
}

func sameRequest(a, b *Record) bool {
	return a.World == b.World && a.Policy == b.Policy && a.Seed == b.Seed && a.ID == b.ID
}

// milliseconds renders the thresholds; 0 stays absent.
func (s SLO) milliseconds() SLOMS {
	var out SLOMS
	if s.TTFT > 0 {
		v := MS(s.TTFT)
		out.TTFTMS = &v
	}
	if s.TBT > 0 {
		v := MS(s.TBT)
		out.TBTMS = &v
	}
	return out
}

// attained reports whether a request met every threshold. A threshold of 0 is
// none; a one-token answer has no time between tokens to miss.
func (s SLO) attained(r *Record) bool {
	return r.Status == Completed && r.TTFTMS != nil &&
		(s.TTFT <= 0 || *r.TTFTMS <= MS(s.TTFT)) &&
		(s.TBT <= 0 || r.TBTMS == nil || *r.TBTMS <= MS(s.TBT))
}

// judged reports whether a request counts for the SLO: all do, save those
// without an engine and those that an interruption cut off.
func (m *Meta) judged(r *Record) bool {
	return r.HasEngine() && (!m.Interrupted || r.Status != Incomplete)
}
