//go:build linux

package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/fabrictest"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/fabric/kernel/ktest"
	"github.com/netkvlab/netkvlab/scenarios"
)

func TestUpVerifyDownLeavesTheHostAsItWas(t *testing.T) {
	for _, tc := range []struct {
		name     string
		scenario *scenarios.Scenario
		rate     float64
	}{
		{"the paper's cluster", fabrictest.Paper64(), 400},
		{"with background in classes", fabrictest.Paper64Background(), 400},
		{"four NICs an instance", fabrictest.Rail64(), 400},
		{"at full rate, where 32-bit fields wrap", fabrictest.Paper64Background(), 1},
		{"a k=4 fat tree", fabrictest.KAry(4), 1000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ktest.NeedFabric(t)
			name, plan := lab(t, "host"), mustPlan(t, tc.scenario, tc.rate)
			before := hostState(t)
			f, err := kernel.Apply(t.Context(), name, plan, kernel.Options{})
			require.NoError(t, err)
			assert.NoError(t, f.Verify(t.Context()))
			assert.Equal(t, before, hostState(t), "while up")
			assert.Len(t, onlyNames(named(t, name)), len(plan.Nodes))
			require.NoError(t, f.Close())
			gone := mustRemove(t, name)
			assert.Empty(t, named(t, name))
			assert.Len(t, gone.Namespaces, len(plan.Nodes))
			assert.Empty(t, gone.Files)
			assert.Equal(t, before, hostState(t), "after down")
			assert.Equal(t, kernel.Removed{Held: map[string][]int{}}, mustRemove(t, name), "removing what is not there is success")
		})
	}
}

func TestThirtyCyclesWithoutPause(t *testing.T) {
	ktest.NeedFabric(t)
	name, plan := lab(t, "cycle"), mustPlan(t, smallTree(), 400)
	for range 30 {
		f, err := kernel.Apply(t.Context(), name, plan, kernel.Options{})
		require.NoError(t, err)
		require.NoError(t, f.Close())
		mustRemove(t, name)
		require.Empty(t, named(t, name))
	}
}

func TestOpenAttachesToAStandingLab(t *testing.T) {
	name, plan := lab(t, "open"), mustPlan(t, smallTree(), 400)
	f := mustUp(t, name, plan)
	g, err := kernel.Open(t.Context(), name, plan, kernel.Options{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, g.Close()) }()
	assert.NoError(t, g.Verify(t.Context()))
	for i := range plan.Nodes {
		var a, b unix.Stat_t
		require.NoError(t, f.Do(fabric.NodeID(i), func() error { return unix.Stat("/proc/thread-self/ns/net", &a) }))
		require.NoError(t, g.Do(fabric.NodeID(i), func() error { return unix.Stat("/proc/thread-self/ns/net", &b) }))
		assert.Equal(t, a.Ino, b.Ino)
	}
	labs, err := kernel.Labs()
	require.NoError(t, err)
	assert.Contains(t, labs, name)
	spaces, err := kernel.Namespaces(name)
	require.NoError(t, err)
	assert.Len(t, spaces, len(plan.Nodes))
	assert.Equal(t, f.NetnsPath(0), kernel.NetnsDir+"/"+name+".p0")
}

func TestDoRunsInsideAndComesBack(t *testing.T) {
	plan := mustPlan(t, smallTree(), 400)
	f := mustUp(t, lab(t, "do"), plan)
	want, err := inodeOf(f.NetnsPath(plan.Prefill[0]))
	require.NoError(t, err)
	var inside unix.Stat_t
	require.NoError(t, f.Do(plan.Prefill[0], func() error { return unix.Stat("/proc/thread-self/ns/net", &inside) }))
	assert.Equal(t, want, inside.Ino)
	boom := errors.New("boom")
	assert.ErrorIs(t, f.Do(plan.Prefill[0], func() error { return boom }), boom)
	assert.Error(t, f.Do(-1, func() error { return nil }))
	requireAllThreadsAtHome(t)
}

