package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/scenarios"
)

// docker runs the engine's own command line.
func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "docker", args...).CombinedOutput()
	require.NoError(t, err, "docker %s: %s", strings.Join(args, " "), out)
	return strings.TrimSpace(string(out))
}

// imported makes an image of one file without pulling anything, and removes it at the end.
func imported(t *testing.T, name, file string) {
	t.Helper()
	base := filepath.Base(file)
	sh(t, fmt.Sprintf("tar -C %s -cf - %s | docker import -c 'ENTRYPOINT [\"/%s\"]' - %s", filepath.Dir(file), base, base, name))
	t.Cleanup(func() { _ = exec.Command("docker", "rmi", name).Run() })
}

// TestSixteenContainersAreUpAndGoneInTime builds the paper's cluster until its 16 agents answer.
func TestSixteenContainersAreUpAndGoneInTime(t *testing.T) {
	needDocker(t)
	clean(t)
	mustRun(t, "down", "--all") // also removes the image, so that making it is part of the time
	up := mustRun(t, "up", "-d", "paper-64gpu", "--runtime", "docker")
	t.Cleanup(func() { _ = exec.Command(binary, "down", "paper-64gpu").Run() })
	var d struct {
		Nodes []struct {
			Agent *struct{ Answers bool }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(mustRun(t, "inspect", "paper-64gpu", "--output", "json").stdout), &d))
	answer := 0
	for _, n := range d.Nodes {
		if n.Agent != nil && n.Agent.Answers {
			answer++
		}
	}
	assert.Equal(t, 16, answer)
	assert.Len(t, strings.Fields(docker(t, "ps", "-q", "--filter", "label=io.netkvlab.lab=paper-64gpu")), 16)
	down := mustRun(t, "down", "paper-64gpu")
	t.Logf("up in %v, gone in %v", up.took, down.took)
	assert.Less(t, up.took, 12*time.Second)
	assert.Less(t, down.took, 8*time.Second)
	assert.Empty(t, docker(t, "ps", "-aq", "--filter", "label=io.netkvlab.lab=paper-64gpu"))
}

func TestPsShowsWhatAgentsUse(t *testing.T) {
	t.Parallel()
	bothRuntimes(t, func(t *testing.T, runtime string) {
		clean(t, "e2e-ps")
		mustRun(t, "up", "-d", scenarioOn(t, runtime, "e2e-ps"))
		var info struct {
			Runtime string
			Members []struct {
				Node, ID    string
				PID         int
				MemoryBytes int64   `json:"memory_bytes"`
				CPUSeconds  float64 `json:"cpu_seconds"`
				Alive       bool
			}
		}
		require.NoError(t, json.Unmarshal([]byte(mustRun(t, "ps", "e2e-ps", "--output", "json").stdout), &info))
		assert.Equal(t, runtime, info.Runtime)
		require.Len(t, info.Members, 4)
		for _, m := range info.Members {
			assert.True(t, m.Alive, m.Node)
			assert.Greater(t, m.MemoryBytes, int64(1<<20), m.Node)
			assert.Equal(t, runtime == scenarios.RuntimeDocker, m.ID != "", m.Node)
			if m.ID != "" {
				assert.Equal(t, fmt.Sprint(m.PID), docker(t, "inspect", "-f", "{{.State.Pid}}", m.ID))
			}
		}
		text := mustRun(t, "ps", "e2e-ps").stdout
		assert.Regexp(t, `NODE +RUNTIME +ID +PID +MEMORY +CPU`, text)
		assert.Regexp(t, `p0 +`+runtime, text)
		mustRun(t, "down", "e2e-ps")
	})
}

// inspected flattens the output of docker inspect to keys like "Config.User".
func inspected(t *testing.T, name string) map[string]string {
	t.Helper()
	var all []map[string]any
	require.NoError(t, json.Unmarshal([]byte(docker(t, "inspect", name)), &all))
	require.Len(t, all, 1)
	out := map[string]string{}
	for _, section := range []string{"Config", "HostConfig"} {
		for k, v := range all[0][section].(map[string]any) {
			text, err := json.Marshal(v)
			require.NoError(t, err)
			out[section+"."+k] = string(text)
		}
	}
	var mounts []string
	for _, m := range all[0]["Mounts"].([]any) {
		m := m.(map[string]any)
		mounts = append(mounts, fmt.Sprintf("%v %v:%v rw=%v", m["Type"], m["Source"], m["Destination"], m["RW"]))
	}
	out["Mounts"] = strings.Join(mounts, ", ")
	return out
}

