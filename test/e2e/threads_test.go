package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNoThreadIsLeftInALab: entering a namespace changes a thread. If the thread were not
// restored or ended, it would do the host's work in the lab's namespace.
func TestNoThreadIsLeftInALab(t *testing.T) {
	clean(t)
	before := network(t)
	s := scenario(t, "e2e-threads", "requests: 8", "requests: 40")
	cmd, _, errs := command(t.Context(), t.TempDir(), "up", s)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=16")
	require.NoError(t, cmd.Start())
	waitFor(t, 20*time.Second, "the run to begin", func() bool { return strings.Contains(errs.String(), "trial 1 of") })
	host, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/ns/net", cmd.Process.Pid))
	require.NoError(t, err)
	require.NotEmpty(t, threads)
	for _, th := range threads {
		if ns, err := os.Readlink(th); err == nil { // the thread may have ended
			assert.Equal(t, host, ns, th)
		}
	}
	assert.Equal(t, before, network(t), "the host's network during the run")
	agentsAtHome(t, "e2e-threads")
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
}

// agentsAtHome checks that every agent's threads are in its own node's namespace.
func agentsAtHome(t *testing.T, lab string) {
	t.Helper()
	for _, pid := range strings.Fields(sh(t, "pgrep -f '[k]vagent.*/"+lab+"/'")) {
		env, err := os.ReadFile("/proc/" + pid + "/environ")
		require.NoError(t, err)
		node := ""
		for _, v := range strings.Split(string(env), "\x00") {
			if name, ok := strings.CutPrefix(v, "NETKVLAB_NODE="); ok {
				node = name
			}
		}
		require.NotEmpty(t, node, "process %s", pid)
		want := strings.TrimSpace(sh(t, "stat -Lc %i /run/netns/"+lab+"."+node))
		for _, inode := range strings.Fields(sh(t, "stat -Lc %i /proc/"+pid+"/task/*/ns/net")) {
			assert.Equal(t, want, inode, "a thread of the agent of %s", node)
		}
	}
}
