package architecture

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Sizes of the Go code below a folder.
type Sizes struct {
	Rooms []string // folders directly below internal
	Lines int      // of product code

	// Named by file, line and function, or by folder and type, each with its size. These include
	// tools.
	Functions  map[string]int // lines of a function
	Parameters map[string]int // of a function or of a function type, without the receiver
	Methods    map[string]int // of a type; one that several platforms have their own of counts once

	methods map[string]bool // those counted: by folder, type and name
}

// Measure reads all code but tests, testdata and generated protocol. Rooms and lines are counted
// only in product code, without tools and test.
func Measure(root fs.FS) (*Sizes, error) {
	s := &Sizes{Functions: map[string]int{}, Parameters: map[string]int{}, Methods: map[string]int{}, methods: map[string]bool{}}
	return s, fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if skipFolder(name) {
				return fs.SkipDir
			}
			return nil
		case path.Ext(name) != ".go" || strings.HasSuffix(name, ".pb.go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(name, "tools/") && !strings.HasPrefix(name, "test/") {
			s.addProduct(name, text)
		}
		return s.addCode(name, text)
	})
}

// skipFolder selects folders that are not part of the repository, and test data.
func skipFolder(name string) bool {
	base := path.Base(name)
	return name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || name == "bin")
}

func (s *Sizes) addProduct(name string, text []byte) {
	s.Lines += bytes.Count(text, []byte("\n"))
	if rest, ok := strings.CutPrefix(name, "internal/"); ok {
		if room, _, _ := strings.Cut(rest, "/"); !slices.Contains(s.Rooms, room) {
			s.Rooms = append(s.Rooms, room)
		}
	}
}

func (s *Sizes) addCode(name string, text []byte) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, decl := range file.Decls {
		line := func(p token.Pos) int { return files.Position(p).Line }
		within := "type or variable"
		if f, ok := decl.(*ast.FuncDecl); ok {
			within = f.Name.Name
			s.Functions[fmt.Sprintf("%s:%d %s", name, line(f.Pos()), within)] = line(f.End()) - line(f.Pos()) + 1
			if f.Recv.NumFields() == 1 {
				s.addMethod(path.Dir(name)+" "+receiver(f.Recv.List[0].Type), within)
			}
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			if f, ok := n.(*ast.FuncType); ok {
				where := files.Position(f.Pos())
				s.Parameters[fmt.Sprintf("%s:%d:%d %s", name, where.Line, where.Column, within)] = f.Params.NumFields()
			}
			return true
		})
	}
	return nil
}

func (s *Sizes) addMethod(typ, method string) {
	if key := typ + "." + method; !s.methods[key] {
		s.methods[key] = true
		s.Methods[typ]++
	}
}

// receiver returns the type name of a method.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	}
	return "?"
}

// Over lists everything above the limit, largest first.
func Over(limit int, sizes map[string]int) []string {
	var names []string
	for name, n := range sizes {
		if n > limit {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if d := sizes[b] - sizes[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s: %d", name, sizes[name])
	}
	return names
}
