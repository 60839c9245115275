package scenarios

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds a scenario file; the longest sensible one, which contains ten thousand
// flows, has about 1 MB.
const maxFile = 2 << 20

// Load reads a scenario: ref is a path, or the name of an embedded scenario (see Names). A ref
// without a separator or extension is a name if the library has it, else a path. File names inside
// become absolute, and the weights in files of weights replace the names of these files. Settings
// override keys, each like "topology.pods=2" with the value in YAML; they are checked like the
// file. All faults are reported at once, see Error.
func Load(ref string, settings ...string) (*Scenario, error) {
	data, embedded := Embedded(ref)
	filename := ref + ".yaml" // in the current folder: an embedded scenario names the user's files
	if !embedded {
		filename = ref
		var err error
		if data, err = readFile(ref); err != nil {
			return nil, err
		}
	}
	s, err := parse(filename, data, settings)
	if err != nil {
		return nil, err
	}
	if s.Dir, err = filepath.Abs(s.Dir); err != nil {
		return nil, fmt.Errorf("folder of scenario %s: %w", ref, err)
	}
	if s.Workload.Trace != nil {
		s.Workload.Trace.File = s.Resolve(s.Workload.Trace.File)
	}
	if s.Workload.Flows != nil {
		s.Workload.Flows.File = s.Resolve(s.Workload.Flows.File)
	}
	if err := s.readWeights(); err != nil {
		return nil, err
	}
	return s, nil
}

// Resolve makes a file name of the scenario (Trace.File, Flows.File, Policy.Weights) usable:
// relative names start at Dir.
func (s *Scenario) Resolve(file string) string {
	if file == "" || filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(s.Dir, file)
}

// readFile reads a file of at most maxFile bytes. If there is no such file,
// the error lists the embedded scenarios.
func readFile(ref string) ([]byte, error) {
	file, err := os.Open(ref)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, &Error{File: ref, Msg: "no such file, and " + notOneOf("no embedded scenario", ref, Names())}
	case err != nil:
		return nil, unreadable(ref, err)
	}
	defer file.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, unreadable(ref, err)
	}
	return data, nil
}

// unreadable is the fault of a file that exists but cannot be read: for example a folder.
func unreadable(ref string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err // the message has the path already
	}
	return &Error{File: ref, Msg: "cannot be read as a scenario: " + err.Error()}
}

// Parse reads a scenario from memory. filename names it in errors; its folder is the
// start of relative file names, and its base name is the default of the name.
func Parse(filename string, data []byte) (*Scenario, error) {
	return parse(filename, data, nil)
}

func parse(filename string, data []byte, settings []string) (*Scenario, error) {
	f := &faults{file: filename, nodes: map[string]*yaml.Node{}}
	tree := readTree(f, data)
	for i, setting := range settings {
		if tree != nil {
			applySetting(f, tree, setting, i)
		}
	}
	if err := f.join(); err != nil {
		return nil, err
	}
	s := defaults(choose(tree))
	s.Dir = filepath.Dir(filename)
	(&decoder{faults: f, left: maxValues}).decode(root(), tree, reflect.ValueOf(s).Elem(), "")
	d := deriver{s, f}
	d.name()
	d.derive()
	checker(d).check(true)
	if err := f.join(); err != nil {
		return nil, err
	}
	return s, nil
}

// readTree parses the one YAML document of a file; nil when there is none.
func readTree(f *faults, data []byte) *yaml.Node {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	switch {
	case len(data) > maxFile:
		f.addAt(0, "", "is larger than %d bytes, so it is no scenario", maxFile)
		return nil
	case !utf8.Valid(data):
		f.addAt(0, "", "is not UTF-8 text")
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 1 && isNull(doc.Content[0]) {
		f.addAt(1, "", "is empty; a scenario needs at least one key, such as name: (see the embedded scenarios: %s)", strings.Join(Names(), ", "))
		return nil
	} else if err != nil {
		f.addSyntax(err, data)
		return nil
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		f.addAt(second.Line, "", "holds a second YAML document; a file holds one scenario")
	case !errors.Is(err, io.EOF):
		f.addSyntax(err, data)
	}
	if len(doc.Content) != 1 {
		f.addAt(1, "", "is no YAML document")
		return nil
	}
	return doc.Content[0]
}

// yamlLine is the form in which the YAML library gives a line.
var yamlLine = regexp.MustCompile(`^yaml: (?:line ([0-9]+): )?`)

func (f *faults) addSyntax(err error, data []byte) {
	msg, line := err.Error(), 1
	if m := yamlLine.FindStringSubmatch(msg); m != nil {
		msg = msg[len(m[0]):]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
		}
	}
	if at := tabLine(data); strings.Contains(msg, "cannot start any token") && at > 0 {
		line, msg = at, "a line is indented with a tab; YAML wants spaces"
	}
	f.addAt(line, "", "not YAML: %s", msg)
}

// tabLine is the first line that starts with a tab or spaces and a tab, or 0.
func tabLine(data []byte) int {
	for i, line := range bytes.Split(data, []byte("\n")) {
		if bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("\t")) {
			return i + 1
		}
	}
	return 0
}

// choose reads the keys that decide the defaults before the others. It ignores wrong
// values; the decoder reports them.
func choose(tree *yaml.Node) choice {
	c := choice{
		model:    peek(tree, "model", "preset").Value,
		engine:   peek(tree, "engine", "compute").Value,
		workload: peek(tree, "workload", "kind").Value,
		profile:  peek(tree, "workload", "synthetic", "profile").Value,
	}
	for _, kind := range workloadKinds {
		if c.workload == "" && peek(tree, "workload", kind).Kind != 0 {
			c.workload = kind
		}
	}
	return c
}

// peek finds a value by its keys; a zero node where there is none.
func peek(n *yaml.Node, keys ...string) *yaml.Node {
	n = target(n)
	if len(keys) == 0 {
		return n
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == keys[0] {
			return peek(n.Content[i+1], keys[1:]...)
		}
	}
	return &yaml.Node{}
}

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
		at = target(at)
		if isNull(at) {
			*at = yaml.Node{Kind: yaml.MappingNode, Line: at.Line}
		} else if at.Kind != yaml.MappingNode {
			f.addAt(line, path, "%s holds no keys", strings.Join(keys[:depth], "."))
			return
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
