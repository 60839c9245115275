package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Otherwise the first run under sudo would leave a netkvlab-runs that the same user's later runs
// without sudo could not write to.
func TestRunFolderUnderSudoGoesToTheOwnerOfWhatIsAroundIt(t *testing.T) {
	t.Parallel()
	const caller, other, root = "12345", "54321", "0"
	for _, tt := range []struct {
		name               string
		home, runs         string // owners before; empty runs: it does not exist
		args               []string
		runsAfter, isAfter string
	}{
		{"the first run makes netkvlab-runs too", caller, "", nil, caller, caller},
		{"a later run finds it", caller, caller, nil, caller, caller},
		{"somebody else's runs stay theirs", caller, other, nil, other, root},
		{"root's folder stays root's", root, "", nil, root, root},
		{"a folder named by --out", caller, "", []string{"--out", "netkvlab-runs"}, caller, caller},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			runs := filepath.Join(home, "netkvlab-runs")
			if tt.runs != "" {
				require.NoError(t, os.Mkdir(runs, 0o755))
				chown(t, runs, tt.runs)
			}
			chown(t, home, tt.home)
			cmd, out, errs := command(t.Context(), home, append([]string{"sim", "quickstart"}, tt.args...)...)
			cmd.Env = append(os.Environ(), "SUDO_UID="+caller, "SUDO_GID="+caller)
			require.Zero(t, finish(t, cmd, out, errs).code, errs.String())

			assert.Equal(t, tt.home, owner(t, home))
			assert.Equal(t, tt.runsAfter, owner(t, runs))
			summaries := strings.Fields(sh(t, "find '"+runs+"' -name summary.json"))
			require.Len(t, summaries, 1)
			assert.Equal(t, tt.isAfter, owner(t, filepath.Dir(summaries[0])))
			assert.Equal(t, tt.isAfter, owner(t, summaries[0]))
		})
	}
}

func chown(t *testing.T, path, uid string) {
	t.Helper()
	n, err := strconv.Atoi(uid)
	require.NoError(t, err)
	require.NoError(t, os.Chown(path, n, n))
}

func owner(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Lstat(path)
	require.NoError(t, err)
	st, ok := info.Sys().(*syscall.Stat_t)
	require.True(t, ok)
	return strconv.Itoa(int(st.Uid))
}
