package scenarios

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// schemaNode is the part of JSON Schema that Schema uses. Its keywords mean the
// same in draft-07 and in 2020-12.
type schemaNode struct {
	Schema      string                 `json:"$schema,omitempty"`
	Title       string                 `json:"title,omitempty"`
	Description string                 `json:"description,omitempty"`
	Type        any                    `json:"type,omitempty"` // a name, or a list of them
	Enum        []string               `json:"enum,omitempty"`
	Pattern     string                 `json:"pattern,omitempty"`
	Minimum     json.Number            `json:"minimum,omitempty"`
	Maximum     json.Number            `json:"maximum,omitempty"`
	Items       *schemaNode            `json:"items,omitempty"`
	MinItems    int                    `json:"minItems,omitempty"`
	MaxItems    int                    `json:"maxItems,omitempty"`
	Unique      bool                   `json:"uniqueItems,omitempty"`
	Properties  map[string]*schemaNode `json:"properties,omitempty"`
	Required    []string               `json:"required,omitempty"`
	Additional  *bool                  `json:"additionalProperties,omitempty"`
	AnyOf       []*schemaNode          `json:"anyOf,omitempty"`
	Default     any                    `json:"default,omitempty"`
}

// Schema is the JSON Schema of a scenario file, for editors: every key with its meaning, type,
// range, allowed words and unit spelling, and no other key. It is draft-07, which YAML language
// servers support best, without keywords that 2020-12 reads differently. Only Parse checks the
// relations of several keys and the ranges of quantities with units.
func Schema() ([]byte, error) {
	top := root().schema(reflect.ValueOf(everyDefault()))
	top.Schema = "http://json-schema.org/draft-07/schema#"
	top.Title = "netkvlab scenario"
	data, err := json.MarshalIndent(top, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write schema: %w", err)
	}
	return append(data, '\n'), nil
}

// everyDefault is the scenario that an empty file would give, with the
// defaults of all three workloads in it.
func everyDefault() *Scenario {
	s := defaults(choice{})
	d := deriver{s, &faults{}}
	d.derive()
	d.rates()
	s.Workload.Trace = defaults(choice{workload: WorkloadTrace}).Workload.Trace
	s.Workload.Flows = defaults(choice{workload: WorkloadFlows}).Workload.Flows
	return s
}

// constantDefault is the default as JSON, nil where the key has none or where
// it follows from other keys.
func (f *field) constantDefault(v reflect.Value) any {
	switch {
	case !v.IsValid(), f.required, f.defaultDoc != "", f.optional && v.IsZero(), f.key == "name":
		return nil
	case f.auto:
		return f.format(v)
	}
	switch f.kind {
	case kindSection, kindList:
		return nil
	case kindFlag, kindInteger, kindNumber, kindSeed:
		return v.Interface()
	}
	return f.format(v)
}

// schema describes the field whose default is v; v is invalid within lists.
func (f *field) schema(v reflect.Value) *schemaNode {
	n := f.valueSchema(v)
	if f.auto {
		n = &schemaNode{AnyOf: []*schemaNode{{Enum: []string{"auto"}}, n}}
	}
	n.Description, n.Default = f.doc, f.constantDefault(v)
	if unit := f.unitHint(); unit != "" {
		n.Description = strings.TrimSpace(n.Description + " " + unit)
	}
	return n
}

// valueSchema is the schema without the description.
func (f *field) valueSchema(v reflect.Value) *schemaNode {
	n := &schemaNode{Type: kinds[f.kind].json}
	switch f.kind {
	case kindText:
		n.Enum = f.enum
		if f.pattern != nil {
			n.Pattern = f.pattern.String()
		}
	case kindFlag:
	case kindInteger, kindNumber:
		lo, hi, _ := strings.Cut(f.rangeText, "..")
		n.Minimum, n.Maximum = json.Number(lo), json.Number(hi)
	case kindSeed:
		n.Minimum, n.Maximum = "0", "18446744073709551615"
	case kindList:
		n.Items, n.MinItems, n.MaxItems, n.Unique = f.elem.schema(reflect.Value{}), f.least, f.most, f.elem.kind == kindSeed
	case kindSection:
		return f.sectionSchema(v)
	default:
		n.Pattern = f.unitPattern()
	}
	return n
}

func (f *field) sectionSchema(v reflect.Value) *schemaNode {
	n := &schemaNode{Type: []string{"object", "null"}, Additional: new(bool), Properties: map[string]*schemaNode{}}
	for _, c := range f.fields {
		n.Properties[c.key] = c.schema(c.at(v))
		if c.required {
			n.Required = append(n.Required, c.key)
		}
	}
	if f.bare == "" {
		return n
	}
	n.Type = "object"
	return &schemaNode{AnyOf: []*schemaNode{f.child(f.bare).valueSchema(reflect.Value{}), n}}
}

// unitPattern is the spelling of a quantity.
func (f *field) unitPattern() string {
	const number = `[0-9]+(\.[0-9]+)?`
	var names []string
	switch f.kind {
	case kindRate:
		for _, row := range rateSpellings {
			names = append(names, row.units...)
		}
	case kindBytes:
		for _, u := range sizeUnits {
			names = append(names, u.name)
		}
		names = append(names, "KB")
	case kindDuration:
		return `^(` + number + `(ns|us|µs|μs|ms|s|m|h))+$`
	default: // an arrival rate
		return `^` + number + ` ?/s$`
	}
	for i, name := range names {
		names[i] = regexp.QuoteMeta(name)
	}
	slices.Sort(names)
	return `^` + number + ` ?(` + strings.Join(names, "|") + `)$`
}

// unitHint gives the range and spelling of a quantity, which a pattern cannot express.
func (f *field) unitHint() string {
	if kinds[f.kind].example == "" {
		return ""
	}
	return fmt.Sprintf("Range %s; write it like %s.", f.allowed(), kinds[f.kind].example)
}
