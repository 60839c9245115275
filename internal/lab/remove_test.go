package lab

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/fabric/kernel/ktest"
	"github.com/netkvlab/netkvlab/nodes"
	"github.com/netkvlab/netkvlab/nodes/docker"
)

func TestWhoIsLeftAloneIsNamed(t *testing.T) {
	t.Parallel()
	held := map[string][]int{"lab.p0": {os.Getpid(), os.Getppid()}, "lab.d0": {os.Getpid()}}
	notes := leftAlone("lab", held)
	if assert.Len(t, notes, 1, "this process ends by itself") {
		assert.Regexp(t, `^left alone in node p0: process \d+ \("[^"]+"\); the network there`, notes[0])
	}
}

// engine has one container of a lab, and checks on its removal whether its first process still runs.
type engine struct {
	lab                 string
	agent               nodes.Agent
	wasAlive, isRemoved bool
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Api-Version", "1.41")
	switch {
	case r.Method == http.MethodDelete:
		alive, err := nodes.Alive(e.agent)
		e.wasAlive, e.isRemoved = alive || err != nil, true
		w.WriteHeader(http.StatusNoContent)
	case strings.HasSuffix(r.URL.Path, "/containers/json") && e.isRemoved:
		_, _ = fmt.Fprint(w, "[]")
	case strings.HasSuffix(r.URL.Path, "/containers/json"):
		_, _ = fmt.Fprintf(w, `[{"Id": %q, "Labels": {"io.netkvlab.lab": %q}}]`, e.agent.ID, e.lab)
	}
}

// serve returns a client of an engine.
func serve(t *testing.T, e *engine) *docker.Engine {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(e)
	require.NoError(t, s.Listener.Close())
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return docker.EngineAt("unix://" + path)
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
	name := fmt.Sprintf("t%d-asked", os.Getpid())
	e := &engine{lab: name, agent: nodes.Agent{Node: "p0", PID: cmd.Process.Pid, StartTime: start, ID: "0123"}}
	opt := Options{Store: Store{Root: t.TempDir()}, Engine: serve(t, e)}
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
