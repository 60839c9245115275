package sweep

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/netkvlab/netkvlab/internal/results"
)

// maxValues bounds an axis.
const maxValues = 1000

var topKeys = []string{"name", "description", "scenario", "settings", "axes", "policies", "seeds", "worlds", "timeDecisions", "figure"}

func (p *parser) top(f *File, n *yaml.Node) error {
	return p.mapping(n, "", topKeys, func(key string, _, value *yaml.Node) (err error) {
		switch key {
		case "name":
			f.Name, err = p.text(value, key)
		case "description":
			f.Description, err = p.text(value, key)
		case "scenario":
			f.Scenario, err = p.text(value, key)
		case "settings":
			f.Settings, err = p.settings(value, key)
		case "axes":
			err = p.axes(f, value)
		case "policies", "seeds":
			if value.Kind != yaml.SequenceNode || len(value.Content) == 0 {
				return p.fault(value, key, "must be a list that is not empty")
			}
			var text string
			text, err = p.inline(value, key)
			if key == "policies" {
				f.Policies = text
			} else {
				f.Seeds = text
			}
		case "worlds":
			f.Worlds, err = p.worlds(value, key)
		case "timeDecisions":
			if value.ShortTag() != "!!bool" {
				return p.fault(value, key, "must be true or false")
			}
			f.TimeDecisions = value.Value == "true"
		case "figure":
			err = p.figure(&f.Figure, value)
		}
		return err
	})
}

// worlds reads a list of worlds.
func (p *parser) worlds(n *yaml.Node, path string) ([]string, error) {
	var out []string
	if n.Kind != yaml.SequenceNode {
		return nil, p.fault(n, path, "must be a list of worlds: [flow], [packet] or [packet, flow]")
	}
	for _, item := range n.Content {
		out = append(out, item.Value)
	}
	if err := CheckWorlds(out); err != nil {
		return nil, p.fault(n, path, "%v", err)
	}
	return out, nil
}

// CheckWorlds refuses an invalid list of worlds for a sweep.
func CheckWorlds(worlds []string) error {
	for i, w := range worlds {
		if w != results.WorldPacket && w != results.WorldFlow || slices.Contains(worlds[:i], w) {
			return fmt.Errorf("must be a list of worlds, each once: [flow], [packet] or [packet, flow], got %q", worlds)
		}
	}
	if len(worlds) == 0 {
		return errors.New("must be a list of worlds that is not empty: [flow], [packet] or [packet, flow]")
	}
	return nil
}

func (p *parser) axes(f *File, n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode {
		return p.fault(n, "axes", "must be a list of axes, each with values")
	}
	for i, item := range n.Content {
		path := fmt.Sprintf("axes[%d]", i)
		a, err := p.axis(item, path)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(f.Axes, func(b Axis) bool { return b.Name == a.Name }) {
			return p.fault(item, path+".name", "%q is an axis already; give this one another name", a.Name)
		}
		f.Axes = append(f.Axes, a)
	}
	return nil
}

// reserved lists the table's columns that are not axes.
var reserved = []string{"cell", "policy", "seed", "world", "verdict", "attempts", "submitted", "completed"}

func (p *parser) axis(n *yaml.Node, path string) (Axis, error) {
	a := Axis{line: n.Line}
	var keys []string
	var values *yaml.Node
	err := p.mapping(n, path, []string{"name", "key", "keys", "values"}, func(key string, _, value *yaml.Node) (err error) {
		at := path + "." + key
		switch key {
		case "name":
			a.Name, err = p.text(value, at)
		case "key":
			var k string
			k, err = p.text(value, at)
			keys = append(keys, k)
		case "keys":
			if value.Kind != yaml.SequenceNode || len(value.Content) == 0 {
				return p.fault(value, at, "must be a list of keys that all take the value")
			}
			for _, c := range value.Content {
				k, err := p.text(c, at)
				if err != nil {
					return err
				}
				keys = append(keys, k)
			}
		case "values":
			values = value
		}
		return err
	})
	if err != nil {
		return a, err
	}
	if a.Name == "" && len(keys) > 0 {
		a.Name = keys[0][strings.LastIndex(keys[0], ".")+1:]
	}
	switch {
	case a.Name == "":
		return a, p.fault(n, path, "needs a key, or a name and values of the form {label, set}")
	case slices.Contains(reserved, a.Name):
		return a, p.fault(n, path+".name", "%q is a column of the table already; give the axis another name", a.Name)
	case values == nil:
		return a, p.fault(n, path+".values", "is missing; give the list of values")
	case values.Kind != yaml.SequenceNode || len(values.Content) == 0:
		return a, p.fault(values, path+".values", "must be a list that is not empty")
	case len(values.Content) > maxValues:
		return a, p.fault(values, path+".values", "must have at most %d values, got %d", maxValues, len(values.Content))
	}
	for i, v := range values.Content {
		at := fmt.Sprintf("%s.values[%d]", path, i)
		value, err := p.value(v, at, keys)
		if err != nil {
			return a, err
		}
		if slices.ContainsFunc(a.Values, func(b Value) bool { return b.Label == value.Label }) {
			return a, p.fault(v, at, "%q is on the axis already", value.Label)
		}
		a.Values = append(a.Values, value)
	}
	return a, nil
}

// scales reads a mapping of keys to factors.
func (p *parser) scales(n *yaml.Node, path string) ([]Scale, error) {
	var out []Scale
	err := p.mapping(n, path, nil, func(key string, _, value *yaml.Node) error {
		f, err := strconv.ParseFloat(value.Value, 64)
		if err != nil || value.Kind != yaml.ScalarNode || !(f > 0) || math.IsInf(f, 0) {
			return p.fault(value, path+"."+key, "must be a factor above 0, such as 2.5")
		}
		out = append(out, Scale{Key: key, Factor: f})
		return nil
	})
	return out, err
}

// value reads a plain value for the axis's keys, or {label, set, scale} with its own settings.
func (p *parser) value(n *yaml.Node, path string, keys []string) (Value, error) {
	v := Value{line: n.Line}
	if n.Kind != yaml.MappingNode {
		if len(keys) == 0 {
			return v, p.fault(n, path, "is a plain value, but the axis has no key; give the axis a key, or write {label: ..., set: {...}}")
		}
		text, err := p.inline(n, path)
		v.Label = strings.Trim(text, `"`)
		for _, k := range keys {
			v.Settings = append(v.Settings, k+"="+text)
		}
		return v, err
	}
	err := p.mapping(n, path, []string{"label", "set", "scale"}, func(key string, _, value *yaml.Node) (err error) {
		switch key {
		case "label":
			v.Label, err = p.text(value, path+".label")
		case "set":
			v.Settings, err = p.settings(value, path+".set")
		case "scale":
			v.Scales, err = p.scales(value, path+".scale")
		}
		return err
	})
	if err == nil && v.Label == "" {
		err = p.fault(n, path+".label", "is missing")
	}
	return v, err
}

func (p *parser) figure(f *Figure, n *yaml.Node) error {
	f.line = n.Line
	return p.mapping(n, "figure", []string{"metric", "policy", "baseline", "x", "y"}, func(key string, _, value *yaml.Node) error {
		text, err := p.text(value, "figure."+key)
		switch key {
		case "metric":
			f.Metric = text
		case "policy":
			f.Policy = text
		case "baseline":
			f.Baseline = text
		case "x":
			f.X = text
		case "y":
			f.Y = text
		}
		return err
	})
}