// requireAllThreadsAtHome checks that no thread of this process stayed in
// another network namespace: otherwise a later goroutine could run there.
func requireAllThreadsAtHome(t *testing.T) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/ns/net")
	require.NoError(t, err)
	require.NotEmpty(t, tasks)
	for _, task := range tasks {
		var st unix.Stat_t
		if unix.Stat(task, &st) == nil { // threads come and go
			assert.Equal(t, homeInode, st.Ino, task)
		}
	}
}

func TestManyAtOnceLeaveNoThreadBehind(t *testing.T) {
	plan := mustPlan(t, smallTree(), 400)
	f := mustUp(t, lab(t, "threads"), plan)
	var g errgroup.Group
	for i := range 200 {
		node := fabric.NodeID(i % len(plan.Nodes))
		g.Go(func() error {
			want, err := inodeOf(f.NetnsPath(node))
			if err != nil {
				return err
			}
			return f.Do(node, func() error {
				runtime.Gosched()
				var st unix.Stat_t
				if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
					return err
				}
				if st.Ino != want {
					return fmt.Errorf("%s: in namespace %d, want %d", plan.Nodes[node].Name, st.Ino, want)
				}
				return nil
			})
		})
	}
	require.NoError(t, g.Wait())
	requireAllThreadsAtHome(t)
}

func TestDecoysSurvive(t *testing.T) {
	ktest.NeedFabric(t)
	name, plan := lab(t, "decoy"), mustPlan(t, smallTree(), 400)
	for _, decoy := range []string{"netkvlab-mine", name + "x", name + "x.p0", name + ".mine"} {
		mustRun(t, "ip", "netns", "add", decoy)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", decoy).Run() })
	}
	full := filepath.Join(kernel.NetnsDir, name+".p1")
	require.NoError(t, os.WriteFile(full, []byte("mine"), 0o600))
	t.Cleanup(func() { _ = os.Remove(full) })

	_, err := kernel.Apply(t.Context(), name, plan, kernel.Options{})
	var inUse *kernel.InUseError
	require.ErrorAs(t, err, &inUse)
	assert.Equal(t, full, inUse.Object)
	assert.Empty(t, inUse.Owner)
	assert.Equal(t, []string{name + ".mine", name + ".p1"}, onlyNames(named(t, name)), "nothing was made")

	require.NoError(t, os.Remove(full))
	f, err := kernel.Apply(t.Context(), name, plan, kernel.Options{})
	require.NoError(t, err)
	_, err = kernel.Apply(t.Context(), name, plan, kernel.Options{})
	require.ErrorAs(t, err, &inUse)
	assert.Equal(t, name, inUse.Owner, "the error says whose it is")
	require.NoError(t, f.Close())
	// One of ours under a second name is not ours to remove under that name.
	second := filepath.Join(kernel.NetnsDir, name+".d999")
	require.NoError(t, os.WriteFile(second, nil, 0o600))
	require.NoError(t, unix.Mount(f.NetnsPath(0), second, "none", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(second, unix.MNT_DETACH); _ = os.Remove(second) })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err = kernel.Remove(ctx, name, kernel.Options{})
	require.NoError(t, err)
	assert.Equal(t, []string{name + ".d999", name + ".mine"}, onlyNames(named(t, name)))
	list := mustRun(t, "ip", "netns", "list")
	for _, decoy := range []string{"netkvlab-mine", name + "x", name + "x.p0", name + ".mine"} {
		assert.Contains(t, list, decoy)
	}
}

func onlyNames(found []string) (names []string) {
	for _, f := range found {
		if len(f) < 6 || f[:6] != "mount " {
			names = append(names, f)
		}
	}
	return names
}

