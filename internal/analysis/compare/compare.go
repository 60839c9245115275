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
	"slices"
	"strings"

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

// Options choose what is compared.
type Options struct {
	// Baselines are the policies over which gains are computed; none means that each policy is
	// compared with each one before it in the first source.
	Baselines []string
}

var (
	errTooFew   = errors.New("nothing to compare with: name at least two runs, or two worlds of one (RUN and RUN:flow)")
	errNoPolicy = errors.New("no policy is in all of them")
)

// Compare compares two or more sources. It fails if they have no policy in common, and on an
// unknown baseline.
func Compare(sources []*Source, o Options) (*Comparison, error) {
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
	for _, b := range o.Baselines {
		if !slices.Contains(policies, b) {
			return nil, fmt.Errorf("baseline %s is not in all of them; these are: %s", b, strings.Join(policies, ", "))
		}
	}
	c := &Comparison{Sources: []SourceInfo{}, Means: []Row{}, Gains: []Row{}}
	for _, s := range sources {
		c.Sources = append(c.Sources, s.info)
	}
	different := differentRequests(sources)
	for _, p := range policies {
		for _, m := range metrics {
			c.Means = append(c.Means, newRow(sources, different, m, p, ""))
		}
	}
	for _, pair := range analysis.Comparisons(policies, o.Baselines) {
		for _, m := range metrics {
			c.Gains = append(c.Gains, newRow(sources, different, m, pair[0], pair[1]))
		}
	}
	c.Notes = notes(sources, policies, different, c)
	return c, nil
}

var metrics = []string{results.MetricTTFT, results.MetricTransfer}

// shared lists the policies that all sources have, in the first one's order.
func shared(sources []*Source) []string {
	return slices.DeleteFunc(slices.Clone(sources[0].info.Policies), func(p string) bool {
		return slices.ContainsFunc(sources, func(s *Source) bool { return !slices.Contains(s.info.Policies, p) })
	})
}

// figures are the sources' parts in a row: a policy's mean, or its gain over a baseline.
func figures(sources []*Source, metric, policy, baseline string) []analysis.Figure {
	out := make([]analysis.Figure, len(sources))
	for i, s := range sources {
		out[i] = analysis.Figure{Unit: analysis.MS, Policy: s.columns[column{policy, metric}]}
		if baseline != "" {
			out[i].Unit, out[i].Baseline = analysis.Percent, s.columns[column{baseline, metric}]
		}
	}
	return out
}

// newRow compares a figure, over the requests that all sources have if there are any. different
// holds the keys that do not name the same request in all sources.
func newRow(sources []*Source, different map[analysis.Key]bool, metric, policy, baseline string) Row {
	all := figures(sources, metric, policy, baseline)
	keys := slices.DeleteFunc(analysis.Requests(all...), func(k analysis.Key) bool { return different[k] })
	r := Row{
		Policy: policy, Baseline: baseline, Metric: metric, Unit: string(all[0].Unit),
		Paired: len(keys) > 0, Values: []Value{}, Gaps: []Value{},
	}
	var first analysis.Estimate
	for i, f := range all {
		own, estimate := keys, f.Estimate
		if !r.Paired {
			own, estimate = analysis.Requests(f), f.Alone
		}
		e, ok := estimate(own)
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
