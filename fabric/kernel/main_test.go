//go:build linux

package kernel_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/fabrictest"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/fabric/kernel/ktest"
	"github.com/netkvlab/netkvlab/scenarios"
)

// applyEnv makes this test binary a process that applies the lab named in it
// and then waits to be killed.
const (
	applyEnv = "NETKVLAB_TEST_APPLY"
	// removeEnv makes it a process that removes a lab and ends.
	removeEnv = "NETKVLAB_TEST_REMOVE"
)

// homeInode is the network namespace that the tests were started in.
var homeInode uint64

func TestMain(m *testing.M) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &st); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	homeInode = st.Ino
	if name := os.Getenv(applyEnv); name != "" {
		applyAndWait(name)
	}
	if name := os.Getenv(removeEnv); name != "" {
		if _, err := kernel.Remove(context.Background(), name, kernel.Options{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func applyAndWait(name string) {
	plan, err := fabric.New(fabrictest.Paper64(), scenarios.Scale{Rate: 400, Time: 1})
	if err == nil {
		_, err = kernel.Apply(context.Background(), name, plan, kernel.Options{Journal: func([]string) error {
			_, err := os.Stdout.WriteString("begin\n")
			return err
		}})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}

func mustPlan(tb testing.TB, s *scenarios.Scenario, rate float64) *fabric.Plan {
	tb.Helper()
	p, err := fabric.New(s, scenarios.Scale{Rate: rate, Time: 1})
	require.NoError(tb, err)
	return p
}

// smallTree is two pods of two racks of one server with two instances: every
// tier in 8 hosts and 12 switches.
func smallTree() *scenarios.Scenario {
	s := fabrictest.Paper64()
	s.Topology.Pods = 2
	return s
}

// lab is a lab name that is unique among running test processes.
func lab(tb testing.TB, suffix string) string {
	tb.Helper()
	return fmt.Sprintf("t%d-%s", os.Getpid(), suffix)
}

// mustUp makes a lab and removes it when the test ends.
func mustUp(tb testing.TB, name string, plan *fabric.Plan) *kernel.Fabric {
	tb.Helper()
	ktest.NeedFabric(tb)
	if plan.Classes {
		ktest.Need(tb, "htb", "u32")
	}
	f, err := kernel.Apply(tb.Context(), name, plan, kernel.Options{})
	require.NoError(tb, err)
	tb.Cleanup(func() {
		require.NoError(tb, f.Close())
		mustRemove(tb, name)
	})
	return f
}

func mustRemove(tb testing.TB, name string) kernel.Removed {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	gone, err := kernel.Remove(ctx, name, kernel.Options{})
	require.NoError(tb, err)
	return gone
}

// inodeOf is the inode of the namespace that is mounted at a path.
func inodeOf(path string) (uint64, error) {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	return st.Ino, err
}

// mustRun runs a command on the host and returns what it printed. It works in
// clean-ups too, when the test's context is over.
func mustRun(tb testing.TB, name string, args ...string) string {
	tb.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoErrorf(tb, err, "%s %v: %s", name, args, out)
	return string(out)
}

// hostState is everything of the host's own network that a lab must not change.
func hostState(tb testing.TB) string {
	tb.Helper()
	var b strings.Builder
	for _, cmd := range [][]string{
		{"ip", "-o", "link", "show"}, {"ip", "-o", "addr", "show"}, {"ip", "route", "show", "table", "all"},
		{"ip", "rule", "show"}, {"tc", "qdisc", "show"},
	} {
		b.WriteString(mustRun(tb, cmd[0], cmd[1:]...))
	}
	for _, dir := range []string{"core", "ipv4", "ipv6"} {
		root := "/proc/sys/net/" + dir
		err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.Contains(path, "random") || strings.HasSuffix(path, "/flush") {
				return nil // settings come and go with interfaces; those that exist in both are compared
			}
			v, err := os.ReadFile(path)
			if err == nil {
				fmt.Fprintf(&b, "%s=%s", path, v)
			}
			return nil
		})
		require.NoError(tb, err)
	}
	return b.String()
}

// named lists the visible names and mounts of a lab.
func named(tb testing.TB, name string) []string {
	tb.Helper()
	var found []string
	entries, err := os.ReadDir(kernel.NetnsDir)
	if err == nil {
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), name+".") {
				found = append(found, e.Name())
			}
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(tb, err)
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, "/"+name+".") {
			found = append(found, "mount "+line)
		}
	}
	slices.Sort(found)
	return found
}
