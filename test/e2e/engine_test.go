package e2e

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/internal/results"
)

// with runs netkvlab against another engine.
func with(t *testing.T, host string, args ...string) outcome {
	t.Helper()
	cmd, out, errs := command(t.Context(), t.TempDir(), args...)
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+host)
	return finish(t, cmd, out, errs)
}

// short is a temporary folder with a short name, since a socket's path has a length limit.
func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "nke2e")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestEnginesThatCannotBeUsed(t *testing.T) {
	clean(t)
	dir := short(t)
	old := filepath.Join(dir, "old.sock")
	l, err := net.Listen("unix", old)
	require.NoError(t, err)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1.20") })}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	s := scenarioOn(t, "docker", "e2e-engine")
	left := leftovers(t)
	for _, tt := range []struct {
		name, host string
		says       []string
	}{
		{"absent", "unix://" + dir + "/none", []string{"no Docker engine answers at unix://" + dir + "/none", "systemctl start docker", "--runtime process"}},
		{"too old", "unix://" + old, []string{"is too old: it speaks API 1.20, netkvlab needs 1.41 (Docker 20.10) or newer", "--runtime process"}},
		{"on another host", "tcp://192.0.2.1:2375", []string{"DOCKER_HOST", "an engine on this host"}},
		{"rubbish", "rubbish", []string{"DOCKER_HOST", `"rubbish"`}},
	} {
		o := with(t, tt.host, "up", s)
		assert.Equal(t, 1, o.code, tt.name)
		for _, w := range tt.says {
			assert.Contains(t, o.stderr, w, tt.name)
		}
		assert.Equal(t, 1, strings.Count(o.stderr, "netkvlab: "), "%s: one line: %s", tt.name, o.stderr)
		assert.Equal(t, left, leftovers(t), tt.name)
		// Commands that need no engine work without one.
		for _, args := range [][]string{{"up", "-d", scenario(t, "e2e-engine")}, {"ps"}, {"down", "e2e-engine"}} {
			o := with(t, tt.host, args...)
			assert.Zero(t, o.code, "%s: %v: %s", tt.name, args, o.stderr)
		}
	}
	// Root without the capability to ignore file permissions, as in a restricted service.
	require.NoError(t, os.Chown(old, 1000, 1000))
	require.NoError(t, os.Chmod(old, 0o600))
	cmd, out, errs := command(t.Context(), t.TempDir())
	cmd.Path, _ = exec.LookPath("setpriv")
	require.NotEmpty(t, cmd.Path, "setpriv is part of util-linux")
	cmd.Args = []string{"setpriv", "--inh-caps", "-dac_override", "--bounding-set", "-dac_override", binary, "up", s}
	cmd.Env = append(os.Environ(), "DOCKER_HOST=unix://"+old)
	o := finish(t, cmd, out, errs)
	assert.Equal(t, 1, o.code)
	assert.Contains(t, o.stderr, "may not use the Docker engine at unix://"+old+": permission denied: run as root or as its owner")
	assert.Equal(t, left, leftovers(t), "permission denied")
}

// engine is a separate Docker engine for the test, which may be stopped at any time.
type engine struct {
	t                *testing.T
	host, dir, roots string
	cmd              *exec.Cmd
}

// ownEngine starts one with its data in a folder.
func ownEngine(t *testing.T, data string) *engine {
	t.Helper()
	needDocker(t)
	dir := short(t)
	e := &engine{t: t, dir: dir, roots: data, host: "unix://" + filepath.Join(dir, "d.sock")}
	e.start()
	t.Cleanup(func() {
		e.stop(unix.SIGTERM)
		// An engine that was killed leaves its mounts behind.
		sh(t, "awk '{print $5}' /proc/self/mountinfo | grep '^"+data+"' | sort -r | xargs -r -n 1 umount -l")
	})
	return e
}

