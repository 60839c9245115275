//go:build linux

package kernel_test

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/fabric/kernel/ktest"
)

// housed starts a process in a network namespace of its own, as a container's engine
// does, and returns the namespace's path and a way to end it.
func housed(t *testing.T) (path string, end func()) {
	t.Helper()
	cmd := exec.Command("sleep", "300")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	require.NoError(t, cmd.Start())
	ended := false
	end = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(end)
	return fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid), end
}

func TestNamespacesOfOthersAreAdoptedWhereTheyAre(t *testing.T) {
	ktest.NeedFabric(t)
	name, plan := lab(t, "adopt"), mustPlan(t, smallTree(), 400)
	before := hostState(t)
	adopt := map[fabric.NodeID]string{}
	inodes := map[fabric.NodeID]uint64{}
	var ends []func()
	for _, id := range append(append([]fabric.NodeID{}, plan.Prefill...), plan.Decode...) {
		path, end := housed(t)
		adopt[id] = path
		ends = append(ends, end)
		var st unix.Stat_t
		require.NoError(t, unix.Stat(path, &st))
		inodes[id] = st.Ino
	}
	f, err := kernel.Apply(t.Context(), name, plan, kernel.Options{Adopt: adopt})
	require.NoError(t, err)
	require.NoError(t, f.Verify(t.Context()), "wired like the fabric's own")
	for id, want := range inodes {
		got, err := inodeOf(f.NetnsPath(id))
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	assert.Len(t, onlyNames(named(t, name)), len(plan.Nodes))
	assert.Equal(t, before, hostState(t))
	require.NoError(t, f.Close())
	for _, end := range ends {
		end()
	}
	mustRemove(t, name)
	assert.Empty(t, named(t, name))
	assert.Equal(t, before, hostState(t))
}

func TestAdoptionIsRefused(t *testing.T) {
	ktest.NeedFabric(t)
	name, plan := lab(t, "refuse"), mustPlan(t, smallTree(), 400)
	path, _ := housed(t)
	first := plan.Prefill[0]
	for _, tc := range []struct {
		name, want string
		adopt      map[fabric.NodeID]string
	}{
		{"the host's own network", "it is the host's own network", map[fabric.NodeID]string{first: "/proc/self/ns/net"}},
		{"the same by another process", "it is the host's own network", map[fabric.NodeID]string{first: fmt.Sprintf("/proc/%d/ns/net", os.Getppid())}},
		{"a process that has ended", "no such file", map[fabric.NodeID]string{first: "/proc/2147483647/ns/net"}},
		{"another kind of namespace", "invalid argument", map[fabric.NodeID]string{first: "/proc/self/ns/uts"}},
		{"one namespace for two nodes", "somebody else works with it", map[fabric.NodeID]string{first: path, plan.Decode[0]: path}},
		{"a node that is not planned", "has no node 9999", map[fabric.NodeID]string{9999: path}},
	} {
		before := hostState(t)
		_, err := kernel.Apply(t.Context(), name, plan, kernel.Options{Adopt: tc.adopt, Workers: 1})
		require.ErrorContains(t, err, tc.want, tc.name)
		assert.Empty(t, named(t, name), tc.name)
		assert.Equal(t, before, hostState(t), tc.name)
	}
}
