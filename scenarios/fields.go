package scenarios

import (
	_ "embed" // the doc comments of scenario.go are the descriptions of the keys
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed scenario.go
var scenarioSource string

// kind is what a value is in YAML.
type kind int

const (
	kindText kind = iota
	kindFlag
	kindInteger
	kindSeed // an unsigned 64-bit integer
	kindNumber
	kindBytes
	kindRate
	kindDuration
	kindPerSecond
	kindList
	kindSection
)

// kinds say of each kind what it is called in messages and documents, which JSON type describes
// it, which type holds it, and how a quantity with a unit is spelled.
var kinds = [...]struct {
	noun, json string
	typ        reflect.Type
	example    string
}{
	kindText:      {"text", "string", reflect.TypeFor[string](), ""},
	kindFlag:      {"true or false", "boolean", reflect.TypeFor[bool](), ""},
	kindInteger:   {"whole number", "integer", reflect.TypeFor[int](), ""},
	kindSeed:      {"whole number", "integer", reflect.TypeFor[uint64](), ""},
	kindNumber:    {"number", "number", reflect.TypeFor[float64](), ""},
	kindBytes:     {"size", "string", reflect.TypeFor[Bytes](), aSize.example},
	kindRate:      {"rate", "string", reflect.TypeFor[BitsPerSecond](), aRate.example},
	kindDuration:  {"time", "string", reflect.TypeFor[time.Duration](), aTime.example},
	kindPerSecond: {"arrival rate", "string", nil, anArrivalRate.example}, // a float64 with the tag unit
	kindList:      {"list", "array", nil, ""},
	kindSection:   {"mapping", "object", nil, ""},
}

func (f *field) noun() string { return kinds[f.kind].noun }

// field describes one key, or one kind of element of a list: everything that
// the decoder, the checks, the schema and the reference page know about it.
type field struct {
	key     string
	index   int // of the struct field
	typ     reflect.Type
	kind    kind
	fields  []*field // of a section
	elem    *field   // of a list
	doc     string
	enum    []string
	pattern *regexp.Regexp
	// patternDoc describes the pattern in words.
	patternDoc string
	// rangeText is the range as written in the tag, such as 1..64 or 1MB..100TB.
	rangeText string
	// lo and hi hold the range: whole numbers as int64, numbers as float64.
	lo, hi reflect.Value
	// least and most bound the length of a list; most 0 means no bound.
	least, most int
	auto        bool   // 0 is spelled auto
	optional    bool   // left out when zero
	bare        string // a section of which a bare scalar gives this key
	defaultDoc  string // where the default is no constant
	required    bool   // has no default
	derived     bool   // filled in from other keys when 0, and checked there
}

// root is the tree of all keys. It is built once and never changes.
var root = sync.OnceValue(func() *field {
	f := &field{typ: reflect.TypeFor[Scenario](), kind: kindSection}
	f.fields = sectionFields(f.typ, sourceComments(scenarioSource))
	return f
})

func sectionFields(t reflect.Type, comments map[string]string) []*field {
	var list []*field
	for i := range t.NumField() {
		sf := t.Field(i)
		key, options, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		if key == "-" {
			continue
		}
		f := newField(sf.Type, sf.Tag, comments)
		f.key, f.index = key, i
		f.doc = comments[t.Name()+"."+sf.Name]
		f.optional = options == "omitempty"
		list = append(list, f)
	}
	return list
}

func newField(t reflect.Type, tag reflect.StructTag, comments map[string]string) *field {
	f := &field{typ: t, auto: tag.Get("auto") != "", defaultDoc: tag.Get("default"), derived: tag.Get("derived") != "", required: tag.Get("required") != ""}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct:
		f.kind, f.fields = kindSection, sectionFields(t, comments)
		if t == reflect.TypeFor[Policy]() {
			f.bare = "name"
		}
	case reflect.Slice:
		f.kind, f.elem = kindList, newField(t.Elem(), tag, comments)
		least, most, _ := strings.Cut(tag.Get("items"), "..")
		f.least, _ = strconv.Atoi(least)
		f.most, _ = strconv.Atoi(most)
	default:
		for k := range kinds {
			if kinds[k].typ == t {
				f.kind = kind(k)
			}
		}
		if tag.Get("unit") == "perSecond" {
			f.kind = kindPerSecond
		}
		f.readTag(tag)
	}
	return f
}

// enumSets are the word lists that have tables of their own.
var enumSets = map[string]func() []string{
	"@models": modelNames, "@engines": engineNames, "@profiles": profileNames, "@policies": PolicyNames,
}

func (f *field) readTag(tag reflect.StructTag) {
	if words := tag.Get("enum"); strings.HasPrefix(words, "@") {
		f.enum = enumSets[words]()
	} else if words != "" {
		f.enum = strings.Split(words, "|")
	}
	if p := tag.Get("pattern"); p != "" {
		f.pattern, f.patternDoc = regexp.MustCompile(p), tag.Get("patternDoc")
	}
	f.rangeText = tag.Get("range")
	if f.rangeText == "" {
		return
	}
	lo, hi, _ := strings.Cut(f.rangeText, "..")
	f.lo, f.hi = f.mustScan(lo), f.mustScan(hi)
}

// mustScan reads a bound of a range tag. A tag that cannot be read is a fault of
// this package; its first test finds it.
func (f *field) mustScan(text string) reflect.Value {
	v := reflect.New(f.typ).Elem()
	if err := f.scan(text, v); err != nil {
		panic(fmt.Sprintf("range tag %q: %v", f.rangeText, err))
	}
	return v
}

// child returns the key of a section, or nil.
func (f *field) child(key string) *field {
	for _, c := range f.fields {
		if c.key == key {
			return c
		}
	}
	return nil
}

func (f *field) keys() []string {
	var list []string
	for _, c := range f.fields {
		list = append(list, c.key)
	}
	return list
}

// at returns the child's value in a section's value, following the pointer of
// an optional section; the result is invalid where there is no section.
func (f *field) at(section reflect.Value) reflect.Value {
	if section.IsValid() && section.Kind() == reflect.Pointer {
		section = section.Elem()
	}
	if !section.IsValid() {
		return section
	}
	return section.Field(f.index)
}

// sourceComments reads the doc comments of struct fields ("Topology.Pods") and types ("Topology")
// from Go source, each as one line. So users and programmers see the same descriptions.
func sourceComments(source string) map[string]string {
	comments := map[string]string{}
	file, err := parser.ParseFile(token.NewFileSet(), "scenario.go", source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return comments // impossible, because the source was compiled; without comments only descriptions are missing
	}
	var doc, name string // of the type
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			doc = n.Doc.Text()
		case *ast.TypeSpec:
			name = n.Name.Name
			comments[name] = oneLine(doc)
		case *ast.Field:
			for _, key := range n.Names {
				comments[name+"."+key.Name] = oneLine(n.Doc.Text() + n.Comment.Text())
			}
		}
		return true
	})
	return comments
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
