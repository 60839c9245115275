package architecture

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/netkvlab/netkvlab"

const top = "../.." // of the repository

// list asks the go command for every package of the module in a folder.
func list(t *testing.T, folder string) []Package {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Imports", "./...")
	cmd.Dir = folder
	out, err := cmd.Output()
	require.NoError(t, err)
	var packages []Package
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p Package
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		require.NoError(t, err)
		packages = append(packages, p)
	}
}

func table(t *testing.T) Table {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, TableFile))
	require.NoError(t, err)
	table, err := ParseTable(string(text))
	require.NoError(t, err)
	return table
}

func TestImportsFollowTheHouse(t *testing.T) {
	t.Parallel()
	packages := slices.Concat(list(t, top), list(t, filepath.Join(top, "tools")))
	// The scan must find these imports; otherwise a result without faults proves nothing.
	for from, to := range map[string]string{"/fabric": "/scenarios", "/tools/paper": "/internal/results"} {
		require.True(t, slices.ContainsFunc(packages, func(p Package) bool {
			return p.ImportPath == module+from && slices.Contains(p.Imports, module+to)
		}), "%s imports %s, but the scan of %d packages did not see it", from, to, len(packages))
	}
	for _, fault := range CheckImports(module, table(t), packages) {
		t.Error(fault)
	}
}

// sample is a table for the tests of the checker.
var sample = Table{
	{Folder: "cmd", Any: true},
	{Folder: "internal/lab", MayImport: []string{"fabric/kernel"}},
	{Folder: "scenarios"},
	{Folder: "fabric", MayImport: []string{"scenarios"}},
	{Folder: "fabric/kernel", MayImport: []string{"fabric"}},
	{Folder: "kvagent", MayImport: []string{"kvagent/engine"}},
	{Folder: "kvagent/engine"},
	{Folder: "scheduler"},
}

func TestCheckImports(t *testing.T) {
	t.Parallel()
	pkg := func(folder string, imports ...string) Package {
		p := Package{ImportPath: module + "/" + folder, Imports: []string{"fmt", "example.org/utils"}}
		for _, i := range imports {
			p.Imports = append(p.Imports, module+"/"+i)
		}
		return p
	}
	// These use every row of the sample, so that a case has only its own faults.
	all := []Package{
		pkg("cmd/netkvlab", "internal/lab", "scheduler"), pkg("internal/lab", "fabric/kernel"), pkg("scenarios"), pkg("fabric", "scenarios"),
		pkg("fabric/kernel", "fabric"), pkg("kvagent", "kvagent/engine"), pkg("kvagent/engine"), pkg("scheduler"),
	}
	tests := []struct {
		name string
		in   []Package
		want []string
	}{
		{name: "entries of the rows are fine", in: nil},
		{name: "what an allowed room may import is fine", in: []Package{pkg("internal/lab/store", "fabric", "scenarios")}},
		{name: "the same room is fine", in: []Package{pkg("fabric/kernel/probe", "fabric/kernel")}},
		{
			name: "the scheduler stands alone", in: []Package{pkg("scheduler/more", "fabric")},
			want: []string{"scheduler/more imports fabric: scheduler may not import fabric"},
		},
		{
			name: "a plan does not touch the kernel", in: []Package{pkg("fabric/plan", "fabric/kernel")},
			want: []string{
				"fabric/kernel: imports itself by way of another room",
				"fabric/plan imports fabric/kernel: fabric may not import fabric/kernel",
				"fabric: imports itself by way of another room",
			},
		},
		{
			name: "an arrow does not turn round through a sub-folder", in: []Package{pkg("kvagent/engine/batch", "kvagent/control")},
			want: []string{
				"kvagent/engine/batch imports kvagent/control: kvagent/engine may not import kvagent",
				"kvagent/engine: imports itself by way of another room",
				"kvagent: imports itself by way of another room",
			},
		},
		{
			name: "nobody imports the command line", in: []Package{pkg("internal/lab/flags", "cmd/netkvlab/flags")},
			want: []string{
				"cmd: imports itself by way of another room",
				"internal/lab/flags imports cmd/netkvlab/flags: internal/lab may not import cmd",
				"internal/lab: imports itself by way of another room",
			},
		},
		{
			name: "utils is no name", in: []Package{pkg("fabric/utils")},
			want: []string{"fabric/utils: a package called utils has no idea of its own; name what it does"},
		},
		{
			name: "a new folder needs a row, also in internal", in: []Package{pkg("extras"), pkg("internal/extras")},
			want: []string{
				"extras: has no room; give it a row in docs/architecture.md",
				"internal/extras: has no room; give it a row in docs/architecture.md",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, CheckImports(module, sample, slices.Concat(all, tt.in)))
		})
	}

	assert.Equal(t, []string{"no package of " + module + " was looked at"}, CheckImports(module, sample, []Package{{ImportPath: "example.org/other"}}))
	wide := Table{
		{Folder: "scenarios"}, {Folder: "fabric", MayImport: []string{"scenarios"}},
		{Folder: "lab", MayImport: []string{"fabric", "scenarios", "scheduler"}}, {Folder: "scheduler"}, {Folder: "gone"},
	}
	assert.Equal(t, []string{
		"gone: has a row in docs/architecture.md but no package",
		"lab: may import scenarios through another entry already; take it out of its row in docs/architecture.md",
		"lab: may import scheduler but does not; take it out of its row in docs/architecture.md",
	}, CheckImports(module, wide, []Package{pkg("scenarios"), pkg("fabric", "scenarios"), pkg("scheduler"), pkg("lab", "fabric", "scenarios")}))
}

func TestTheTableIsReadStrictly(t *testing.T) {
	t.Parallel()
	read := func(rows string) (Table, error) {
		return ParseTable("# Architecture\n\n" + tableHead + "\n|---|---|---|\n" + rows + "\nMore text.\n")
	}
	got, err := read("| `a` | x | nothing of ours |\n| `b/c` | y, `z` | `a` |\n| `d/...` | z | everything |\n")
	require.NoError(t, err)
	assert.Equal(t, Table{{Folder: "a"}, {Folder: "b/c", MayImport: []string{"a"}}, {Folder: "d", Any: true}}, got)
	for rows, want := range map[string]string{
		"| `a` | x |\n":                                        "three cells",
		"| a | x | everything |\n":                             "a folder in backquotes",
		"| `a` | x | what it likes |\n":                        "rooms in backquotes",
		"| `a` | x | everything |\n| `a` | x | everything |\n": "a has two rows",
		"| `a` | x | `b` |\n":                                  "a may import b, which has no row",
	} {
		_, err := read(rows)
		require.ErrorContains(t, err, want)
	}
	_, err = ParseTable("# Architecture\n")
	require.ErrorContains(t, err, "no table")
}
