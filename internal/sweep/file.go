// Package sweep runs a grid of scenarios in the flow world, and in the packet world if the file
// asks for it: any keys of a scenario as axes, times policies, times seeds. Each finished trial
// is written as one line, so that a stopped sweep can continue.
//
// A sweep file names a scenario, the settings of all cells, the axes with their values and, for
// the picture, a figure over two of the axes. Parse is strict and names file and line of every
// fault. Run writes its folder: cells.jsonl while it runs; table.csv, heatmap.txt and
// heatmap.svg at its end. In the flow world their contents depend only on the sweep file, not on
// the number of cores or on interruptions, unless timeDecisions asks for wall-clock times. Start
// reading at file.go.
package sweep

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

// maxTrials bounds a sweep: a larger number is almost surely a mistake.
const maxTrials = 1_000_000

// File is a sweep as a user writes it.
type File struct {
	Name, Description string
	Scenario          string // a path, relative to the sweep file, or the name of an embedded scenario
	// Settings apply to every cell; each is like "topology.pods=2".
	Settings []string
	Axes     []Axis
	// Policies and Seeds, if given, replace the scenario's. Policies is YAML, as in a scenario.
	Policies string
	Seeds    string
	Worlds   []string // packet, flow or both; none means the flow world
	// TimeDecisions measures the wall-clock time of decisions. These columns then differ from run to run.
	TimeDecisions bool
	Figure        Figure
}

// Axis is one dimension of the grid.
type Axis struct {
	Name   string
	Values []Value
	line   int
}

// Value is one point of an axis: the settings that make it, and its name in tables.
type Value struct {
	Label    string
	Settings []string
	// Scales multiply the scenario's own value of a key, before the settings apply.
	Scales []Scale
	line   int
}

// Scale is a factor for the number of one key; its unit stays.
type Scale struct {
	Key    string
	Factor float64
}

// Figure is the picture of a sweep: a metric of one policy, or its change against a baseline,
// over two axes. Further axes give one picture per value.
type Figure struct {
	Metric, Policy string
	Baseline       string // empty: the metric itself
	X, Y           string // axis names; Y may be empty where there is one axis
	line           int
}

// Cell is one point of the grid.
type Cell struct {
	Labels   []string // one per axis
	Scenario *scenarios.Scenario
}

// Sweep is a checked file: every cell's scenario is loaded.
type Sweep struct {
	File   File
	Cells  []Cell
	source []byte
}

// Load reads a sweep: ref is a path or one of scenarios.SweepNames. Every cell's scenario is
// checked; faults name the line of the axis value or setting that caused them.
func Load(ref string) (*Sweep, error) {
	name, data, base, err := read(ref)
	if err != nil {
		return nil, err
	}
	f, err := Parse(name, data)
	if err != nil {
		return nil, err
	}
	s := &Sweep{File: *f, source: data}
	return s, s.load(name, base)
}

// load makes the cells; the value of the first axis changes slowest.
func (s *Sweep) load(name, base string) error {
	total := 1
	for _, a := range s.File.Axes {
		total *= len(a.Values)
		if total > maxTrials {
			return &scenarios.Error{File: name, Line: a.line, Path: "axes", Msg: fmt.Sprintf("more than %d cells; give fewer values", maxTrials)}
		}
	}
	ref := s.File.Scenario
	if _, embedded := scenarios.Embedded(ref); !embedded && !filepath.IsAbs(ref) {
		ref = filepath.Join(base, ref)
	}
	own, err := scenarios.Load(ref)
	if err == nil {
		s.File.Policies, err = ownPolicies(own, s.File.Policies)
	}
	if err != nil {
		return s.blame(name, nil, err)
	}
	for i := range total {
		var c Cell
		_, values := s.pick(i)
		for _, v := range values {
			c.Labels = append(c.Labels, v.Label)
		}
		settings, err := s.settings(own, values)
		if err == nil {
			c.Scenario, err = scenarios.Load(ref, settings...)
		}
		if err == nil {
			_, err = trials.NewServing(c.Scenario)
		}
		if err != nil {
			return s.blame(name, values, err)
		}
		s.Cells = append(s.Cells, c)
	}
	return s.checkFigure(name)
}

// pick returns the places of cell i on the axes, and its values there.
func (s *Sweep) pick(i int) (at []int, values []Value) {
	at, values = make([]int, len(s.File.Axes)), make([]Value, len(s.File.Axes))
	for a, axis := range slices.Backward(s.File.Axes) {
		at[a] = i % len(axis.Values)
		values[a] = axis.Values[at[a]]
		i /= len(axis.Values)
	}
	return at, values
}

func (s *Sweep) settings(own *scenarios.Scenario, values []Value) ([]string, error) {
	out := slices.Clone(s.File.Settings)
	for _, v := range values {
		for _, scale := range v.Scales {
			setting, err := scaled(own, scale)
			if err != nil {
				return nil, err
			}
			out = append(out, setting)
		}
		out = append(out, v.Settings...)
	}
	if s.File.Policies != "" {
		out = append(out, "policies="+s.File.Policies)
	}
	if s.File.Seeds != "" {
		out = append(out, "seeds="+s.File.Seeds)
	}
	return out, nil
}

