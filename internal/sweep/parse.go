package sweep

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/scenarios"
)

const (
	maxFile   = 1 << 20 // bytes of a sweep file
	maxValues = 1000    // of an axis
)

// read finds an embedded sweep by its name, else a file; base is the folder for relative file names.
func read(ref string) (name string, data []byte, base string, err error) {
	if data, ok := scenarios.EmbeddedSweep(ref); ok {
		return ref + ".yaml", data, ".", nil
	}
	data, err = os.ReadFile(ref)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", nil, "", &scenarios.Error{File: ref, Msg: fmt.Sprintf("no such file, and no embedded sweep (there are: %s)", strings.Join(scenarios.SweepNames(), ", "))}
	case err != nil:
		return "", nil, "", &scenarios.Error{File: ref, Msg: "cannot be read as a sweep: " + err.Error()}
	}
	return ref, data, filepath.Dir(ref), nil
}

// Parse reads a sweep without its scenarios; filename is for errors, and the default of its name.
func Parse(filename string, data []byte) (*File, error) {
	p := &parser{file: filename}
	f := &File{Name: strings.TrimSuffix(filepath.Base(filename), filepath.Ext(filename))}
	if n := p.document(data); n != nil {
		p.sweep(f, n)
	}
	if f.Scenario == "" {
		p.fault(nil, "scenario", "is missing; give a path or one of: %s", strings.Join(scenarios.Names(), ", "))
	}
	if p.err != nil {
		return nil, p.err
	}
	return f, nil
}

// parser keeps the first fault, with its line. What it returns after a fault is of no use.
type parser struct {
	file string
	err  error
}

func (p *parser) fault(n *yaml.Node, path, format string, args ...any) {
	line := 1
	if n != nil && n.Line > 0 {
		line = n.Line
	}
	if p.err == nil {
		p.err = &scenarios.Error{File: p.file, Line: line, Path: path, Msg: fmt.Sprintf(format, args...)}
	}
}

// yamlLine matches the line number in errors of the YAML library.
var yamlLine = regexp.MustCompile(`^yaml: (?:line ([0-9]+): )?`)

// document returns the mapping that a file holds; nil if there is none.
func (p *parser) document(data []byte) *yaml.Node {
	if len(data) > maxFile {
		p.fault(nil, "", "is larger than %d bytes, so it is no sweep", maxFile)
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		line := 0
		if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
			line, _ = strconv.Atoi(m[1])
		}
		p.fault(&yaml.Node{Line: line}, "", "not YAML: %s", yamlLine.ReplaceAllString(err.Error(), ""))
		return nil
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		p.fault(nil, "", "must be a mapping with the keys scenario and axes (see docs/sweep.md)")
		return nil
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		p.fault(&second, "", "holds a second YAML document; a file holds one sweep")
	}
	return doc.Content[0]
}

// mapping yields the keys and values of a mapping up to the first fault. Each key must be one of
// names (any, if there are none) and occur once.
func (p *parser) mapping(n *yaml.Node, path string, names ...string) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		if n.Kind != yaml.MappingNode {
			p.fault(n, path, "must be a mapping of keys (%s)", strings.Join(names, ", "))
			return
		}
		seen := map[string]bool{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			switch {
			case len(names) > 0 && !slices.Contains(names, key.Value):
				p.fault(key, path, "unknown key %q (valid: %s)", key.Value, strings.Join(names, ", "))
			case seen[key.Value]:
				p.fault(key, path, "key %q is given twice; keep one", key.Value)
			case value.Kind == yaml.AliasNode:
				p.fault(value, path, "aliases are not read; write the value out")
			}
			seen[key.Value] = true
			if p.err != nil || !yield(key, value) {
				return
			}
		}
	}
}

// items returns the items of a list that must have at least so many.
func (p *parser) items(n *yaml.Node, path string, least int, must string) []*yaml.Node {
	if n.Kind != yaml.SequenceNode || len(n.Content) < least {
		p.fault(n, path, "must be a list %s", must)
		return nil
	}
	return n.Content
}

func (p *parser) text(n *yaml.Node, path string) string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		p.fault(n, path, "must be a text")
	}
	return n.Value
}

// inline writes a YAML value on one line, as in a setting.
func (p *parser) inline(n *yaml.Node, path string) string {
	if n.Kind == yaml.ScalarNode {
		if strings.Contains(n.Value, "\n") {
			p.fault(n, path, "must be on one line")
		}
		if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
			return strconv.Quote(n.Value)
		}
		return n.Value
	}
	flow := *n
	flow.Style = yaml.FlowStyle
	out, err := yaml.Marshal(&flow)
	if err != nil {
		p.fault(n, path, "cannot be written as a setting: %v", err)
	}
	return strings.TrimSpace(string(out))
}

func (p *parser) sweep(f *File, n *yaml.Node) {
	lists := map[string]*string{"policies": &f.Policies, "seeds": &f.Seeds}
	texts := map[string]*string{"name": &f.Name, "description": &f.Description, "scenario": &f.Scenario}
	for k, v := range p.mapping(n, "", "name", "description", "scenario", "settings", "axes", "policies", "seeds", "worlds", "timeDecisions", "figure") {
		switch key := k.Value; key {
		case "settings":
			f.Settings = p.settings(v, key)
		case "axes":
			f.Axes = p.axes(v, key)
		case "policies", "seeds":
			p.items(v, key, 1, "that is not empty")
			*lists[key] = p.inline(v, key)
		case "worlds":
			f.Worlds = p.worlds(v, key)
		case "timeDecisions":
			if v.ShortTag() != "!!bool" {
				p.fault(v, key, "must be true or false")
			}
			f.TimeDecisions = v.Value == "true"
		case "figure":
			p.figure(&f.Figure, v, key)
		default:
			*texts[key] = p.text(v, key)
		}
	}
}