func (e *engine) start() {
	e.t.Helper()
	log, err := os.OpenFile(filepath.Join(e.dir, "dockerd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(e.t, err)
	e.cmd = exec.Command("dockerd", "--host", e.host, "--data-root", e.roots, "--exec-root", filepath.Join(e.dir, "x"), "--pidfile", filepath.Join(e.dir, "pid"),
		"--bridge", "none", "--iptables=false", "--containerd-namespace", "nke2e", "--containerd-plugins-namespace", "nke2e-plugins")
	e.cmd.Stdout, e.cmd.Stderr = log, log
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(e.t, e.cmd.Start())
	require.NoError(e.t, log.Close())
	waitFor(e.t, 30*time.Second, "the test's own engine", func() bool { return exec.Command("docker", "-H", e.host, "version").Run() == nil })
}

func (e *engine) stop(s syscall.Signal) {
	if e.cmd == nil {
		return
	}
	_ = e.cmd.Process.Signal(s)
	_ = e.cmd.Wait()
	e.cmd = nil
}

// run starts an experiment in containers of the engine and waits until its trials run.
func (e *engine) run(lab, out string) (*exec.Cmd, *buffer) {
	e.t.Helper()
	s := scenarioOn(e.t, "docker", lab, "requests: 8", "requests: 40")
	cmd, _, errs := command(e.t.Context(), e.t.TempDir(), "up", s, "--out", out)
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+e.host)
	require.NoError(e.t, cmd.Start())
	waitFor(e.t, time.Minute, "the run to begin", func() bool { return strings.Contains(errs.String(), "trial 1 of") })
	time.Sleep(2 * time.Second) // in the middle of the trial
	return cmd, errs
}

func (e *engine) containers() string {
	e.t.Helper()
	out, err := exec.Command("docker", "-H", e.host, "ps", "-aq").Output()
	require.NoError(e.t, err)
	return strings.TrimSpace(string(out))
}

func TestEngineThatIsRestartedMidRunTakesTheAgentsWithIt(t *testing.T) {
	e := ownEngine(t, t.TempDir())
	absent(t, "e2e-restart") // before the engine ends
	out := filepath.Join(t.TempDir(), "run")
	cmd, errs := e.run("e2e-restart", out)
	e.stop(unix.SIGTERM) // this ends the containers, as a restart does
	e.start()
	_ = cmd.Wait()
	assert.Equal(t, 1, cmd.ProcessState.ExitCode(), errs)
	assert.Contains(t, errs.String(), "lost ", "names the agents")
	c := summary(t, out).Worlds[results.WorldPacket]["rr"].Requests
	assert.Equal(t, c.Submitted, c.Completed+c.Failed)
	assert.Positive(t, c.Completed, "what was measured is kept")
	assert.Zero(t, with(t, e.host, "down", "e2e-restart").code)
	assert.Empty(t, e.containers())
}

func TestEngineThatIsKilledMidRunIsMissedOnlyAtTheEnd(t *testing.T) {
	e := ownEngine(t, t.TempDir())
	absent(t, "e2e-engineless") // before the engine ends
	out := filepath.Join(t.TempDir(), "run")
	cmd, errs := e.run("e2e-engineless", out)
	e.stop(unix.SIGKILL) // the containers keep running, and so does the run
	_ = cmd.Wait()
	assert.Equal(t, 1, cmd.ProcessState.ExitCode(), errs)
	assert.Contains(t, errs.String(), "its containers' processes have ended, but not their records: when the engine answers again, `netkvlab down e2e-engineless` removes those too")
	for label, g := range summary(t, out).Worlds[results.WorldPacket] {
		assert.Equal(t, 40, g.Requests.Completed, "%s: the run itself did not need the engine", label)
	}
	assert.Empty(t, sh(t, "ls /run/netns | grep '^e2e-engineless' || true"), "namespaces")
	assert.Empty(t, sh(t, "grep -lsz '^NETKVLAB_LAB=e2e-engineless$' /proc/[0-9]*/environ || true"), "processes")
	e.start()
	o := with(t, e.host, "down", "e2e-engineless")
	assert.Zero(t, o.code, o.stderr)
	assert.Empty(t, e.containers())
}

func TestLabRemembersItsEngine(t *testing.T) {
	e := ownEngine(t, t.TempDir())
	absent(t, "e2e-recall") // before the engine ends
	o := with(t, e.host, "up", "-d", scenarioOn(t, "docker", "e2e-recall"))
	require.Zero(t, o.code, o.stderr)
	// From here on DOCKER_HOST is not set, as under a sudo that drops it.
	mustRun(t, "run", "e2e-recall")
	assert.NotContains(t, mustRun(t, "ps").stdout, "damaged")
	assert.Contains(t, mustRun(t, "inspect", "e2e-recall").stdout, "decode")
	assert.Contains(t, mustRun(t, "down", "e2e-recall").stdout, "4 containers")
	assert.Empty(t, e.containers())
}

func TestEngineWhoseDiskIsFull(t *testing.T) {
	absent(t, "e2e-nospace")
	disk := mounted(t, "size=64m")
	e := ownEngine(t, disk)
	sh(t, "head -c 64m /dev/zero > "+filepath.Join(disk, "filler")+" 2>/dev/null; truncate -s -4m "+filepath.Join(disk, "filler"))
	o := with(t, e.host, "up", scenarioOn(t, "docker", "e2e-nospace"))
	assert.Equal(t, 1, o.code)
	assert.Contains(t, o.stderr, "the engine's disk is full: free some room below "+disk)
	assert.Contains(t, o.stderr, "no space left on device")
	nothingOf(t, "e2e-nospace")
	sh(t, "rm "+filepath.Join(disk, "filler"))
	assert.Zero(t, with(t, e.host, "down", "--all").code)
	assert.Empty(t, e.containers())
}
