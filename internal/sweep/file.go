package sweep

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

// maxTrials bounds a sweep: a larger number is almost surely a mistake.
const maxTrials = 1_000_000

// File is a sweep as a user writes it.
type File struct {
	Name        string
	Description string
	// Scenario is a path, relative to the sweep file, or the name of an embedded scenario.
	Scenario string
	// Settings apply to every cell; each is like "topology.pods=2".
	Settings []string
	Axes     []Axis
	// Policies and Seeds, if given, replace the scenario's. Policies is YAML, as in a scenario.
	Policies string
	Seeds    string
	// Worlds are packet, flow or both; none means the flow world.
	Worlds []string
	// TimeDecisions measures the wall-clock time of decisions. These columns then differ from run
	// to run.
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
	Metric   string
	Policy   string
	Baseline string // empty: the metric itself
	X, Y     string // axis names; Y may be empty where there is one axis
	line     int
}

// Cell is one point of the grid.
type Cell struct {
	Index    int
	Labels   []string // one per axis
	Scenario *scenarios.Scenario
}

// Sweep is a checked file: every cell's scenario is loaded.
type Sweep struct {
	File   File
	Cells  []Cell
	source []byte
}

// Load reads a sweep: ref is a path or the name of an embedded sweep (see
// scenarios.SweepNames). Every cell's scenario is checked; faults name the line of
// the axis value or setting that caused them.
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
	if err := s.load(name, base); err != nil {
		return nil, err
	}
	return s, nil
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
	ref := scenarioRef(base, s.File.Scenario)
	own, err := scenarios.Load(ref)
	if err != nil {
		return s.blame(name, nil, err)
	}
	if s.File.Policies, err = ownPolicies(own, s.File.Policies); err != nil {
		return s.blame(name, nil, err)
	}
	for i := range total {
		values := s.pick(i)
		settings, err := s.settings(own, values)
		if err != nil {
			return s.blame(name, values, err)
		}
		sc, err := scenarios.Load(ref, settings...)
		if err != nil {
			return s.blame(name, values, err)
		}
		if _, err := trials.NewServing(sc); err != nil {
			return s.blame(name, values, err)
		}
		c := Cell{Index: i, Scenario: sc}
		for _, v := range values {
			c.Labels = append(c.Labels, v.Label)
		}
		s.Cells = append(s.Cells, c)
	}
	return s.checkFigure(name)
}

// pick returns the values of cell i, one per axis.
func (s *Sweep) pick(i int) []Value {
	values := make([]Value, len(s.File.Axes))
	for a := len(values) - 1; a >= 0; a-- {
		n := len(s.File.Axes[a].Values)
		values[a] = s.File.Axes[a].Values[i%n]
		i /= n
	}
	return values
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

// blame adds to an error the cell whose scenario is wrong, and the line of the sweep file whose
// value sets the faulty key, if there is one.
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
	return &FaultError{Fault: scenarios.Error{File: name, Line: line, Path: where, Msg: err.Error()}, Cause: err}
}

// FaultError is a fault in a scenario that a sweep makes.
type FaultError struct {
	Fault scenarios.Error
	Cause error
}

func (e *FaultError) Error() string { return e.Fault.Error() }

// Unwrap returns the scenario's own fault and the place in the sweep file.
func (e *FaultError) Unwrap() []error { return []error{&e.Fault, e.Cause} }

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
	for _, p := range []struct{ key, label string }{{"policy", f.Policy}, {"baseline", f.Baseline}} {
		if p.label != "" && !slices.Contains(labels, p.label) {
			return fault(p.key, "is %q, which is none of the sweep's policies %q", p.label, labels)
		}
	}
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
	for _, a := range []struct{ key, name string }{{"x", f.X}, {"y", f.Y}} {
		if a.name != "" && !slices.Contains(axes, a.name) {
			return fault(a.key, "is %q, which is none of the axes %q", a.name, axes)
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
