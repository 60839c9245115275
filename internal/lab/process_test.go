package lab

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/fabric/kernel/ktest"
	"github.com/netkvlab/netkvlab/nodes"
)

func TestWhoIsLeftAloneIsNamed(t *testing.T) {
	t.Parallel()
	held := map[string][]int{"lab.p0": {os.Getpid(), os.Getppid()}, "lab.d0": {os.Getpid()}}
	notes := leftAlone("lab", held)
	if assert.Len(t, notes, 1, "this process ends by itself") {
		assert.Regexp(t, `^left alone in node p0: process \d+ \("[^"]+"\); the network there`, notes[0])
	}
}

// engine has one container, and checks on its removal whether its first process still runs.
type engine struct {
	Containers
	agent    nodes.Agent
	wasAlive bool
}

func (e *engine) Host() string { return "" }

func (e *engine) Remove(context.Context, string, bool) (n int, err error) {
	e.wasAlive, err = nodes.Alive(e.agent)
	return 1, err
}

func TestAContainersAgentIsAskedBeforeItIsRemoved(t *testing.T) {
	ktest.Need(t, "root")
	cmd := exec.Command("bash", "-c", `trap 'echo bye; exit' TERM; echo ready; while :; do read -t 1 <> <(:); done`)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	start, err := nodes.StartTime(cmd.Process.Pid)
	require.NoError(t, err)
	e := &engine{agent: nodes.Agent{Node: "p0", PID: cmd.Process.Pid, StartTime: start, ID: "0123"}}
	name := fmt.Sprintf("t%d-asked", os.Getpid())
	opt := Options{Store: Store{Root: t.TempDir()}, Containers: e}
	lk, err := opt.Store.tryLock(name, true)
	require.NoError(t, err)
	require.NoError(t, opt.Store.save(&State{Format: stateFormat, Lab: name, Phase: PhaseReady, Runtime: "docker", Agents: []nodes.Agent{e.agent}}))
	gone, err := remove(t.Context(), name, opt)
	require.NoError(t, err)
	require.NoError(t, lk.Close())
	assert.Equal(t, 1, gone.Containers)
	assert.False(t, e.wasAlive)
	require.True(t, lines.Scan())
	assert.Equal(t, "bye", lines.Text(), "it had time for its handler")
	require.NoError(t, cmd.Wait())
}