// securityTable reads the table of docs/security.md: per key the values for an agent that needs
// no capability and for one that needs one.
func securityTable(t *testing.T) map[string][2]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "security.md"))
	require.NoError(t, err)
	rows := map[string][2]string{}
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(line, "|")
		if len(cells) == 6 && strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			clean := func(s string) string { return strings.Trim(strings.TrimSpace(s), "`") }
			rows[clean(cells[1])] = [2]string{clean(cells[2]), clean(cells[3])}
		}
	}
	return rows
}

func TestContainersMayDoWhatTheDocumentSays(t *testing.T) {
	needDocker(t)
	besides(t, "e2e-secure")
	table := securityTable(t)
	for _, key := range []string{"Config.User", "HostConfig.CapAdd", "HostConfig.CapDrop", "Mounts", "HostConfig.Memory", "HostConfig.PidsLimit"} {
		require.Contains(t, table, key, "docs/security.md")
	}
	read := func(name string) []string {
		return strings.Fields(sh(t, "cat /proc/sys/net/ipv4/tcp_"+name+"_congestion_control"))
	}
	controls := map[string]int{"reno": 0} // every kernel allows it to every user
	allowed := strings.Join(read("allowed"), " ")
	for _, c := range read("available") {
		if !strings.Contains(" "+allowed+" ", " "+c+" ") {
			controls[c] = 1
		}
	}
	for control, column := range controls {
		s := scenarioOn(t, "docker", "e2e-secure", "  timeout: 20s", "  timeout: 20s\n  congestionControl: "+control)
		mustRun(t, "up", "-d", s)
		got := inspected(t, "netkvlab.e2e-secure.p0")
		for key, want := range table {
			value := strings.ReplaceAll(strings.ReplaceAll(want[column], "LAB", "e2e-secure"), "NODE", "p0")
			assert.Equal(t, value, got[key], "%s with %s", key, control)
		}
		// The restricted agents can still do their work.
		mustRun(t, "run", "e2e-secure")
		assert.Contains(t, mustRun(t, "inspect", "e2e-secure", "--output", "json").stdout, `"congestion_control": "`+control+`"`)
		mustRun(t, "down", "e2e-secure")
	}
}

