package scenarios

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// settingLine is the "line" of the first setting: below 0, and before the
// file's in the order of errors.
const settingLine = -1 << 20

// applySetting puts "topology.pods=2" into the tree and makes missing sections.
// The value gets a line below 0, so errors show that it is not a line
// of the file. A list can be set as a whole, its elements cannot.
func applySetting(f *faults, tree *yaml.Node, setting string, i int) {
	line := settingLine + i
	path, text, ok := strings.Cut(setting, "=")
	if !ok || path == "" {
		f.addAt(line, "", "%q must be KEY=VALUE, such as topology.pods=2", clip(setting))
		return
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil || len(doc.Content) != 1 {
		f.addAt(line, path, "value %q is not YAML", clip(text))
		return
	}
	value := doc.Content[0]
	relocate(value, line)
	at := tree
	keys := strings.Split(path, ".")
	for depth, key := range keys {
		if at.Kind == yaml.AliasNode && at.Alias != nil {
			at = at.Alias
		}
		if at.Kind != yaml.MappingNode {
			if !isNull(at) {
				f.addAt(line, path, "%s holds no keys", strings.Join(keys[:depth], "."))
				return
			}
			*at = yaml.Node{Kind: yaml.MappingNode, Line: at.Line}
		}
		next := peek(at, key)
		if next.Kind == 0 {
			next = &yaml.Node{Kind: yaml.MappingNode, Line: line}
			at.Content = append(at.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key, Line: line}, next)
		}
		at = next
	}
	*at = *value
}

// relocate moves a tree to a line. Aliases are left as they are: their targets
// are in the same value.
func relocate(n *yaml.Node, line int) {
	n.Line = line
	for _, c := range n.Content {
		relocate(c, line)
	}
}
