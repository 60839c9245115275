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

// listed is what `go list -json` tells of a package.
type listed struct {
	Dir, ImportPath                           string
	TestGoFiles, XTestGoFiles, IgnoredGoFiles []string
	Module                                    struct{ Path string }
}

// kernelMarks is what the tests of a package say when they make namespaces: they ask
// the environment by this name which features they may not miss, or import the
// helper that does. (Split, so that this package does not say it.)
var kernelMarks = [][]byte{[]byte("NETKVLAB_" + "MUST"), []byte(`/fabric/kernel/` + `ktest"`)}

// selectLane gives the lane's packages, one a line. The timing lane's first line is
// the -run flag that chooses its tests.
func selectLane(goCmd, lane string) ([]string, error) {
	if !slices.Contains([]string{"unit", "kernel", "timing", "e2e"}, lane) {
		return nil, fmt.Errorf("unknown lane %q: unit, kernel, timing or e2e", lane)
	}
	// With -race, files that say !race are listed as ignored: the timing tests.
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

// laneOf puts a package into unit, kernel or e2e. One without tests is in unit:
// there it is at least compiled.
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

// raceless are the test files left out under the race detector.
func raceless(p listed) []string {
	var names []string
	for _, name := range p.IgnoredGoFiles {
		if strings.HasSuffix(name, "_test.go") {
			names = append(names, name)
		}
	}
	return names
}

// timingTests names the tests in files that say //go:build !race.
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