// TestAnAgentThatIsNotOurs runs testdata/tinyagent, which shares no code with netkvlab.
func TestAnAgentThatIsNotOurs(t *testing.T) {
	needDocker(t)
	besides(t, "e2e-foreign")
	agent := filepath.Join(t.TempDir(), "tinyagent")
	build := exec.Command("go", "build", "-o", agent, ".")
	build.Dir = filepath.Join("testdata", "tinyagent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	text, err := build.CombinedOutput()
	require.NoError(t, err, "%s", text)
	s := scenarioOn(t, "docker", "e2e-foreign", "policies:", "nodes: {image: \"e2e-tinyagent:1\"}\npolicies:")
	o := netkvlab(t, "up", s)
	assert.Equal(t, 1, o.code)
	assert.Contains(t, o.stderr, `no image "e2e-tinyagent:1", and netkvlab pulls none`)

	imported(t, "e2e-tinyagent:1", agent)
	out := filepath.Join(t.TempDir(), "run")
	mustRun(t, "up", s, "--out", out)
	sum := summary(t, out)
	for label, g := range sum.Worlds[results.WorldPacket] {
		assert.Equal(t, 8, g.Requests.Completed, label)
		assert.Equal(t, g.PayloadBytesEmulated, g.BytesMoved, label)
	}
	for _, r := range records(t, out) {
		require.NoError(t, r.Check())
	}
}

func TestContainerThatIsKilledByHandIsAnAgentsDeath(t *testing.T) {
	needDocker(t)
	besides(t, "e2e-byhand")
	dir := filepath.Join(t.TempDir(), "run")
	s := scenarioOn(t, "docker", "e2e-byhand", "requests: 8", "requests: 60")
	cmd, _, errs := command(t.Context(), t.TempDir(), "up", s, "--out", dir)
	require.NoError(t, cmd.Start())
	waitFor(t, time.Minute, "the run to begin", func() bool { return strings.Contains(errs.String(), "trial 1 of") })
	time.Sleep(2 * time.Second) // in the middle of the trial
	docker(t, "kill", "netkvlab.e2e-byhand.d0")
	_ = cmd.Wait()
	assert.Equal(t, 1, cmd.ProcessState.ExitCode(), errs)
	assert.Contains(t, errs.String(), "agent d0 is dead")
	assert.Contains(t, errs.String(), "exit code 137")
	c := summary(t, dir).Worlds[results.WorldPacket]["rr"].Requests
	assert.Equal(t, c.Submitted, c.Completed+c.Failed, "every request ended, on the other instance or with a reason")
	assert.Positive(t, c.Completed)
}

func TestDeadContainersShowWithinASecond(t *testing.T) {
	needDocker(t)
	clean(t)
	mustRun(t, "up", "-d", scenarioOn(t, "docker", "e2e-dead"))
	docker(t, "kill", "netkvlab.e2e-dead.d0")
	waitFor(t, time.Second, "ps to say so", func() bool {
		return strings.Contains(netkvlab(t, "ps").stdout, "agent d0 is dead")
	})
	o := netkvlab(t, "run", "e2e-dead")
	assert.Equal(t, 1, o.code)
	assert.Contains(t, o.stderr, "agent d0 is dead")
	mustRun(t, "down", "e2e-dead")
}

func TestNameOfAContainerThatIsNotOurs(t *testing.T) {
	needDocker(t)
	clean(t)
	empty := filepath.Join(t.TempDir(), "nothing")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	imported(t, "e2e-empty:1", empty)
	docker(t, "create", "--network", "none", "--name", "netkvlab.e2e-name.p0", "e2e-empty:1")
	t.Cleanup(func() { _ = exec.Command("docker", "rm", "-f", "netkvlab.e2e-name.p0").Run() })
	left := leftovers(t)
	o := netkvlab(t, "up", "-d", scenarioOn(t, "docker", "e2e-name"))
	assert.Equal(t, 1, o.code)
	assert.Contains(t, o.stderr, "the name netkvlab.e2e-name.p0 is taken by container")
	assert.Contains(t, o.stderr, "which netkvlab did not make")
	assert.Equal(t, left, leftovers(t), "nothing was made")
	mustRun(t, "down", "e2e-name")
	mustRun(t, "down", "--all")
	assert.Equal(t, "created", docker(t, "inspect", "-f", "{{.State.Status}}", "netkvlab.e2e-name.p0"), "not ours to remove")
}

// TestContainersAreFoundByLabel: only the containers of a lab are left.
func TestContainersAreFoundByLabel(t *testing.T) {
	needDocker(t)
	besides(t, "e2e-label")
	mustRun(t, "up", "-d", scenarioOn(t, "docker", "e2e-label"))
	docker(t, "rename", "netkvlab.e2e-label.p0", "e2e-renamed")
	sh(t, `for n in /run/netns/e2e-label.*; do ip netns del $(basename "$n"); done; rm -r /run/netkvlab/e2e-label`)
	assert.Contains(t, mustRun(t, "ps").stdout, "4 containers are left of it")
	o := netkvlab(t, "up", "-d", scenarioOn(t, "docker", "e2e-label"))
	assert.Equal(t, 1, o.code)
	assert.Contains(t, o.stderr, "netkvlab down e2e-label")
	assert.Contains(t, mustRun(t, "down", "e2e-label").stdout, "4 containers")
	assert.Contains(t, mustRun(t, "down", "e2e-label").stdout, "nothing to remove")
}

// TestLeashOfContainers: after `up` was killed without a clean-up, no agent still works.
func TestLeashOfContainers(t *testing.T) {
	needDocker(t)
	besides(t, "e2e-leash")
	s := scenarioOn(t, "docker", "e2e-leash", "requests: 8", "requests: 100")
	cmd, _, errs := command(t.Context(), t.TempDir(), "up", s)
	require.NoError(t, cmd.Start())
	waitFor(t, time.Minute, "the run to begin", func() bool { return strings.Contains(errs.String(), "trial 1 of") })
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	waitFor(t, 5*time.Second, "the agents to end", func() bool {
		return docker(t, "ps", "-q", "--filter", "label=io.netkvlab.lab=e2e-leash") == ""
	})
	mustRun(t, "down", "e2e-leash")
}
