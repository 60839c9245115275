// Package e2e drives bin/netkvlab as a user would, as root, on this host's kernel.
package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric/kernel/ktest"
	"github.com/netkvlab/netkvlab/internal/host/calibrate"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/scenarios"
)

// binary is the program under test, built by `make build`.
var binary = filepath.Join("..", "..", "bin", "netkvlab")

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		fmt.Println("e2e tests make network namespaces: run them as root (make test-e2e)")
		os.Exit(1)
	}
	abs, err := filepath.Abs(binary)
	if err == nil {
		_, err = os.Stat(abs)
	}
	if err != nil {
		fmt.Println("e2e tests need bin/netkvlab: run `make build`:", err)
		os.Exit(1)
	}
	binary = abs
	if err := os.Setenv(startedEnv, strconv.Itoa(os.Getpid())); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// outcome is the result of a finished command.
type outcome struct {
	code           int
	stdout, stderr string
	took           time.Duration
}

// buffer collects a command's output and can be read while the command still writes.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// command prepares netkvlab in its own folder, so that run folders go there.
func command(ctx context.Context, dir string, args ...string) (cmd *exec.Cmd, stdout, stderr *buffer) {
	cmd = exec.CommandContext(ctx, binary, args...)
	cmd.Dir = dir
	stdout, stderr = new(buffer), new(buffer)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = 5 * time.Second
	return cmd, stdout, stderr
}

// netkvlab runs a command to its end.
func netkvlab(t *testing.T, args ...string) outcome {
	t.Helper()
	return netkvlabIn(t, t.TempDir(), args...)
}

func netkvlabIn(t *testing.T, dir string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd, out, errs := command(ctx, dir, args...)
	return finish(t, cmd, out, errs)
}

// finish runs a prepared command to its end.
func finish(t *testing.T, cmd *exec.Cmd, out, errs *buffer) outcome {
	t.Helper()
	start := time.Now()
	err := cmd.Run()
	o := outcome{stdout: out.String(), stderr: errs.String(), took: time.Since(start)}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		o.code = exit.ExitCode()
	} else {
		require.NoError(t, err, o.stderr)
	}
	return o
}

// mustRun runs a command that has to succeed.
func mustRun(t *testing.T, args ...string) outcome {
	t.Helper()
	o := netkvlab(t, args...)
	require.Zero(t, o.code, "netkvlab %s: %s%s", strings.Join(args, " "), o.stdout, o.stderr)
	return o
}

// sh runs a shell command on the host and returns what it prints.
func sh(t *testing.T, script string) string {
	t.Helper()
	// The test's own context has ended when its clean-up runs.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "sh", "-c", script).Output()
	require.NoError(t, err, script)
	return string(out)
}

// network is the host's own network configuration, which no lab may change.
func network(t *testing.T) string {
	t.Helper()
	return sh(t, `ip -o link | sed 's/ qlen.*//'; ip -o addr | awk '{print $2,$4}'; ip route show table all; ip rule; tc qdisc show
sysctl -a 2>/dev/null | grep -E '^net\.' | grep -vE 'random|nf_conntrack_count|netfilter.nf_conntrack'`)
}

// startedEnv is in the environment of the processes that these tests start, to separate them
// from other processes of the same binary on this host.
const startedEnv = "NETKVLAB_E2E"

// testLabs are the names of the labs that these tests make, as a regular expression.
const testLabs = `(sweep-)?(e2e|bad)-[^./]*|paper-64gpu|` + calibrate.Lab