// blame adds to an error the faulty cell, and the line of the value that sets the faulty key, if any.
func (s *Sweep) blame(name string, values []Value, err error) error {
	var inner *scenarios.Error
	errors.As(err, &inner)
	where, line := "the scenario", 0
	for i, v := range values {
		where += fmt.Sprintf(", %s = %s", s.File.Axes[i].Name, v.Label)
		keys := slices.Clone(v.Settings)
		for _, scale := range v.Scales {
			keys = append(keys, scale.Key)
		}
		for _, setting := range keys {
			key, _, _ := strings.Cut(setting, "=")
			if inner != nil && inner.Path != "" && (strings.HasPrefix(key, inner.Path) || strings.HasPrefix(inner.Path, key)) {
				line = v.line
			}
		}
	}
	return &scenarios.Error{File: name, Line: line, Path: where, Msg: err.Error()}
}

// checkFigure fills in the defaults of a figure, and refuses unknown names.
func (s *Sweep) checkFigure(name string) error {
	f := &s.File.Figure
	fault := func(key, format string, args ...any) error {
		return &scenarios.Error{File: name, Line: f.line, Path: "figure." + key, Msg: fmt.Sprintf(format, args...)}
	}
	f.Metric = cmp.Or(f.Metric, "ttft_mean")
	if _, err := analysis.FindMetric(f.Metric); err != nil {
		return fault("metric", "%v", err)
	}
	labels := s.policies()
	f.Policy = cmp.Or(f.Policy, labels[len(labels)-1])
	var axes []string
	for _, a := range s.File.Axes {
		axes = append(axes, a.Name)
	}
	if f.X == "" && len(axes) > 0 {
		f.X = axes[len(axes)-1]
	}
	if f.Y == "" && len(axes) > 1 {
		f.Y = axes[slices.IndexFunc(axes, func(n string) bool { return n != f.X })]
	}
	for _, c := range []struct {
		key, name, all string
		known          []string
	}{
		{"policy", f.Policy, "sweep's policies", labels}, {"baseline", f.Baseline, "sweep's policies", labels},
		{"x", f.X, "axes", axes}, {"y", f.Y, "axes", axes},
	} {
		if c.name != "" && !slices.Contains(c.known, c.name) {
			return fault(c.key, "is %q, which is none of the %s %q", c.name, c.all, c.known)
		}
	}
	if f.X != "" && f.X == f.Y {
		return fault("y", "is %q like x; name another axis or leave it out", f.Y)
	}
	return nil
}

// policies are the labels of all cells, in the order of their first mention.
func (s *Sweep) policies() []string {
	var labels []string
	for i := range s.Cells {
		for _, p := range s.Cells[i].Scenario.Policies {
			if !slices.Contains(labels, p.Label) {
				labels = append(labels, p.Label)
			}
		}
	}
	return labels
}

// quantity matches a number and its unit, as in a resolved scenario.
var quantity = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)([A-Za-z/]*)$`)

// scaled returns the setting that multiplies a scenario's own number. A whole number without a unit stays whole.
func scaled(own *scenarios.Scenario, scale Scale) (string, error) {
	fault := func(format string, args ...any) (string, error) {
		return "", &scenarios.Error{Path: scale.Key, Msg: fmt.Sprintf(format, args...)}
	}
	text, err := own.Marshal()
	if err != nil {
		return "", err
	}
	var at yaml.Node
	if err := yaml.Unmarshal(text, &at); err != nil {
		return "", err
	}
	for _, key := range strings.Split(scale.Key, ".") {
		var keys map[string]yaml.Node
		_ = at.Decode(&keys) // fails if it is no mapping, which has no keys
		value, known := keys[key]
		if !known {
			return fault("is no key of scenario %s that could be scaled", own.Name)
		}
		at = value
	}
	m := quantity.FindStringSubmatch(at.Value)
	if at.Kind != yaml.ScalarNode || m == nil {
		return fault("is no number in scenario %s, so it cannot be scaled", own.Name)
	}
	v, _ := strconv.ParseFloat(m[1], 64) // the pattern admits nothing else
	v *= scale.Factor
	if m[2] == "" && !strings.Contains(m[1], ".") {
		v = math.Round(v)
	}
	// Six digits are enough for such a factor; more would only show rounding.
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	return scale.Key + "=" + strconv.FormatFloat(v, 'f', -1, 64) + m[2], nil
}

// ownPolicies replaces bare names in a list of policies. The label of one of the scenario's
// policies becomes that policy with its weights, so that sweeps need not repeat them.
func ownPolicies(own *scenarios.Scenario, list string) (string, error) {
	if list == "" {
		return "", nil
	}
	var tree yaml.Node
	if err := yaml.Unmarshal([]byte(list), &tree); err != nil || len(tree.Content) != 1 {
		return list, nil // the scenario's own checks report it
	}
	for i, n := range tree.Content[0].Content {
		at := slices.IndexFunc(own.Policies, func(p scenarios.Policy) bool { return p.Label == n.Value })
		if n.Kind != yaml.ScalarNode || at < 0 {
			continue
		}
		var full yaml.Node
		if err := full.Encode(own.Policies[at]); err != nil {
			return "", fmt.Errorf("policy %s: %w", n.Value, err)
		}
		full.Style = yaml.FlowStyle
		tree.Content[0].Content[i] = &full
	}
	tree.Content[0].Style = yaml.FlowStyle
	out, err := yaml.Marshal(&tree)
	if err != nil {
		return "", fmt.Errorf("policies: %w", err)
	}
	return strings.Join(strings.Fields(string(out)), " "), nil
}
