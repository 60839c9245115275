// Package compare sets runs beside each other: two or more run folders, the worlds of
// one, or a run folder and another simulator's results in a CSV file.
//
// It tells each policy's mean, each gain over a baseline in every source, and how far
// the others are from the first, paired by request wherever the sources have requests
// in common. What keeps sources from being compared is in Comparison.Notes: other
// scenarios, seeds, policies or requests, failures, and verdicts that are not good.
// Nothing is left out without a note.
//
// Times are paper milliseconds. Results depend on the sources alone, not on the
// order of their records. Start reading at Load and Compare; docs/compare.md is for users.
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
	// Means has one row a policy and metric, Gains one a comparison and metric.
	Means []Row `json:"means"`
	Gains []Row `json:"gains"`
	// Notes say what keeps the sources from being compared; empty when nothing does.
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
	// Paired says that all sources are compared over the same requests. Where they have
	// none in common, each has its own and the gaps are between independent runs.
	Paired bool `json:"paired"`
	// Values has one a source and Gaps, in ms or percentage points, one for each source
	// after the first: it minus the first.
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
	Requests int      `json:"requests"` // that it is over
}

// Options choose what is compared.
type Options struct {
	// Baselines are the policies to count gains against; none means that each policy
	// is compared with each one listed before it in the first source.
	Baselines []string
}

var (
	errTooFew   = errors.New("nothing to compare with: name at least two runs, or two worlds of one (RUN and RUN:flow)")
	errNoPolicy = errors.New("no policy is in all of them")
)

// Compare compares two or more sources. It fails where there is no policy that all
// have, and on an unknown baseline.
func Compare(sources []*Source, o Options) (*Comparison, error) {
	if len(sources) < 2 {
		return nil, errTooFew
	}
	policies := shared(sources)
	if len(policies) == 0 {
		var have []string
		for _, s := range sources {
			have = append(have, fmt.Sprintf("%s has %s", s.Label(), strings.Join(s.policies, ", ")))
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
		c.Sources = append(c.Sources, s.info())
	}
	different := differentRequests(sources)
	for _, p := range policies {
		for _, m := range metrics {
			row := Row{Policy: p, Metric: m, Unit: "ms"}
			row.fill(sides(sources, m, p), different)
			c.Means = append(c.Means, row)
		}
	}
	for _, pair := range analysis.Comparisons(policies, o.Baselines) {
		for _, m := range metrics {
			row := Row{Policy: pair[0], Baseline: pair[1], Metric: m, Unit: "%"}
			row.fill(sides(sources, m, pair[0], pair[1]), different)
			c.Gains = append(c.Gains, row)
		}
	}
	c.Notes = notes(sources, policies, different, c)
	return c, nil
}

var metrics = []string{results.MetricTTFT, results.MetricTransfer}

// shared lists the policies that all sources have, in the first one's order.
func shared(sources []*Source) []string {
	var out []string
	for _, p := range sources[0].policies {
		everywhere := true
		for _, s := range sources[1:] {
			everywhere = everywhere && slices.Contains(s.policies, p)
		}
		if everywhere {
			out = append(out, p)
		}
	}
	return out
}

// side is one source's part in a row: a policy's column, and a baseline's for a gain.
type side []analysis.Column

func sides(sources []*Source, metric string, policies ...string) []side {
	out := make([]side, len(sources))
	for i, s := range sources {
		for _, p := range policies {
			out[i] = append(out[i], s.columns[column{p, metric}])
		}
	}
	return out
}

func (s side) gain() analysis.Gain { return analysis.Gain{Policy: s[0], Baseline: s[1]} }

// value is the side's figure over these requests. alone asks for the interval that
// counts for a comparison with others.
func (s side) value(keys []analysis.Key, alone bool) (analysis.Estimate, error) {
	var e analysis.Estimate
	ok := true
	switch {
	case len(keys) == 0:
		return e, errors.New("has no completed request with this figure")
	case len(s) == 1:
		e = s[0].Estimate(keys)
	case alone:
		e, ok = s.gain().Alone(keys)
	default:
		e, ok = s.gain().Estimate(keys)
	}
	if !ok {
		return e, errors.New("has no gain: the baseline's mean is 0")
	}
	return e, nil
}

// minus is how far the side is from another on the same requests.
func (s side) minus(first side, keys []analysis.Key) analysis.Estimate {
	if len(s) == 1 {
		return analysis.Difference(keys, s[0], first[0])
	}
	e, _ := analysis.GainDifference(keys, s.gain(), first.gain())
	return e
}

// fill compares the sides, over the requests that all have if there are any. different
// are those that are not the same request in all sources.
func (r *Row) fill(all []side, different map[analysis.Key]bool) {
	r.Values, r.Gaps = []Value{}, []Value{}
	keys := slices.DeleteFunc(analysis.Common(slices.Concat(all...)...), func(k analysis.Key) bool { return different[k] })
	r.Paired = len(keys) > 0
	var first analysis.Estimate
	for i, s := range all {
		own := keys
		if !r.Paired {
			own = analysis.Common(s...)
		}
		e, err := s.value(own, !r.Paired)
		if err != nil {
			r.Reason = fmt.Sprintf("source %s %v", Letter(i), err)
			r.Paired, r.Values, r.Gaps = false, []Value{}, []Value{}
			return
		}
		r.Values = append(r.Values, valueOf(e, len(own)))
		switch {
		case i == 0:
			first = e
		case r.Paired:
			r.Gaps = append(r.Gaps, valueOf(s.minus(all[0], keys), len(keys)))
		default:
			r.Gaps = append(r.Gaps, valueOf(analysis.Independent(e, first), min(r.Values[0].Requests, len(own))))
		}
	}
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