// leftovers is everything that is visible on the host of the named labs, or of all labs of these
// tests if none is named: names, mounts, processes, sockets, folders, containers. It ignores ended
// processes, which their parents have to reap.
func leftovers(t *testing.T, labs ...string) string {
	t.Helper()
	which, mentions := testLabs, ""
	if len(labs) > 0 {
		which = strings.Join(labs, "|")
		mentions = fmt.Sprintf(" | grep -E '(%s)'", which)
	}
	return sh(t, fmt.Sprintf(`exec 2>/dev/null
ls /run/netns | grep -E '^(%[1]s)\.'
grep -oE '/netns/(%[1]s)\.[^ ]*' /proc/self/mountinfo | sort
for pid in $(grep -lszE '^(%[2]s=%[3]d|NETKVLAB_LAB=(%[1]s))$' /proc/[0-9]*/environ | cut -d/ -f3); do
  name=$(cat /proc/$pid/comm)
  case $name in netkvlab|kvagent) echo "$pid $name $(tr '\0' ' ' </proc/$pid/cmdline)"%[4]s ;; esac
done
ss -xlH | grep -E '/(%[1]s)/'
find /run/netkvlab -mindepth 1 | grep -E '^/run/netkvlab/(%[1]s)(/|$)'
docker ps -aq --no-trunc --filter label=io.netkvlab.lab --format '{{.ID}} {{.Label "io.netkvlab.lab"}}' | grep -E ' (%[1]s)$'
true`, which, startedEnv, os.Getpid(), mentions))
}

// long skips a test of several minutes in a short run.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("long: -short was asked for")
	}
}

// rounds is the number of repetitions of a test, smaller in a short run.
func rounds() int {
	if testing.Short() {
		return 4
	}
	return 20
}

// clean checks at the test's end that the host is as it was. With the names of the test's own labs
// it looks at nothing else of labs, as a test must that runs beside others.
func clean(t *testing.T, labs ...string) {
	t.Helper()
	net, left := network(t), leftovers(t, labs...)
	t.Cleanup(func() {
		if t.Failed() {
			// Only labs of these tests: there may be others on this host.
			which := regexp.MustCompile("^(" + cmp.Or(strings.Join(labs, "|"), "e2e-.*|bad-.*") + ")$")
			for _, lab := range names("/run/netkvlab") {
				if which.MatchString(lab) {
					_ = exec.Command(binary, "down", lab).Run()
				}
			}
			return
		}
		require.Equal(t, net, network(t), "the host's network")
		require.Equal(t, left, leftovers(t, labs...), "what is left of labs")
	})
}

// besides marks a test that may run beside others: it neither measures nor judges transfers, and
// it touches no lab but the named ones. Such tests start when all others have ended.
func besides(t *testing.T, labs ...string) {
	t.Helper()
	t.Parallel()
	clean(t, labs...)
}

// absent checks at the test's end that nothing of the named lab is left. Unlike clean it ignores
// other labs, so it also works when others use the host.
func absent(t *testing.T, lab string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			_ = exec.Command(binary, "down", lab).Run()
			return
		}
		nothingOf(t, lab)
	})
}

// nothingOf fails if a namespace, mount, process, socket or folder of a lab is left.
func nothingOf(t *testing.T, lab string) {
	t.Helper()
	require.Empty(t, sh(t, fmt.Sprintf(`ls /run/netns 2>/dev/null | grep '^%[1]s\.'
grep -o '/netns/%[1]s\.[^ ]*' /proc/self/mountinfo
find /run/netkvlab/%[1]s 2>/dev/null
ss -xlH 2>/dev/null | grep '/%[1]s/'
docker ps -aq --filter label=io.netkvlab.lab=%[1]s 2>/dev/null
grep -lsz '^NETKVLAB_LAB=%[1]s$' /proc/[0-9]*/environ || true`, lab)), "left of %s", lab)
}

// agentOf is the process of a node's agent, of either runtime.
func agentOf(t *testing.T, lab, node string) (pid int) {
	t.Helper()
	_, err := fmt.Sscan(sh(t, fmt.Sprintf(`grep -lszx 'NETKVLAB_LAB=%s' $(grep -lszx 'NETKVLAB_NODE=%s' /proc/[0-9]*/environ) | cut -d/ -f3`, lab, node)), &pid)
	require.NoError(t, err)
	return pid
}

// killAgent kills the agent of a lab's node as a lack of memory would.
func killAgent(t *testing.T, lab, node string) {
	t.Helper()
	require.NoError(t, unix.Kill(agentOf(t, lab, node), unix.SIGKILL))
}