func TestAnUnmarkedNamespaceOfAPlannedNameIsLeftAlone(t *testing.T) {
	ktest.NeedFabric(t)
	name := lab(t, "foreign")
	mustRun(t, "ip", "netns", "add", name+".p0")
	t.Cleanup(func() { mustRun(t, "ip", "netns", "del", name+".p0") })
	gone, err := kernel.Remove(t.Context(), name, kernel.Options{Planned: []string{name + ".p0"}})
	require.NoError(t, err)
	assert.Empty(t, append(gone.Namespaces, gone.Files...))
	assert.Contains(t, mustRun(t, "ip", "netns", "list"), name+".p0")
}

func TestLeftoversOfAKilledApplyAreRemoved(t *testing.T) {
	ktest.NeedFabric(t)
	name := lab(t, "left")
	require.NoError(t, os.MkdirAll(kernel.NetnsDir, 0o755))
	for _, file := range []string{name + ".p0", name + ".agg0-1", name + ".odd", name + ".kept"} {
		require.NoError(t, os.WriteFile(filepath.Join(kernel.NetnsDir, file), nil, 0))
	}
	t.Cleanup(func() { _ = os.Remove(filepath.Join(kernel.NetnsDir, name+".kept")) })
	gone, err := kernel.Remove(t.Context(), name, kernel.Options{Planned: []string{name + ".odd", "elsewhere"}})
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{name + ".p0", name + ".agg0-1", name + ".odd"}, gone.Files)
	assert.Equal(t, []string{name + ".kept"}, named(t, name), "neither announced nor a node's name")
}

// inside starts a process in a namespace of a lab, and ends it with the test.
func inside(t *testing.T, netns string) (pid int) {
	t.Helper()
	cmd := exec.Command("ip", "netns", "exec", netns, "cat")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		assert.NoError(t, cmd.Wait(), "it was left alone")
	})
	// An echo proves that the process is inside by now.
	_, err = stdin.Write([]byte("x"))
	require.NoError(t, err)
	_, err = stdout.Read(make([]byte, 1))
	require.NoError(t, err)
	return cmd.Process.Pid
}

func TestRemoveTellsWhoHoldsANamespace(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		t.Run(fmt.Sprintf("allowed %v", allowed), func(t *testing.T) {
			ktest.NeedFabric(t)
			name, plan := lab(t, "held"), mustPlan(t, smallTree(), 400)
			f, err := kernel.Apply(t.Context(), name, plan, kernel.Options{})
			require.NoError(t, err)
			t.Cleanup(func() { mustRemove(t, name) })
			require.NoError(t, f.Close())
			// Neighbours: without removal, they keep the link between them alive.
			host, rack := inside(t, name+".p0"), inside(t, name+".tor0-0")
			ns := func(pid int, args ...string) string {
				return mustRun(t, "nsenter", append([]string{"-t", fmt.Sprint(pid), "-n"}, args...)...)
			}
			ns(host, "ip", "link", "add", "mine", "type", "veth", "peer", "yours")
			gone, err := kernel.Remove(t.Context(), name, kernel.Options{Leave: allowed})
			if allowed {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, name+".p0")
			}
			assert.Equal(t, map[string][]int{name + ".p0": {host}, name + ".tor0-0": {rack}}, gone.Held)
			assert.Empty(t, named(t, name))
			assert.Regexp(t, `^1: lo:[^\n]*\n\d+: yours@[^\n]*\n\d+: mine@[^\n]*\n$`, ns(host, "ip", "-o", "link"), "what is not ours stays")
			assert.Regexp(t, `^1: lo:[^\n]*\n$`, ns(rack, "ip", "-o", "link"))
			assert.NotContains(t, ns(rack, "ip", "link"), "netkvlab", "nobody's lab any more")
		})
	}
}

