package scenarios

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Marshal writes the scenario as canonical YAML: every default written out,
// every quantity with its unit, keys in the order of the reference page. Parse
// gives the same scenario back, and equal scenarios give equal bytes.
func (s *Scenario) Marshal() ([]byte, error) {
	data, err := encode(toNode(root(), reflect.ValueOf(s)))
	if err != nil {
		return nil, fmt.Errorf("write scenario %s: %w", s.Name, err)
	}
	return data, nil
}

// encode writes a value as YAML.
func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err := errors.Join(enc.Encode(value), enc.Close())
	return b.Bytes(), err
}

func toNode(f *field, v reflect.Value) *yaml.Node {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch f.kind {
	case kindSection:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, c := range f.fields {
			if cv := c.at(v); !c.optional || !cv.IsZero() || isWeight(v, c) {
				n.Content = append(n.Content, textNode(c.key), toNode(c, cv))
			}
		}
		return n
	case kindList:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		if f.elem.kind != kindSection {
			n.Style = yaml.FlowStyle
		}
		for i := range v.Len() {
			n.Content = append(n.Content, toNode(f.elem, v.Index(i)))
		}
		return n
	case kindText:
		return textNode(v.String())
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: f.format(v)}
	}
}

// isWeight reports whether a key is a weight of cla, for which 0 does not mean the default.
func isWeight(section reflect.Value, c *field) bool {
	p, ok := section.Interface().(Policy)
	return ok && p.Name == "cla" && c.kind == kindNumber
}

// textNode is a text that reads back as a text: the encoder quotes what would
// be read as a number or a date. Several lines become one quoted line, since
// block style loses some leading and trailing blanks.
func textNode(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	if strings.Contains(text, "\n") {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}
