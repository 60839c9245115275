package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// listed is a package in the output of `go list -json`.
type listed struct {
	Dir, ImportPath                           string
	TestGoFiles, XTestGoFiles, IgnoredGoFiles []string
	Module                                    struct{ Path string }
}

// kernelMarks are texts in the tests of packages that make namespaces: the environment variable
// with the required features, or the import of the helper that reads it. (They are split here,
// so that this package does not contain them.)
var kernelMarks = [][]byte{[]byte("NETKVLAB_" + "MUST"), []byte(`/fabric/kernel/` + `ktest"`)}

// selectLane returns the lane's packages, one per line. The timing lane's first line is the -run
// flag that chooses its tests.
func selectLane(goCmd, lane string) ([]string, error) {
	if !slices.Contains([]string{"unit", "kernel", "timing", "e2e"}, lane) {
		return nil, fmt.Errorf("unknown lane %q: unit, kernel, timing or e2e", lane)
	}
	// With -race, files with the constraint !race, the timing tests, are listed as ignored.
	cmd := exec.Command(goCmd, "list", "-race", "-e", "-json=Dir,ImportPath,TestGoFiles,XTestGoFiles,IgnoredGoFiles,Module", "./...")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1") // which the race detector wants
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	packages, err := decode(out)
	if err != nil {
		return nil, err
	}
	var lines, tests []string
	for _, p := range packages {
		name, err := laneOf(p)
		if err != nil {
			return nil, err
		}
		if lane != "timing" {
			if name == lane {
				lines = append(lines, p.ImportPath+"\n")
			}
			continue
		}
		timed, err := timingTests(p)
		if err != nil {
			return nil, err
		}
		if name != "e2e" && len(timed) > 0 {
			lines = append(lines, p.ImportPath+"\n")
			tests = append(tests, timed...)
		}
	}
	if len(tests) > 0 {
		slices.Sort(tests)
		lines = slices.Insert(lines, 0, "-run=^("+strings.Join(slices.Compact(tests), "|")+")$\n")
	}
	return lines, nil
}

func decode(list []byte) ([]listed, error) {
	var packages []listed
	for d := json.NewDecoder(bytes.NewReader(list)); ; {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		packages = append(packages, p)
	}
	if len(packages) == 0 {
		return nil, errors.New("go list found no package here")
	}
	return packages, nil
}

// laneOf returns unit, kernel or e2e for a package. A package without tests is in unit, where it
// is at least compiled.
func laneOf(p listed) (string, error) {
	if strings.HasPrefix(p.ImportPath, p.Module.Path+"/test/") {
		return "e2e", nil
	}
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles, raceless(p)) {
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return "", err
		}
		for _, mark := range kernelMarks {
			if bytes.Contains(text, mark) {
				return "kernel", nil
			}
		}
	}
	return "unit", nil
}

// raceless returns the test files that the race detector excludes.
func raceless(p listed) []string {
	var names []string
	for _, name := range p.IgnoredGoFiles {
		if strings.HasSuffix(name, "_test.go") {
			names = append(names, name)
		}
	}
	return names
}

// timingTests names the tests in files with //go:build !race.
func timingTests(p listed) ([]string, error) {
	var tests []string
	for _, name := range raceless(p) {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("timing tests of %s: %w", p.ImportPath, err)
		}
		if !saysNoRace(file) {
			continue
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
				tests = append(tests, f.Name.Name)
			}
		}
	}
	return tests, nil
}

func saysNoRace(file *ast.File) bool {
	for _, group := range file.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//go:build ") && strings.Contains(c.Text, "!race") {
				return true
			}
		}
	}
	return false
}
