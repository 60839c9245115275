package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/lab"
)

// TestAThousandGPUs builds the 1024-GPU cluster, queries each of its 256 agents, moves a few KV
// caches through it and removes it. A benchmark measures the time.
func TestAThousandGPUs(t *testing.T) {
	long(t)
	absent(t, "e2e-large")
	dir := t.TempDir()
	mustRun(t, "up", "-d", "1024gpu", "--set", "name=e2e-large", "--set", "workload.synthetic.requests=12", "--set", "workload.synthetic.output={mean: 8, sigma: 0, min: 1, max: 8}")

	var d lab.Detail
	require.NoError(t, json.Unmarshal([]byte(mustRun(t, "inspect", "e2e-large", "--output", "json").stdout), &d))
	assert.Equal(t, "ready", d.Status)
	roles, bytes := map[string]int{}, int64(0)
	for _, n := range d.Nodes {
		if n.Agent == nil {
			continue
		}
		assert.True(t, n.Agent.Answers, "agent %s: %s", n.Node, n.Agent.Error)
		roles[n.Agent.Role]++
		bytes += proportional(t, n.Agent.PID)
	}
	assert.Equal(t, map[string]int{"prefill": 128, "decode": 128}, roles)
	// The rest of 4 GiB is for the kernel: 0.3 MiB per namespace, 1 MiB per process, sockets.
	t.Logf("256 agents use %d MiB", bytes>>20)
	assert.Less(t, bytes, int64(3<<30))

	o := netkvlabIn(t, dir, "run", "e2e-large", "--policies", "rr", "--worlds", "packet", "--out", filepath.Join(dir, "out"))
	require.Zero(t, o.code, "%s%s", o.stdout, o.stderr)
	s := summary(t, filepath.Join(dir, "out"))
	assert.Equal(t, 12, s.Worlds["packet"]["rr"].Requests.Completed)

	mustRun(t, "down", "e2e-large")
	nothingOf(t, "e2e-large")
}

// proportional is a process's proportional set size (PSS): memory shared by several processes
// counts in equal parts.
func proportional(t *testing.T, pid int) int64 {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "Pss:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			require.NoError(t, err)
			return kib << 10
		}
	}
	t.Fatalf("process %d: no Pss in smaps_rollup", pid)
	return 0
}
