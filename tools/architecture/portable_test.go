package architecture

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

// checkFor type-checks a package and its dependencies for another system, and returns the
// errors. Compiling takes ten times as long and finds no more errors.
func checkFor(t *testing.T, goos, pattern string, overlay map[string][]byte) []string {
	t.Helper()
	folder, err := filepath.Abs(top)
	require.NoError(t, err)
	roots, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax,
		Context: t.Context(), Dir: folder, Overlay: overlay,
		Env: append(os.Environ(), "GOOS="+goos, "GOARCH=arm64", "CGO_ENABLED=0"),
	}, pattern)
	require.NoError(t, err)
	var faults []string
	seen := 0
	packages.Visit(roots, nil, func(p *packages.Package) {
		seen++
		for _, e := range p.Errors {
			faults = append(faults, e.Error())
		}
	})
	require.Greater(t, seen, 10, "the packages of %s and what they need", pattern)
	slices.Sort(faults)
	return faults
}

// TestTheCommandCompilesForMacOS: the flow world runs there, so code for all systems must not
// use Linux-only features.
func TestTheCommandCompilesForMacOS(t *testing.T) {
	if testing.Short() {
		t.Skip("reads the whole program for another system")
	}
	for _, fault := range checkFor(t, "darwin", "./cmd/netkvlab", nil) {
		t.Error(fault)
	}
	file, err := filepath.Abs(filepath.Join(top, "scheduler", "leak.go"))
	require.NoError(t, err)
	leak := map[string][]byte{file: []byte("package scheduler\n\nimport \"syscall\"\n\nvar _ = syscall.CLONE_NEWNET\n")}
	faults := checkFor(t, "darwin", "./scheduler", leak)
	require.NotEmpty(t, faults, "a leak must be seen")
	assert.Contains(t, faults[0], "CLONE_NEWNET")
	assert.Empty(t, checkFor(t, "linux", "./scheduler", leak))
}