// settings reads a mapping of dotted keys to values, in the file's order.
func (p *parser) settings(n *yaml.Node, path string) (out []string) {
	for k, v := range p.mapping(n, path) {
		if slices.Contains([]string{"policies", "seeds", "name"}, k.Value) {
			p.fault(k, path, "%s is no setting of a cell; give it at the top of the file", k.Value)
		}
		out = append(out, k.Value+"="+p.inline(v, path+"."+k.Value))
	}
	return out
}

func (p *parser) worlds(n *yaml.Node, path string) (out []string) {
	for _, item := range p.items(n, path, 0, "of worlds: [flow], [packet] or [packet, flow]") {
		out = append(out, item.Value)
	}
	if err := CheckWorlds(out); err != nil {
		p.fault(n, path, "%v", err)
	}
	return out
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

func (p *parser) axes(n *yaml.Node, path string) (out []Axis) {
	for i, item := range p.items(n, path, 0, "of axes, each with values") {
		at := fmt.Sprintf("%s[%d]", path, i)
		a := p.axis(item, at)
		if slices.ContainsFunc(out, func(b Axis) bool { return b.Name == a.Name }) {
			p.fault(item, at+".name", "%q is an axis already; give this one another name", a.Name)
		}
		out = append(out, a)
	}
	return out
}

// reserved lists the table's columns that are not axes.
var reserved = []string{"cell", "policy", "seed", "world", "verdict", "attempts", "submitted", "completed"}

func (p *parser) axis(n *yaml.Node, path string) Axis {
	a := Axis{line: n.Line}
	var keys []string
	var values *yaml.Node
	for k, v := range p.mapping(n, path, "name", "key", "keys", "values") {
		at := path + "." + k.Value
		switch k.Value {
		case "name":
			a.Name = p.text(v, at)
		case "key":
			keys = append(keys, p.text(v, at))
		case "keys":
			for _, item := range p.items(v, at, 1, "of keys that all take the value") {
				keys = append(keys, p.text(item, at))
			}
		case "values":
			values = v
		}
	}
	if a.Name == "" && len(keys) > 0 {
		a.Name = keys[0][strings.LastIndex(keys[0], ".")+1:]
	}
	switch {
	case a.Name == "":
		p.fault(n, path, "needs a key, or a name and values of the form {label, set}")
	case slices.Contains(reserved, a.Name):
		p.fault(n, path+".name", "%q is a column of the table already; give the axis another name", a.Name)
	case values == nil:
		p.fault(n, path+".values", "is missing; give the list of values")
	default:
		a.Values = p.values(values, path+".values", keys)
	}
	return a
}

func (p *parser) values(n *yaml.Node, path string, keys []string) (out []Value) {
	items := p.items(n, path, 1, "that is not empty")
	if len(items) > maxValues {
		p.fault(n, path, "must have at most %d values, got %d", maxValues, len(items))
	}
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", path, i)
		v := p.value(item, at, keys)
		if slices.ContainsFunc(out, func(b Value) bool { return b.Label == v.Label }) {
			p.fault(item, at, "%q is on the axis already", v.Label)
		}
		if p.err != nil {
			return nil
		}
		out = append(out, v)
	}
	return out
}

// value reads a plain value for the axis's keys, or {label, set, scale} with its own settings.
func (p *parser) value(n *yaml.Node, path string, keys []string) Value {
	v := Value{line: n.Line}
	if n.Kind != yaml.MappingNode {
		if len(keys) == 0 {
			p.fault(n, path, "is a plain value, but the axis has no key; give the axis a key, or write {label: ..., set: {...}}")
		}
		text := p.inline(n, path)
		v.Label = strings.Trim(text, `"`)
		for _, k := range keys {
			v.Settings = append(v.Settings, k+"="+text)
		}
		return v
	}
	for k, value := range p.mapping(n, path, "label", "set", "scale") {
		at := path + "." + k.Value
		switch k.Value {
		case "label":
			v.Label = p.text(value, at)
		case "set":
			v.Settings = p.settings(value, at)
		case "scale":
			v.Scales = p.scales(value, at)
		}
	}
	if v.Label == "" {
		p.fault(n, path+".label", "is missing")
	}
	return v
}

// scales reads a mapping of keys to factors.
func (p *parser) scales(n *yaml.Node, path string) (out []Scale) {
	for k, v := range p.mapping(n, path) {
		f, err := strconv.ParseFloat(v.Value, 64)
		if err != nil || v.Kind != yaml.ScalarNode || !(f > 0) || math.IsInf(f, 0) {
			p.fault(v, path+"."+k.Value, "must be a factor above 0, such as 2.5")
		}
		out = append(out, Scale{Key: k.Value, Factor: f})
	}
	return out
}

func (p *parser) figure(f *Figure, n *yaml.Node, path string) {
	f.line = n.Line
	texts := map[string]*string{"metric": &f.Metric, "policy": &f.Policy, "baseline": &f.Baseline, "x": &f.X, "y": &f.Y}
	for k, v := range p.mapping(n, path, "metric", "policy", "baseline", "x", "y") {
		*texts[k.Value] = p.text(v, path+"."+k.Value)
	}
}
