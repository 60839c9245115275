package scenarios

import (
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// maxValues bounds the values of one file, counted each time an alias repeats
// them, so that a few lines of nested aliases cannot fill the memory.
const maxValues = 200_000

// decoder fills a Scenario that already holds the defaults from a YAML tree.
// It checks keys, types and units; ranges and relations come later.
type decoder struct {
	*faults
	left int // values that may still be read
}

// decode reads n into v, a value of the field's type.
func (d *decoder) decode(f *field, n *yaml.Node, v reflect.Value, path string) {
	line := n.Line
	n = target(n)
	if d.left--; d.left < 0 {
		if d.left == -1 {
			d.addAt(line, path, "more than %d values, counting those repeated by aliases", maxValues)
		}
		return
	}
	d.nodes[path] = &yaml.Node{Line: line, Kind: n.Kind, Value: n.Value}
	switch f.kind {
	case kindSection:
		d.section(f, n, v, path)
	case kindList:
		d.list(f, n, v, path)
	default:
		d.scalar(f, n, v, path)
	}
}

func (d *decoder) section(f *field, n *yaml.Node, v reflect.Value, path string) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			// Only workload has optional sections, and the one of its kind exists already. The others
			// are named like their kinds: they get valid defaults here, and the checks refuse them later.
			v.Set(f.at(reflect.ValueOf(defaults(choice{workload: f.key}).Workload)))
		}
		v = v.Elem()
	}
	if isNull(n) {
		return // a section whose keys are all commented out
	}
	if f.bare != "" && n.Kind == yaml.ScalarNode {
		c := f.child(f.bare)
		d.decode(c, n, c.at(v), joinPath(path, c.key))
		return
	}
	if n.Kind != yaml.MappingNode {
		d.addf(path, "must be a mapping of keys (%s), got %s", strings.Join(f.keys(), ", "), describe(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if c := d.key(f, n.Content[i], seen, path); c != nil {
			d.decode(c, n.Content[i+1], c.at(v), joinPath(path, c.key))
		}
	}
}

// key finds the field a mapping key names, and reports it when unknown or given twice.
func (d *decoder) key(f *field, key *yaml.Node, seen map[string]int, path string) *field {
	line := key.Line
	key = target(key)
	c := f.child(key.Value)
	first, twice := seen[key.Value]
	switch {
	case key.Kind != yaml.ScalarNode:
		d.addAt(line, path, "a key must be a plain word, got %s", describe(key))
	case key.Value == "<<":
		d.addAt(line, path, "merge keys (<<) are not read; write the keys out")
	case c == nil:
		d.addAt(line, path, "%s", notOneOf("unknown key", key.Value, f.keys()))
	case twice:
		d.addAt(line, joinPath(path, key.Value), "given twice, first on line %d; keep one", first)
	default:
		seen[key.Value] = line
		return c
	}
	return nil
}

func (d *decoder) list(f *field, n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.addf(path, "must be a list, such as [a, b], got %s", describe(n))
		return
	}
	v.SetZero()
	if f.most > 0 && len(n.Content) > f.most {
		d.addf(path, "must have %d..%d items, got %d", f.least, f.most, len(n.Content))
		return
	}
	if len(n.Content) == 0 {
		return // the length is checked with the ranges
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		d.decode(f.elem, item, list.Index(i), indexPath(path, i))
	}
	v.Set(list)
}

func (d *decoder) scalar(f *field, n *yaml.Node, v reflect.Value, path string) {
	tag, text := n.ShortTag(), clip(n.Value)
	quoted := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	switch bad := unprintable(n.Value); {
	case isNull(n):
		d.addf(path, "has no value; give a %s or leave the key out", f.noun())
	case n.Kind != yaml.ScalarNode:
		d.addf(path, "must be a %s, got %s", f.noun(), describe(n))
	case f.kind == kindText && tag != "!!str":
		d.addf(path, "must be a text, but YAML reads %s as %s; quote it: %q", text, tagNoun(tag), text)
	case f.kind == kindText && bad != "":
		d.addf(path, "holds the character %s, which a text may not", bad)
	case quoted && kinds[f.kind].json != "string":
		d.addf(path, "must be a %s, got the quoted text %q; drop the quotes", f.noun(), text)
	default:
		if err := f.scan(n.Value, v); err != nil {
			d.addf(path, "%v, got %s", err, text)
		}
	}
}

// unprintable returns the first character of a text that would change when written
// and read again, or "".
func unprintable(text string) string {
	for _, r := range text {
		if r != '\n' && !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return fmt.Sprintf("%U", r)
		}
	}
	return ""
}

// target is the node that an alias stands for, else the node itself.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func joinPath(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func indexPath(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// describe says what a node is, for messages.
func describe(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return strconv.Quote(clip(n.Value))
	}
	return cmp.Or(map[yaml.Kind]string{yaml.MappingNode: "a mapping", yaml.SequenceNode: "a list"}[n.Kind], "nothing")
}

func tagNoun(tag string) string {
	nouns := map[string]string{"!!int": "a number", "!!float": "a number", "!!bool": "true or false", "!!timestamp": "a date"}
	return cmp.Or(nouns[tag], "something else ("+clip(tag)+")")
}
