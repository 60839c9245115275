package scenarios

import (
	"encoding/json"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func readSchema(t *testing.T) *schemaNode {
	t.Helper()
	data, err := Schema()
	require.NoError(t, err)
	var n schemaNode
	require.NoError(t, json.Unmarshal(data, &n))
	return &n
}

// accepts is the part of a JSON Schema validator that the keywords of
// schemaNode need. It need not find unknown keywords, because Schema cannot write any.
func (n *schemaNode) accepts(v any) bool {
	if len(n.AnyOf) > 0 && !slices.ContainsFunc(n.AnyOf, func(s *schemaNode) bool { return s.accepts(v) }) {
		return false
	}
	if n.Type != nil && !n.acceptsType(v) {
		return false
	}
	switch v := v.(type) {
	case string:
		return (len(n.Enum) == 0 || slices.Contains(n.Enum, v)) && (n.Pattern == "" || regexp.MustCompile(n.Pattern).MatchString(v))
	case int, uint64, float64:
		return len(n.Enum) == 0 && n.acceptsNumber(number(v))
	case []any:
		return len(v) >= n.MinItems && (n.MaxItems == 0 || len(v) <= n.MaxItems) &&
			(!n.Unique || allDifferent(v)) &&
			!slices.ContainsFunc(v, func(item any) bool { return n.Items != nil && !n.Items.accepts(item) })
	case map[string]any:
		return n.acceptsMapping(v)
	}
	return true
}

func allDifferent(items []any) bool {
	for i, item := range items {
		if slices.Contains(items[:i], item) {
			return false
		}
	}
	return true
}

func (n *schemaNode) acceptsType(v any) bool {
	names, many := n.Type.([]any)
	if !many {
		names = []any{n.Type}
	}
	return slices.ContainsFunc(names, func(name any) bool {
		switch v := v.(type) {
		case nil:
			return name == "null"
		case string:
			return name == "string"
		case bool:
			return name == "boolean"
		case int, uint64, float64:
			return name == "number" || name == "integer" && number(v).IsInt()
		case []any:
			return name == "array"
		default:
			return name == "object"
		}
	})
}

func number(v any) *big.Rat {
	r := new(big.Rat)
	switch v := v.(type) {
	case int:
		r.SetInt64(int64(v))
	case uint64:
		r.SetUint64(v)
	case float64:
		r.SetFloat64(v)
	}
	return r
}

func (n *schemaNode) acceptsNumber(v *big.Rat) bool {
	lo, hi := new(big.Rat), new(big.Rat)
	if _, ok := lo.SetString(string(n.Minimum)); ok && v.Cmp(lo) < 0 {
		return false
	}
	_, ok := hi.SetString(string(n.Maximum))
	return !ok || v.Cmp(hi) <= 0
}

func (n *schemaNode) acceptsMapping(v map[string]any) bool {
	for _, key := range n.Required {
		if _, ok := v[key]; !ok {
			return false
		}
	}
	for key, value := range v {
		if c := n.Properties[key]; c == nil && n.Additional != nil && !*n.Additional || c != nil && !c.accepts(value) {
			return false
		}
	}
	return true
}

func TestTheSchemaAcceptsEveryEmbeddedScenarioAsWrittenAndAsResolved(t *testing.T) {
	t.Parallel()
	schema := readSchema(t)
	for _, name := range Names() {
		file, ok := Embedded(name)
		require.True(t, ok)
		s, err := Parse(name+".yaml", file)
		require.NoError(t, err)
		resolved, err := s.Marshal()
		require.NoError(t, err)
		for _, text := range [][]byte{file, resolved} {
			var v any
			require.NoError(t, yaml.Unmarshal(text, &v))
			assert.True(t, schema.accepts(v), "%s:\n%s", name, text)
		}
	}
}

func TestTheSchemaRefusesWhatParseRefuses(t *testing.T) {
	t.Parallel()
	schema := readSchema(t)
	for _, text := range []string{
		"topology: {podz: 2}", "nam: x", "name: A", "name: 010", "topology: {pods: 0}", "topology: {pods: 65}", "topology: {pods: two}",
		"topology: {nicRate: 25gbps}", "topology: {nicRate: 25e9}", "topology: {nicRate: 25000000000}", "topology: {nicRate: 25Gibps}", "topology: {nicRate: -1Gbps}",
		"slo: {ttft: 4}", "slo: {ttft: 4 s}", "workload: {synthetic: {rate: 4}}", "scale: {rate: 0}", "scale: {rate: automatic}", "scale: {time: 0.01}",
		"transfer: {paths: randm}", "transfer: {integrity: 1}", "policies: [netkv]", "policies: [{label: x}]", "policies: [{name: rr, weight: 2}]",
		"seeds: []", "seeds: [1, 2, 1]", "seeds: [-1]", "seeds: [1.5]", "seeds: 1", "model: {preset: llama}", "model: {kvDtype: fp32}", "placement: {pattern: [prefil]}",
		"workload: {flows: {list: [{from: i0}]}}", "engine: {decode: {memory: 80}}", "buffers: auto", "topology: {buffers: {switchEmulated: 64}}", "topology: 4",
	} {
		var v any
		require.NoError(t, yaml.Unmarshal([]byte(text), &v), text)
		assert.False(t, schema.accepts(v), text)
		_, err := Parse("s.yaml", []byte(text))
		require.Error(t, err, text)
	}
}

func TestTheSchemaAcceptsEveryUnitSpelling(t *testing.T) {
	t.Parallel()
	schema := readSchema(t)
	for _, row := range rateSpellings {
		for _, unit := range row.units {
			assert.True(t, schema.accepts(map[string]any{"topology": map[string]any{"nicRate": "2.5 " + unit}}), unit)
		}
	}
	for _, text := range []string{"auto", "64KiB", "5KB", "1.5 MB"} {
		assert.True(t, schema.accepts(map[string]any{"topology": map[string]any{"buffers": map[string]any{"hostEmulated": text}}}), text)
	}
	for _, text := range []string{"1.5s", "100ms", "8us", "8µs", "1h2m3s"} {
		assert.True(t, schema.accepts(map[string]any{"slo": map[string]any{"ttft": text}}), text)
	}
}

// Every key of the structs is in the schema with a description, and the schema
// has no other: walked over the Go types, without the tree that made the schema.
func TestTheSchemaHasEveryKeyOfTheStructsAndNoOther(t *testing.T) {
	t.Parallel()
	keys := 0
	var walk func(typ reflect.Type, n *schemaNode, path string)
	walk = func(typ reflect.Type, n *schemaNode, path string) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			if typ.Kind() == reflect.Slice {
				n = n.Items
			}
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct {
			return
		}
		if len(n.AnyOf) > 0 {
			n = n.AnyOf[len(n.AnyOf)-1]
		}
		want := 0
		for i := range typ.NumField() {
			tag := typ.Field(i).Tag.Get("yaml")
			key := regexp.MustCompile(`^[^,]*`).FindString(tag)
			if key == "-" {
				continue
			}
			want++
			keys++
			child := n.Properties[key]
			require.NotNil(t, child, "%s.%s", path, key)
			assert.NotEmpty(t, child.Description, "%s.%s", path, key)
			walk(typ.Field(i).Type, child, path+"."+key)
		}
		assert.Len(t, n.Properties, want, path)
	}
	walk(reflect.TypeFor[Scenario](), readSchema(t), "")
	assert.Greater(t, keys, 100, "the walk saw the whole file")
}