func TestCancelAtAnyPointLeavesNothing(t *testing.T) {
	ktest.NeedFabric(t)
	name, plan := lab(t, "cancel"), mustPlan(t, fabrictest.Paper64Background(), 400)
	for _, after := range []time.Duration{0, 1, 2, 4, 8, 16, 24, 32, 48, 64} {
		ctx, cancel := context.WithTimeout(t.Context(), after*time.Millisecond)
		f, err := kernel.Apply(ctx, name, plan, kernel.Options{})
		cancel()
		if err == nil {
			require.NoError(t, f.Close())
			mustRemove(t, name)
			continue
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, named(t, name), "cancelled after %d ms", after)
	}
}

func TestAKillAtAnyInstantLeavesWhatRemoveRemoves(t *testing.T) {
	ktest.NeedFabric(t)
	name, plan := lab(t, "kill"), mustPlan(t, fabrictest.Paper64(), 400)
	self, err := os.Executable()
	require.NoError(t, err)
	before := hostState(t)
	for _, after := range []time.Duration{0, 1, 3, 6, 9, 12, 16, 20, 25, 30, 40, 80} {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), applyEnv+"="+name)
		stdout, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = stdout.Read(make([]byte, 1)) // it begins
		require.NoError(t, err)
		<-time.After(after * time.Millisecond)
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // the error "killed" is expected
		found := len(onlyNames(named(t, name)))
		gone, err := kernel.Remove(t.Context(), name, kernel.Options{Planned: kernel.Names(name, plan)})
		require.NoError(t, err)
		t.Logf("killed after %d ms: %d names, removed %d namespaces and %d files", after, found, len(gone.Namespaces), len(gone.Files))
		require.Equal(t, found, len(gone.Namespaces)+len(gone.Files))
		require.Empty(t, named(t, name))
	}
	assert.Equal(t, before, hostState(t))
}

func TestTheFirstIPNetnsAddAfterUsHidesNothing(t *testing.T) {
	ktest.NeedFabric(t)
	// In a mount namespace of its own, where the folder is no mount point yet.
	self, err := os.Executable()
	require.NoError(t, err)
	name := lab(t, "mounts")
	script := `set -e
mount -t tmpfs none /run
mkdir /run/netns
"$0" -test.run '^$' & first=$!
while [ "$(ls /run/netns | wc -l)" -lt 36 ]; do sleep 0.02; done
sleep 0.3
kill -9 $first
ip netns add other
` + `env -u ` + applyEnv + ` ` + removeEnv + `="$` + applyEnv + `" "$0"
ls /run/netns; grep -c "/$` + applyEnv + `\\." /proc/self/mountinfo || true`
	cmd := exec.Command("unshare", "-m", "--propagation", "private", "bash", "-c", script, self)
	cmd.Env = append(os.Environ(), applyEnv+"="+name)
	out, err := cmd.CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	assert.Contains(t, string(out), "other\n0\n", "no name and no mount of ours is left")
}

func TestJournalComesFirst(t *testing.T) {
	ktest.NeedFabric(t)
	name, plan := lab(t, "journal"), mustPlan(t, smallTree(), 400)
	full := errors.New("disk full")
	_, err := kernel.Apply(t.Context(), name, plan, kernel.Options{Journal: func(names []string) error {
		assert.Equal(t, kernel.Names(name, plan), names)
		assert.Empty(t, named(t, name))
		return full
	}})
	require.ErrorIs(t, err, full)
	assert.Empty(t, named(t, name))
}

func TestLabNamesAreChecked(t *testing.T) {
	t.Parallel()
	plan := mustPlan(t, smallTree(), 400)
	for _, name := range []string{"", "a.b", "../x", "Up", "-d", "a/b", "é", "a-", "0123456789012345678901234567890123456789x"} {
		_, err := kernel.Apply(t.Context(), name, plan, kernel.Options{})
		assert.Errorf(t, err, "%q", name)
		_, err = kernel.Remove(t.Context(), name, kernel.Options{})
		assert.Errorf(t, err, "%q", name)
	}
}
