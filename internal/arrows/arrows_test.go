package arrows

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/netkvlab/netkvlab"

// list asks the go command for every package of the module.
func list(t *testing.T) []Package {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Imports", module+"/...")
	cmd.Dir = "../.."
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

func TestImportsFollowTheHouse(t *testing.T) {
	t.Parallel()
	packages := list(t)
	// The scan itself must see imports, or a clean result means nothing.
	seen := false
	for _, p := range packages {
		for _, i := range p.Imports {
			seen = seen || p.ImportPath == module+"/fabric" && i == module+"/scenarios"
		}
	}
	require.True(t, seen, "fabric imports scenarios, but the scan of %d packages did not see it", len(packages))
	for _, fault := range Check(module, House(), packages) {
		t.Error(fault)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	pkg := func(folder string, imports ...string) Package {
		p := Package{ImportPath: module + "/" + folder, Imports: []string{"fmt", "example.org/utils"}}
		for _, i := range imports {
			p.Imports = append(p.Imports, module+"/"+i)
		}
		return p
	}
	tests := []struct {
		name string
		in   []Package
		want []string
	}{
		{name: "a row's own entry is fine", in: []Package{pkg("fabric", "scenarios")}},
		{name: "what an allowed room may import is fine", in: []Package{pkg("fabric/kernel", "fabric", "scenarios")}},
		{name: "the same room is fine", in: []Package{pkg("fabric/kernel/probe", "fabric/kernel")}},
		{name: "the command line sees everything", in: []Package{pkg("cmd/netkvlab", "internal/lab", "flowsim", "scheduler")}},
		{
			name: "the scheduler stands alone", in: []Package{pkg("scheduler", "fabric")},
			want: []string{"scheduler imports fabric: scheduler may not import fabric"},
		},
		{
			name: "a plan does not touch the kernel", in: []Package{pkg("fabric", "fabric/kernel")},
			want: []string{"fabric imports fabric/kernel: fabric may not import fabric/kernel"},
		},
		{
			name: "an arrow does not turn round through a sub-folder", in: []Package{pkg("kvagent/engine/batch", "kvagent/control")},
			want: []string{"kvagent/engine/batch imports kvagent/control: kvagent/engine may not import kvagent"},
		},
		{
			name: "nobody imports the command line", in: []Package{pkg("internal/lab", "cmd/netkvlab/flags")},
			want: []string{"internal/lab imports cmd/netkvlab/flags: internal may not import cmd"},
		},
		{
			name: "two rooms do not lean on each other", in: []Package{pkg("fabric/plan", "scenarios"), pkg("scenarios/units", "fabric/rates")},
			want: []string{
				"fabric: imports itself by way of another room",
				"scenarios/units imports fabric/rates: scenarios may not import fabric",
				"scenarios: imports itself by way of another room",
			},
		},
		{
			name: "utils is no name", in: []Package{pkg("internal/utils")},
			want: []string{"internal/utils: a package called utils has no idea of its own; name what it does"},
		},
		{
			name: "a new folder needs a row", in: []Package{pkg("extras")},
			want: []string{"extras: has no room; give it a row in internal/arrows and docs/architecture.md"},
		},
		{
			name: "nothing looked at is a fault", in: []Package{{ImportPath: "example.org/other"}},
			want: []string{"no package of " + module + " was looked at"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, Check(module, House(), tt.in))
		})
	}
}

func TestTheHouseItselfIsSound(t *testing.T) {
	t.Parallel()
	edges := make(map[string][]string)
	folders := make(map[string]bool)
	for _, r := range House() {
		assert.False(t, folders[r.Folder], "%s has two rows", r.Folder)
		folders[r.Folder] = true
		edges[r.Folder] = r.MayImport
	}
	for _, r := range House() {
		for _, name := range r.MayImport {
			assert.True(t, folders[name], "%s may import %s, which has no row", r.Folder, name)
		}
	}
	assert.Empty(t, cycles(House(), edges))
}
