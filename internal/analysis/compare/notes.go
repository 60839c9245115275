package compare

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/netkvlab/netkvlab/flowsim"
	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/results"
)

// differentRequests lists the seed and id pairs that name different requests in different
// sources. They must not be paired.
func differentRequests(sources []*Source) map[analysis.Key]bool {
	const roundingMS = 1e-6
	seen := map[analysis.Key]fingerprint{}
	out := map[analysis.Key]bool{}
	for _, s := range sources {
		for k, p := range s.prints {
			first, known := seen[k]
			if !known {
				seen[k] = p
			} else if first.tokens != p.tokens || math.Abs(first.arrivalMS-p.arrivalMS) > roundingMS {
				out[k] = true
			}
		}
	}
	return out
}

// notes lists what a reader of the figures must know.
func notes(sources []*Source, policies []string, different map[analysis.Key]bool, c *Comparison) []string {
	out := []string{}
	for i, s := range sources {
		out = append(out, s.condition(Letter(i))...)
	}
	for i, s := range sources[1:] {
		out = append(out, s.otherThan(sources[0], Letter(i+1))...)
	}
	for i, s := range sources {
		if others := missing(s.info.Policies, policies); others != nil {
			out = append(out, fmt.Sprintf("%s: not in all of them, and so left out: %s", Letter(i), strings.Join(others, ", ")))
		}
	}
	if n := len(different); n > 0 {
		out = append(out, fmt.Sprintf("%d pairs of seed and request name another request in another source (arrival or prompt differ); they are not paired", n))
	}
	return append(out, pairing(sources, c)...)
}

// condition returns the notes about one source.
func (s *Source) condition(letter string) []string {
	var out []string
	if s.run != nil {
		if s.run.Summary.Interrupted {
			out = append(out, letter+": was interrupted; its figures cover what had finished by then")
		}
		if f := s.run.Summary.Fidelity; s.info.World == results.WorldPacket && f.Verdict != results.VerdictGood {
			out = append(out, fmt.Sprintf("%s: fidelity %s: %s", letter, f.Verdict, strings.Join(f.Reasons, "; ")))
		}
	}
	if s.ignored != nil {
		out = append(out, fmt.Sprintf("%s: columns that mean nothing here: %s", letter, strings.Join(s.ignored, ", ")))
	}
	for _, p := range s.info.Policies {
		if n := s.requests[p] - s.completed[p]; n > 0 {
			out = append(out, fmt.Sprintf("%s: %s did not complete %d of %d requests, which are not compared", letter, p, n, s.requests[p]))
		}
	}
	return out
}

// otherThan returns the notes about differences from the first source.
func (s *Source) otherThan(first *Source, letter string) []string {
	var out []string
	if a, b := missing(first.info.Seeds, s.info.Seeds), missing(s.info.Seeds, first.info.Seeds); a != nil || b != nil {
		out = append(out, fmt.Sprintf("other seeds: only A has %s; only %s has %s", list(a), letter, list(b)))
	}
	if s.run == nil || first.run == nil {
		return out
	}
	if a, b := first.run.Summary, s.run.Summary; a.Version != b.Version {
		out = append(out, fmt.Sprintf("other versions: A was made by netkvlab %s, %s by %s", a.Version, letter, b.Version))
	}
	if first.payload != s.payload {
		alone := "A"
		if s.payload {
			alone = letter
		}
		out = append(out, fmt.Sprintf("%s was run without packets, so that its links carry payload at their full rate; packets, and a flow world beside them, carry frames: %.1f %% more",
			alone, 100*(flowsim.FullSegmentFraming-1)))
	}
	if keys := scenarioDiff(first.run, s.run); keys != nil {
		out = append(out, fmt.Sprintf("other scenarios (A, %s): %s", letter, strings.Join(keys, "; ")))
	}
	return out
}

// missing lists the elements of a that are not in b; nil if there are none.
func missing[T comparable](a, b []T) []T {
	var out []T
	for _, x := range a {
		if !slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}

// list names up to a few numbers.
func list(numbers []uint64) string {
	const most = 6
	if len(numbers) == 0 {
		return "none"
	}
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers[:min(most, len(numbers))]), " ", ", "), "[]")
	if more := len(numbers) - most; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// scenarioDiff lists the keys in which two resolved scenarios differ, with both values. Seeds
// and policies are left out, since they have their own notes.
func scenarioDiff(a, b *results.Run) []string {
	const most = 8
	x, y := flatten(a.Scenario), flatten(b.Scenario)
	if x == nil || y == nil { // a folder without its scenario: only the names can be compared
		x, y = map[string]string{"name": a.Summary.Scenario}, map[string]string{"name": b.Summary.Scenario}
	}
	keys := slices.Sorted(maps.Keys(x))
	for _, k := range slices.Sorted(maps.Keys(y)) {
		if _, ok := x[k]; !ok {
			keys = append(keys, k)
		}
	}
	var out []string
	more := 0
	for _, k := range keys {
		if x[k] == y[k] || k == "description" || k == "seeds" || k == "policies" {
			continue
		}
		if len(out) == most {
			more++
			continue
		}
		out = append(out, fmt.Sprintf("%s %s, %s", k, value(x, k), value(y, k)))
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("and %d more keys", more))
	}
	return out
}

func value(m map[string]string, k string) string {
	if v, ok := m[k]; ok {
		return v
	}
	return "(absent)"
}

// flatten reads a YAML document into dotted keys; nil where there is none.
func flatten(text []byte) map[string]string {
	var doc map[string]any
	if yaml.Unmarshal(text, &doc) != nil || doc == nil {
		return nil
	}
	out := map[string]string{}
	var walk func(prefix string, v any)
	walk = func(prefix string, v any) {
		m, ok := v.(map[string]any)
		if !ok {
			out[prefix] = fmt.Sprint(v)
			return
		}
		for k, inner := range m {
			walk(strings.TrimPrefix(prefix+"."+k, "."), inner)
		}
	}
	walk("", doc)
	return out
}

// pairing says which requests the rows use.
func pairing(sources []*Source, c *Comparison) []string {
	left := make([]int, len(sources))
	unpaired := 0
	for i := range c.Means {
		r := &c.Means[i]
		if r.Reason != "" {
			continue
		}
		if !r.Paired {
			unpaired++
			continue
		}
		for j, s := range sources {
			left[j] = max(left[j], len(s.columns[column{r.Policy, r.Metric}].Keys())-r.Values[j].Requests)
		}
	}
	var out []string
	for j, n := range left {
		if n > 0 {
			out = append(out, fmt.Sprintf("%s: up to %d completed requests a policy have no completed counterpart in all others and are left out", Letter(j), n))
		}
	}
	if unpaired > 0 {
		out = append(out, "no completed request is in all of them: each is over its own requests, and gaps are between independent runs, with wider intervals")
	}
	return out
}
