package architecture

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

type goFile struct {
	set  *token.FileSet
	file *ast.File
}

func parseGo(name string, text []byte) (goFile, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution|parser.ParseComments)
	return goFile{set, file}, err
}

// goFunction is a function, a method or a literal that has a name.
type goFunction struct {
	name       string
	parameters []string
	variadic   bool
	body       *ast.BlockStmt
	calls      [][]string // its command lines, with marks for parameters
}

// parameter marks a parameter of the surrounding function within a word.
func parameter(name string) string { return hole + "parameter_" + name + "__" }

var parameterMark = regexp.MustCompile(hole + `parameter_(\w+?)__`)

// addFolder finds the commands of a package: calls of os/exec, and calls of its own functions
// that pass their parameters to such a call.
func (f *finder) addFolder(files []goFile) {
	scope := goScope{constants: map[string]string{}}
	for _, g := range files {
		scope.collect(g.file)
	}
	for range 6 { // a function that calls a function that calls os/exec
		for _, function := range scope.functions {
			function.calls = nil
			ast.Inspect(function.body, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					for _, words := range scope.commandLines(call, function) {
						if slices.ContainsFunc(words, parameterMark.MatchString) {
							function.calls = append(function.calls, words)
						}
					}
				}
				return true
			})
		}
	}
	for _, g := range files {
		f.addGenerators(g)
		ast.Inspect(g.file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				for _, words := range scope.commandLines(call, nil) {
					at := g.set.Position(call.Pos())
					f.add(fmt.Sprintf("%s:%d", at.Filename, at.Line), words)
				}
			}
			return true
		})
	}
}

// addGenerators adds the commands of `go generate`.
func (f *finder) addGenerators(g goFile) {
	for _, group := range g.file.Comments {
		for _, c := range group.List {
			if line, ok := strings.CutPrefix(c.Text, "//go:generate "); ok {
				at := g.set.Position(c.Pos())
				f.add(fmt.Sprintf("%s:%d", at.Filename, at.Line), strings.Fields(line))
			}
		}
	}
}

// goScope holds those names of a package that are needed here.
type goScope struct {
	constants map[string]string
	functions []*goFunction
}

func (s *goScope) collect(file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Body != nil {
				s.functions = append(s.functions, newFunction(n.Name.Name, n.Type, n.Body))
			}
		case *ast.AssignStmt:
			for i, right := range n.Rhs {
				literal, ok := right.(*ast.FuncLit)
				if name, named := n.Lhs[min(i, len(n.Lhs)-1)].(*ast.Ident); ok && named {
					s.functions = append(s.functions, newFunction(name.Name, literal.Type, literal.Body))
				}
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if i < len(n.Values) {
					if text := s.text(n.Values[i], nil); !strings.Contains(text, unknown) {
						s.constants[name.Name] = text
					}
				}
			}
		}
		return true
	})
}

func newFunction(name string, t *ast.FuncType, body *ast.BlockStmt) *goFunction {
	f := &goFunction{name: name, body: body}
	for _, field := range t.Params.List {
		for _, p := range field.Names {
			f.parameters = append(f.parameters, p.Name)
		}
		_, f.variadic = field.Type.(*ast.Ellipsis)
	}
	return f
}

// commandLines returns the command lines that a call runs. within is the function that contains
// the call, whose parameters stay as marks; it is nil outside of functions.
func (s *goScope) commandLines(call *ast.CallExpr, within *goFunction) [][]string {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok && x.Name == "exec" {
			skip := map[string]int{"Command": 0, "LookPath": 0, "CommandContext": 1}
			if n, ok := skip[f.Sel.Name]; ok && len(call.Args) > n {
				return [][]string{s.texts(call.Args[n:], within)}
			}
			return nil
		}
		return s.expand(f.Sel.Name, call, within)
	case *ast.Ident:
		return s.expand(f.Name, call, within)
	}
	return nil
}

// expand puts a call's arguments into the command lines of the called function.
func (s *goScope) expand(name string, call *ast.CallExpr, within *goFunction) [][]string {
	var lines [][]string
	for _, f := range s.functions {
		if f.name != name || len(f.calls) == 0 {
			continue
		}
		arguments := s.texts(call.Args, within)
		for _, words := range f.calls {
			lines = append(lines, f.fill(words, arguments))
		}
	}
	return lines
}

// fill replaces the marks of parameters by arguments. A variadic one becomes several words.
func (f *goFunction) fill(words, arguments []string) []string {
	var out []string
	for _, w := range words {
		last := len(f.parameters) - 1
		if f.variadic && w == parameter(f.parameters[last]) {
			if len(arguments) > last {
				out = append(out, arguments[last:]...)
			}
			continue
		}
		out = append(out, parameterMark.ReplaceAllStringFunc(w, func(mark string) string {
			i := slices.Index(f.parameters, parameterMark.FindStringSubmatch(mark)[1])
			if i < 0 || i >= len(arguments) {
				return unknown
			}
			return arguments[i]
		}))
	}
	return out
}

func (s *goScope) texts(args []ast.Expr, within *goFunction) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = s.text(a, within)
	}
	return out
}

var verb = regexp.MustCompile(`%[-+# 0-9.\[\]]*[a-zA-Z]`)

// text returns the value of an expression, with holes.
func (s *goScope) text(e ast.Expr, within *goFunction) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return s.text(e.X, within) + s.text(e.Y, within)
		}
	case *ast.ParenExpr:
		return s.text(e.X, within)
	case *ast.Ident:
		if within != nil && slices.Contains(within.parameters, e.Name) {
			return parameter(e.Name)
		}
		if text, ok := s.constants[e.Name]; ok {
			return text
		}
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Sprintf" && len(e.Args) > 0 {
			i := 0
			return verb.ReplaceAllStringFunc(s.text(e.Args[0], within), func(string) string {
				if i++; i < len(e.Args) {
					return s.text(e.Args[i], within)
				}
				return unknown
			})
		}
	}
	return unknown
}
