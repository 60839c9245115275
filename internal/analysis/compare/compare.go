// Package compare compares runs: two or more run folders, the worlds of one folder, or a run
// folder and another simulator's results in a CSV file.
//
// It computes each policy's mean and each gain over a baseline in every source, and how far the
// other sources are from the first. It pairs requests wherever the sources have the same ones.
// Comparison.Notes lists what limits the comparison: other scenarios, seeds, policies or
// requests, failures, and verdicts that are not good. Nothing is left out without a note.
//
// Times are paper milliseconds. Results depend only on the sources, not on the order of their
// records. Start reading at Load and Compare; docs/compare.md is for users.
package compare

import (
	"errors"
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

// Comparison is what `netkvlab compare --output json` prints.
type Comparison struct {
	Sources []SourceInfo `json:"sources"`
	// Means has one row per policy and metric, Gains one per comparison and metric.
	Means []Row `json:"means"`
	Gains []Row `json:"gains"`
	// Notes say what limits the comparison; empty when nothing does.
	Notes []string `json:"notes"`
}

// SourceInfo describes a source.
type SourceInfo struct {
	Name      string   `json:"name"`               // as given
	World     string   `json:"world,omitempty"`    // of a run folder
	Scenario  string   `json:"scenario,omitempty"` // of a run folder
	Verdict   string   `json:"verdict,omitempty"`  // of a run folder's packet world
	Policies  []string `json:"policies"`
	Seeds     []uint64 `json:"seeds"`
	Requests  int      `json:"requests"` // records: all policies, all seeds
	Completed int      `json:"completed"`
}

// Row compares one figure.
type Row struct {
	Policy   string `json:"policy"`
	Baseline string `json:"baseline,omitempty"` // of a gain
	Metric   string `json:"metric"`             // ttft_ms | transfer_ms
	Unit     string `json:"unit"`               // of Values: ms, or % where negative is faster
	// Paired says that all sources are compared over the same requests. If they have none in
	// common, each uses its own and the gaps are between independent runs.
	Paired bool `json:"paired"`
	// Values has one value per source. Gaps, in ms or percentage points, has one per source after
	// the first: that source minus the first.
	Values []Value `json:"values"`
	Gaps   []Value `json:"gaps"`
	Reason string  `json:"reason,omitempty"` // why there are no figures
}

// Value is a figure with the half width of its 95% interval.
type Value struct {
	Value    float64  `json:"value"`
	CI95     *float64 `json:"ci95,omitempty"`
	CIMethod string   `json:"ci95_method,omitempty"`
	CIN      int      `json:"ci95_n,omitempty"`
	Requests int      `json:"requests"` // the figure is over these
}

var (
	errTooFew   = errors.New("nothing to compare with: name at least two runs, or two worlds of one (RUN and RUN:flow)")
	errNoPolicy = errors.New("no policy is in all of them")
)

// Compare compares two or more sources. Gains are computed over the named baselines; without any,
// each policy is compared with each one before it in the first source. It fails if the sources
// have no policy in common, and on an unknown baseline.
func Compare(sources []*Source, baselines ...string) (*Comparison, error) {
	if len(sources) < 2 {
		return nil, errTooFew
	}
	policies := shared(sources)
	if len(policies) == 0 {
		var have []string
		for _, s := range sources {
			have = append(have, fmt.Sprintf("%s has %s", s.Label(), strings.Join(s.info.Policies, ", ")))
		}
		return nil, fmt.Errorf("%w: %s", errNoPolicy, strings.Join(have, "; "))
	}
	for _, b := range baselines {
		if !slices.Contains(policies, b) {
			return nil, fmt.Errorf("baseline %s is not in all of them; these are: %s", b, strings.Join(policies, ", "))
		}
	}
	different := differentRequests(sources)
	rows := func(pairs [][2]string) []Row {
		out := []Row{}
		for _, pair := range pairs {
			for _, metric := range analysis.Times() {
				out = append(out, newRow(sources, different, Row{Policy: pair[0], Baseline: pair[1], Metric: metric}))
			}
		}
		return out
	}
	means := make([][2]string, len(policies))
	for i, p := range policies {
		means[i][0] = p
	}
	c := &Comparison{Means: rows(means), Gains: rows(analysis.Comparisons(policies, baselines))}
	for _, s := range sources {
		c.Sources = append(c.Sources, s.info)
	}
	c.Notes = notes(sources, policies, different, c)
	return c, nil
}

// shared lists the policies that all sources have, in the first one's order.
func shared(sources []*Source) []string {
	return slices.DeleteFunc(slices.Clone(sources[0].info.Policies), func(p string) bool {
		return slices.ContainsFunc(sources, func(s *Source) bool { return !slices.Contains(s.info.Policies, p) })
	})
}

// newRow fills a row, over the requests that all sources have if there are any. different holds
// the keys that do not name the same request in all sources.
func newRow(sources []*Source, different map[analysis.Key]bool, r Row) Row {
	all := make([]analysis.Figure, len(sources))
	for i, s := range sources {
		all[i] = s.table.Figure(r.cell(), r.Baseline)
	}
	keys := slices.DeleteFunc(analysis.Requests(all...), func(k analysis.Key) bool { return different[k] })
	r.Unit, r.Paired, r.Values, r.Gaps = string(all[0].Unit), len(keys) > 0, []Value{}, []Value{}
	var first analysis.Estimate
	for i, f := range all {
		own := keys
		if !r.Paired {
			own = analysis.Requests(f)
		}
		e, ok := f.Estimate(own, !r.Paired)
		if !ok {
			why := "no completed request with this figure"
			if len(own) > 0 {
				why = "no gain, since the baseline's mean is 0"
			}
			r.Reason = fmt.Sprintf("source %s has %s", Letter(i), why)
			r.Paired, r.Values, r.Gaps = false, []Value{}, []Value{}
			return r
		}
		r.Values = append(r.Values, valueOf(e, len(own)))
		switch {
		case i == 0:
			first = e
		case r.Paired:
			gap, _ := f.Minus(all[0], keys) // both are defined
			r.Gaps = append(r.Gaps, valueOf(gap, len(keys)))
		default:
			r.Gaps = append(r.Gaps, valueOf(analysis.Independent(e, first), min(r.Values[0].Requests, len(own))))
		}
	}
	return r
}

// cell is where the sources have the row's figures.
func (r *Row) cell() analysis.Cell { return analysis.Cell{Policy: r.Policy, Metric: r.Metric} }

func valueOf(e analysis.Estimate, requests int) Value {
	return Value{Value: e.Value, CI95: e.CI95, CIMethod: e.Method, CIN: e.N, Requests: requests}
}

// Letter names a source in reports: A, B and so on.
func Letter(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return fmt.Sprintf("#%d", i+1)
}

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

// noteList is what a reader of the figures must know.
type noteList []string

func (n *noteList) add(format string, args ...any) { *n = append(*n, fmt.Sprintf(format, args...)) }

func notes(sources []*Source, policies []string, different map[analysis.Key]bool, c *Comparison) []string {
	out := noteList{}
	for i, s := range sources {
		out.condition(s, Letter(i))
	}
	for i, s := range sources[1:] {
		out.differences(sources[0], s, Letter(i+1))
	}
	for i, s := range sources {
		if others := missing(s.info.Policies, policies); others != nil {
			out.add("%s: not in all of them, and so left out: %s", Letter(i), strings.Join(others, ", "))
		}
	}
	if n := len(different); n > 0 {
		out.add("%d pairs of seed and request name another request in another source (arrival or prompt differ); they are not paired", n)
	}
	out.pairing(sources, c)
	return out
}

// condition adds the notes about one source.
func (n *noteList) condition(s *Source, letter string) {
	if s.run != nil {
		if s.run.Summary.Interrupted {
			n.add("%s: was interrupted; its figures cover what had finished by then", letter)
		}
		if f := s.run.Summary.Fidelity; s.info.World == results.WorldPacket && f.Verdict != results.VerdictGood {
			n.add("%s: fidelity %s: %s", letter, f.Verdict, strings.Join(f.Reasons, "; "))
		}
	}
	if s.ignored != nil {
		n.add("%s: columns that mean nothing here: %s", letter, strings.Join(s.ignored, ", "))
	}
	for _, p := range s.info.Policies {
		if lost := s.requests[p] - s.completed[p]; lost > 0 {
			n.add("%s: %s did not complete %d of %d requests, which are not compared", letter, p, lost, s.requests[p])
		}
	}
}

// differences adds the notes about differences from the first source.
func (n *noteList) differences(first, s *Source, letter string) {
	if a, b := missing(first.info.Seeds, s.info.Seeds), missing(s.info.Seeds, first.info.Seeds); a != nil || b != nil {
		n.add("other seeds: only A has %s; only %s has %s", list(a), letter, list(b))
	}
	if s.run == nil || first.run == nil {
		return
	}
	if a, b := first.run.Summary, s.run.Summary; a.Version != b.Version {
		n.add("other versions: A was made by netkvlab %s, %s by %s", a.Version, letter, b.Version)
	}
	if first.payload != s.payload {
		alone := "A"
		if s.payload {
			alone = letter
		}
		n.add("%s was run without packets, so that its links carry payload at their full rate; packets, and a flow world beside them, carry frames: %.1f %% more",
			alone, 100*(flowsim.FullSegmentFraming-1))
	}
	if keys := scenarioDiff(first.run, s.run); keys != nil {
		n.add("other scenarios (A, %s): %s", letter, strings.Join(keys, "; "))
	}
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
	for _, k := range keys {
		if x[k] != y[k] && k != "description" && k != "seeds" && k != "policies" {
			out = append(out, fmt.Sprintf("%s %s, %s", k, value(x, k), value(y, k)))
		}
	}
	if more := len(out) - most; more > 0 {
		out = append(out[:most], fmt.Sprintf("and %d more keys", more))
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
func (n *noteList) pairing(sources []*Source, c *Comparison) {
	left := make([]int, len(sources))
	unpaired := false
	for i := range c.Means {
		r := &c.Means[i]
		if r.Reason != "" {
			continue
		}
		if !r.Paired {
			unpaired = true
			continue
		}
		for j, s := range sources {
			left[j] = max(left[j], len(s.table[r.cell()])-r.Values[j].Requests)
		}
	}
	for j, requests := range left {
		if requests > 0 {
			n.add("%s: up to %d completed requests a policy have no completed counterpart in all others and are left out", Letter(j), requests)
		}
	}
	if unpaired {
		n.add("no completed request is in all of them: each is over its own requests, and gaps are between independent runs, with wider intervals")
	}
}
