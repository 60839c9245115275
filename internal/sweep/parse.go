package sweep

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/netkvlab/netkvlab/scenarios"
)

// maxFile bounds a sweep file in bytes.
const maxFile = 1 << 20

// read finds a sweep's text: an embedded one by its name, else a file. base is the folder for
// its relative file names.
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

// scenarioRef returns the scenario as Load needs it: a name, or a path made relative to base.
func scenarioRef(base, ref string) string {
	if _, embedded := scenarios.Embedded(ref); embedded || filepath.IsAbs(ref) {
		return ref
	}
	return filepath.Join(base, ref)
}

// parser stops at the first fault and reports its line.
type parser struct{ file string }

func (p *parser) fault(n *yaml.Node, path, format string, args ...any) error {
	line := 1
	if n != nil && n.Line > 0 {
		line = n.Line
	}
	return &scenarios.Error{File: p.file, Line: line, Path: path, Msg: fmt.Sprintf(format, args...)}
}

// yamlLine matches the line number in errors of the YAML library.
var yamlLine = regexp.MustCompile(`^yaml: (?:line ([0-9]+): )?`)

// Parse reads a sweep file from memory without loading its scenarios; filename is used in
// errors, and is the default of the sweep's name.
func Parse(filename string, data []byte) (*File, error) {
	p := &parser{file: filename}
	if len(data) > maxFile {
		return nil, p.fault(nil, "", "is larger than %d bytes, so it is no sweep", maxFile)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		m := yamlLine.FindStringSubmatch(err.Error())
		line := 1
		if m != nil && m[1] != "" {
			line, _ = strconv.Atoi(m[1])
		}
		return nil, p.fault(&yaml.Node{Line: line}, "", "not YAML: %s", yamlLine.ReplaceAllString(err.Error(), ""))
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, p.fault(nil, "", "must be a mapping with the keys scenario and axes (see docs/sweep.md)")
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, p.fault(&second, "", "holds a second YAML document; a file holds one sweep")
	}
	f := &File{Name: strings.TrimSuffix(filepath.Base(filename), filepath.Ext(filename))}
	if err := p.top(f, doc.Content[0]); err != nil {
		return nil, err
	}
	if f.Scenario == "" {
		return nil, p.fault(nil, "scenario", "is missing; give a path or one of: %s", strings.Join(scenarios.Names(), ", "))
	}
	return f, nil
}

// mapping calls each for the keys of a mapping. Each key must be one of keys and occur once.
func (p *parser) mapping(n *yaml.Node, path string, keys []string, each func(key string, at, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return p.fault(n, path, "must be a mapping of keys (%s)", strings.Join(keys, ", "))
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		known := len(keys) == 0
		for _, k := range keys {
			known = known || k == key.Value
		}
		switch {
		case !known:
			return p.fault(key, path, "unknown key %q (valid: %s)", key.Value, strings.Join(keys, ", "))
		case seen[key.Value]:
			return p.fault(key, path, "key %q is given twice; keep one", key.Value)
		case value.Kind == yaml.AliasNode:
			return p.fault(value, path, "aliases are not read; write the value out")
		}
		seen[key.Value] = true
		if err := each(key.Value, key, value); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) text(n *yaml.Node, path string) (string, error) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		return "", p.fault(n, path, "must be a text")
	}
	return n.Value, nil
}

// inline writes a YAML value on one line, as in a setting.
func (p *parser) inline(n *yaml.Node, path string) (string, error) {
	if n.Kind == yaml.ScalarNode {
		if strings.Contains(n.Value, "\n") {
			return "", p.fault(n, path, "must be on one line")
		}
		if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
			return strconv.Quote(n.Value), nil
		}
		return n.Value, nil
	}
	flow := *n
	flow.Style = yaml.FlowStyle
	out, err := yaml.Marshal(&flow)
	if err != nil {
		return "", p.fault(n, path, "cannot be written as a setting: %v", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// settings reads a mapping of dotted keys to values, in the file's order.
func (p *parser) settings(n *yaml.Node, path string) ([]string, error) {
	var out []string
	err := p.mapping(n, path, nil, func(key string, at, value *yaml.Node) error {
		if key == "policies" || key == "seeds" || key == "name" {
			return p.fault(at, path, "%s is no setting of a cell; give it at the top of the file", key)
		}
		text, err := p.inline(value, path+"."+key)
		out = append(out, key+"="+text)
		return err
	})
	return out, err
}
