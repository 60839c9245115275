package architecture

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSizesKeepToTheirLimits(t *testing.T) {
	t.Parallel()
	s, err := Measure(os.DirFS(top))
	require.NoError(t, err)
	require.Greater(t, s.Lines, 10_000, "the scan did not see the code")
	tests := []struct {
		name string
		over []string
	}{
		{"rooms in internal, at most 15", Over(15, map[string]int{strings.Join(s.Rooms, " "): len(s.Rooms)})},
		{"lines of product code, at most 36,000", Over(36_000, map[string]int{"all": s.Lines})},
		{"lines of a function, at most 70", Over(70, s.Functions)},
		{"parameters, at most 6", Over(6, s.Parameters)},
		{"methods of a type, at most 20", Over(20, s.Methods)},
	}
	t.Logf("product code: %d lines, %d rooms in internal", s.Lines, len(s.Rooms))
	for _, tt := range tests {
		for _, over := range tt.over {
			t.Errorf("%s: %s", tt.name, over)
		}
	}
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	file := func(lines ...string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(strings.Join(lines, "\n") + "\n")}
	}
	ignored := file("package x", "func (s *S) Ignored(a, b, c int) {}")
	s, err := Measure(fstest.MapFS{
		"internal/a/a.go":          file("package a", "", "type S[T any] struct{}", "type F func(a, b int, c string)", "func (s *S[T]) One(a, b int) {", "	_ = func(x, _, _, _ int) {}", "}", "func (S[T]) Two() {}"),
		"internal/a/a_windows.go":  file("package a", "", "func (S[T]) Two() {}"), // again
		"internal/b/c/c.go":        file("package c"),
		"tools/t.go":               file("package t", "func Tool() {}"),
		"internal/a/a_test.go":     ignored,
		"internal/a/a.pb.go":       ignored,
		"internal/testdata/x/x.go": ignored,
		".git/x.go":                ignored,
		"bin/x.go":                 ignored,
	})
	require.NoError(t, err)
	slices.Sort(s.Rooms)
	s.methods = nil
	assert.Equal(t, &Sizes{
		Rooms: []string{"a", "b"}, Lines: 12,
		Functions:  map[string]int{"internal/a/a.go:5 One": 3, "internal/a/a.go:8 Two": 1, "internal/a/a_windows.go:3 Two": 1, "tools/t.go:2 Tool": 1},
		Parameters: map[string]int{"internal/a/a.go:4:8 type or variable": 3, "internal/a/a.go:5:1 One": 2, "internal/a/a.go:6:6 One": 4, "internal/a/a.go:8:1 Two": 0, "internal/a/a_windows.go:3:1 Two": 0, "tools/t.go:2:1 Tool": 0},
		Methods:    map[string]int{"internal/a S": 2},
	}, s)
	assert.Equal(t, []string{"internal/a/a.go:6:6 One: 4", "internal/a/a.go:4:8 type or variable: 3"}, Over(2, s.Parameters))
	_, err = Measure(fstest.MapFS{"a.go": file("no Go")})
	require.Error(t, err)
}