// stallAgent stops the agent of a lab's node for a while.
func stallAgent(t *testing.T, lab, node string, d time.Duration) {
	t.Helper()
	pid := agentOf(t, lab, node)
	require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
	time.Sleep(d)
	require.NoError(t, unix.Kill(pid, unix.SIGCONT))
}

// links returns the bytes that each direction of each link has carried, from the last samples of
// a run folder's links.csv.
func links(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, results.LinksFile))
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.NotEmpty(t, rows)
	link, moved := slices.Index(rows[0], "link"), slices.Index(rows[0], "bytes_emulated")
	out := map[string]int64{}
	for _, row := range rows[1:] {
		n, err := strconv.ParseInt(row[moved], 10, 64)
		require.NoError(t, err)
		out[row[link]] = n
	}
	return out
}

// bothRuntimes runs a test with processes and, if there is an engine, with containers.
func bothRuntimes(t *testing.T, test func(t *testing.T, runtime string)) {
	t.Helper()
	for _, runtime := range []string{scenarios.RuntimeProcess, scenarios.RuntimeDocker} {
		t.Run(runtime, func(t *testing.T) {
			if runtime == scenarios.RuntimeDocker {
				needDocker(t)
			}
			test(t, runtime)
		})
	}
}

// needDocker skips a test if no engine answers, or fails it if an engine is required.
func needDocker(t *testing.T) {
	t.Helper()
	err := exec.Command("docker", "version").Run()
	switch {
	case err == nil:
	case slices.Contains(strings.Split(os.Getenv(ktest.MustEnv), ","), "docker"):
		t.Fatalf("%s lists docker, but docker version says: %v", ktest.MustEnv, err)
	default:
		t.Skipf("docker: no engine answers (%v): scripts/docker.sh starts one", err)
	}
}

// scenarioOn is scenario with a runtime.
func scenarioOn(t *testing.T, runtime, name string, edits ...string) string {
	t.Helper()
	return scenario(t, name, append(edits, "seeds: [1]", "seeds: [1]\nruntime: "+runtime)...)
}

// scenario writes a small scenario of the given name; edits replace lines of it.
func scenario(t *testing.T, name string, edits ...string) string {
	t.Helper()
	text := fmt.Sprintf(small, name)
	require.Zero(t, len(edits)%2)
	for i := 0; i < len(edits); i += 2 {
		require.Contains(t, text, edits[i])
		text = strings.ReplaceAll(text, edits[i], edits[i+1])
	}
	path := filepath.Join(t.TempDir(), name+".yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// small is a cluster of 4 instances in 2 pods whose experiment takes about two seconds.
const small = `name: %s
topology:
  pods: 2
  racksPerPod: 2
  serversPerRack: 1
  gpusPerServer: 4
workload:
  kind: synthetic
  synthetic:
    profile: rag
    requests: 8
    rate: 6/s
    prompt: {mean: 1000, sigma: 0.3, min: 512, max: 2048}
    output: {mean: 8, sigma: 0, min: 1, max: 8}
transfer:
  timeout: 20s
policies: [rr, netkv-full]
seeds: [1]
scale: {rate: 400, time: 1}
`

// summary reads a run folder's summary.json.
func summary(t *testing.T, dir string) results.Summary {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, results.SummaryFile))
	require.NoError(t, err)
	var s results.Summary
	require.NoError(t, json.Unmarshal(data, &s))
	return s
}

// records reads the packet world's rows of a run folder's requests.jsonl.
func records(t *testing.T, dir string) []results.Record {
	t.Helper()
	return recordsOf(t, dir, results.WorldPacket)
}

// recordsOf reads a world's rows of a run folder's requests.jsonl.
func recordsOf(t *testing.T, dir, world string) []results.Record {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, results.RequestsFile))
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	rows, err := results.ReadRecords(f, f.Name())
	require.NoError(t, err)
	return slices.DeleteFunc(rows, func(r results.Record) bool { return r.World != world })
}

// names lists the entries of a folder; none when it does not exist.
func names(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	slices.Sort(out)
	return out
}
