package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// refused runs a command that must end before anything is built: with the exit code, the texts
// on stderr, nothing on stdout, and nothing left on disk or in the kernel.
func refused(t *testing.T, code int, lab string, says []string, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	o := netkvlabIn(t, dir, args...)
	whole := "netkvlab " + strings.Join(args, " ") + ":\n" + o.stderr
	assert.Equal(t, code, o.code, whole)
	assert.Empty(t, o.stdout, whole)
	assert.NotContains(t, o.stderr, "building", whole)
	for _, text := range says {
		assert.Contains(t, o.stderr, text, whole)
	}
	for line := range strings.Lines(o.stderr) {
		assert.Less(t, len(line), 500, "a message that nobody reads")
		assert.True(t, strings.HasPrefix(line, "netkvlab: "), "who speaks: %s", line)
	}
	assert.Empty(t, names(dir), "left in the current folder")
	nothingOf(t, lab)
	return o.stderr
}

func TestUsageErrorsEndWithTwo(t *testing.T) {
	for _, tt := range []struct {
		name string
		says []string
		args []string
	}{
		{"unknown command", []string{`unknown command "frob"`, "netkvlab --help"}, []string{"frob"}},
		{"mistyped command", []string{`unknown command "inspekt"; did you mean inspect?`}, []string{"inspekt", "x"}},
		{"unknown flag", []string{"unknown flag: --frob", "netkvlab up --help"}, []string{"up", "quickstart", "--frob"}},
		{"no scenario", []string{"accepts 1 arg(s), received 0"}, []string{"up"}},
		{"unknown scenario", []string{"nosuch: no such file, and no embedded scenario", "flows-example, paper-64gpu, "}, []string{"up", "nosuch"}},
		{"mistyped scenario", []string{`did you mean "quickstart"?`}, []string{"up", "quickstrat"}},
		{"folder as scenario", []string{"/proc: cannot be read as a scenario: is a directory"}, []string{"up", "/proc"}},
		{"unknown output", []string{`--output: must be text or json, got "xml"`}, []string{"ps", "--output", "xml"}},
		{"unknown policy", []string{`--policies: unknown policy "best"; known: random, rr,`}, []string{"up", "quickstart", "--policies", "rr,best"}},
		{"no policy", []string{"--policies: names none; known: random, rr,"}, []string{"up", "quickstart", "--policies", ""}},
		{"policy twice", []string{`policies[1]: "rr" is listed already`}, []string{"up", "quickstart", "--policies", "rr,rr"}},
		{"policy without its weights", []string{"cla* needs the weights that netkvlab tune finds"}, []string{"up", "quickstart", "--policies", "cla*"}},
		{"policy for flows", []string{"--policies: flows-example has explicit flows"}, []string{"up", "flows-example", "--policies", "rr"}},
		{"seed that is no number", []string{`invalid argument "1,x" for "--seeds"`}, []string{"up", "quickstart", "--seeds", "1,x"}},
		{"negative seed", []string{`invalid argument "-1" for "--seeds"`}, []string{"up", "quickstart", "--seeds=-1"}},
		{"seed twice", []string{"seeds[1]: seed 1 is listed already"}, []string{"up", "quickstart", "--seeds", "1,1"}},
		{"unknown runtime", []string{`--runtime: must be process or docker, got "podman"`}, []string{"up", "quickstart", "--runtime", "podman"}},
		{"setting without a value", []string{`"topology.pods" must be KEY=VALUE, such as topology.pods=2`}, []string{"up", "quickstart", "--set", "topology.pods"}},
		{"setting of an unknown key", []string{`topology: unknown key "podz"; did you mean "pods"?`}, []string{"up", "quickstart", "--set", "topology.podz=2"}},
		{"two bad settings", []string{"topology.pods: must be 1..64, got 99", "seeds: must be a list"}, []string{"validate", "quickstart", "--set", "topology.pods=99", "--set", "seeds=x"}},
		{"down without a name", []string{"name one lab, or --all"}, []string{"down"}},
		{"down of a name no lab can have", []string{`"../x" cannot be a lab's name`, "netkvlab ps"}, []string{"down", "../x"}},
		{"inspect of a name no lab can have", []string{`"A_b" cannot be a lab's name`}, []string{"inspect", "A_b"}},
		{"exec in a name no lab can have", []string{`"" cannot be a lab's name`}, []string{"exec", "", "p0", "--", "true"}},
		{"exec without a command", []string{"requires at least 3 arg(s)"}, []string{"exec", "x", "p0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			refused(t, 2, "bad-usage", tt.says, tt.args...)
		})
	}
}

func TestLabsThatAreNotThere(t *testing.T) {
	for _, args := range [][]string{{"run", "bad-ghost"}, {"inspect", "bad-ghost"}, {"exec", "bad-ghost", "p0", "--", "true"}} {
		refused(t, 1, "bad-ghost", []string{`lab "bad-ghost": no such lab`, "`netkvlab ps` lists the labs"}, args...)
	}
	assert.Contains(t, mustRun(t, "down", "bad-ghost").stdout, "nothing to remove")
}

func TestScenarioErrorsNameFileLineAndKey(t *testing.T) {
	t.Parallel()
	file := scenario(t, "bad-many",
		"pods: 2", "pods: 0", "rate: 6/s", "rate: 6", "policies: [rr, netkv-full]", "policies: [rr, best]\nfrob: 1")
	says := []string{
		file + ":3: topology.pods: must be 1..64, got 0",
		file + ":12: workload.synthetic.rate: ",
		file + ":17: policies[1].name: ",
		`"best"`,
		file + `:18: unknown key "frob" (valid: name, description,`,
	}
	for _, args := range [][]string{{"up", file}, {"up", "-d", file}, {"validate", file}} {
		text := refused(t, 2, "bad-many", says, args...)
		assert.Equal(t, 4, strings.Count(text, "\n"), "a line for each fault: %s", text)
	}
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	require.NoError(t, os.WriteFile(broken, []byte("name: bad-many\n\ttopology: {}\n"), 0o600))
	refused(t, 2, "bad-many", []string{broken + ":2: ", "tab"}, "up", broken)
	require.NoError(t, os.WriteFile(broken, nil, 0o600))
	refused(t, 2, "bad-many", []string{broken + ":1: is empty"}, "up", broken)
}

func TestFlowErrorsNameFileLineAndKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	yaml, jsonl := filepath.Join(dir, "s.yaml"), filepath.Join(dir, "f.jsonl")
	require.NoError(t, os.WriteFile(yaml, []byte("name: bad-path\nworkload: {flows: {file: f.jsonl}}\n"), 0o600))
	require.NoError(t, os.WriteFile(jsonl, []byte(`{"start_s": 0, "from": "i0", "to": "i2", "bytes": 1, "via": ["tor0-0", "agg1-0", "tor0-1"]}
{"start_s": 0, "from": "i0", "to": "p0", "bytes": "1GB"}
`), 0o600))
	for _, cmd := range []string{"up", "validate"} {
		refused(t, 2, "bad-path", []string{
			jsonl + ":1: via: no path crosses [tor0-0 agg1-0 tor0-1]; packets go by [tor0-0 agg0-A tor0-1] with A 0..1",
			jsonl + `:2: to: unknown instance "p0"; this cluster has i0..i15 (idle)`,
		}, cmd, yaml)
	}
	require.NoError(t, os.Remove(jsonl))
	refused(t, 2, "bad-path", []string{"workload.flows.file: open " + jsonl, "no such file"}, "up", yaml)
}

// traceScenario is a small cluster that replays a trace of the given lines.
func traceScenario(t *testing.T, name, trace string) (yaml, jsonl string) {
	t.Helper()
	dir := t.TempDir()
	yaml, jsonl = filepath.Join(dir, name+".yaml"), filepath.Join(dir, "trace.jsonl")
	text := fmt.Sprintf("name: %s\ntopology: {pods: 2, racksPerPod: 2, serversPerRack: 1, gpusPerServer: 4}\n", name) +
		"workload: {trace: {file: trace.jsonl}}\npolicies: [rr]\nscale: {rate: 1000}\nlimits: {drain: 20s}\n"
	require.NoError(t, os.WriteFile(yaml, []byte(text), 0o600))
	require.NoError(t, os.WriteFile(jsonl, []byte(trace), 0o600))
	return yaml, jsonl
}

func traceLine(ms, input int, ids ...int) string {
	row, _ := json.Marshal(map[string]any{"timestamp": ms, "input_length": input, "output_length": 4, "hash_ids": ids})
	return string(row) + "\n"
}

func TestBrokenTraceLinesAreRefusedOrCounted(t *testing.T) {
	t.Parallel()
	absent(t, "bad-trace")
	yaml, jsonl := traceScenario(t, "bad-trace",
		traceLine(0, 512, 1)+"nonsense\n"+traceLine(100, 512, 2)+`{"timestamp": 200, "output_length": 4}`+"\n"+traceLine(300, 512, 3))
	for _, args := range [][]string{{"up", yaml}, {"up", "-d", yaml}, {"validate", yaml}} {
		refused(t, 2, "bad-trace", []string{jsonl + ":2: not JSON"}, args...)
	}
	out := filepath.Join(t.TempDir(), "run")
	o := mustRun(t, "up", yaml, "--skip-bad-lines", "--out", out)
	assert.Contains(t, o.stderr, "skipped 2 bad lines, first: "+jsonl+":2: not JSON")
	assert.Len(t, records(t, out), 3)
	assert.Contains(t, strings.Join(summary(t, out).Fidelity.Notes, "\n"), "skipped 2 bad lines", "the run folder says so too")
}

// TestOnlyMissingBlocksTravel sends prompts with the same blocks to the only decode instance.
func TestOnlyMissingBlocksTravel(t *testing.T) {
	t.Parallel()
	absent(t, "bad-blocks")
	blocks := func(from, n int) (ids []int) {
		for i := range n {
			ids = append(ids, from+i)
		}
		return ids
	}
	const block = 512
	half := append(blocks(100, 10), blocks(200, 10)...)
	yaml, _ := traceScenario(t, "bad-blocks",
		traceLine(0, 20*block, blocks(100, 20)...)+traceLine(3000, 20*block, blocks(100, 20)...)+traceLine(4500, 20*block, half...)+
			traceLine(6500, 20*block-100, blocks(100, 20)...))
	out := filepath.Join(t.TempDir(), "run")
	mustRun(t, "up", yaml, "--out", out, "--set", "placement={prefill: [0], decode: [2]}", "--set", "transfer.streams=1", "--set", "oracle.refresh=100ms")
	rows := records(t, out)
	require.Len(t, rows, 4)
	var sum int64
	for i, missing := range []int64{20 * block, 0, 10 * block, 0} {
		r := rows[i]
		require.NoError(t, r.Check())
		assert.Equal(t, missing*327680, r.PayloadBytes, "request %d", i)
		assert.Equal(t, int64(r.PromptTokens)-missing, int64(r.HitTokens), "request %d", i)
		assert.Equal(t, r.PayloadBytesEmulated, r.MovedBytesEmulated, "request %d", i)
		sum += r.MovedBytesEmulated
	}
	for i, f := range rowsOf(t, out, "flow")["rr"] {
		assert.Equal(t, []any{rows[i].PayloadBytes, rows[i].MovedBytesEmulated, rows[i].HitTokens}, []any{f.PayloadBytes, f.MovedBytesEmulated, f.HitTokens},
			"request %d in the flow world", i)
	}
	assert.Equal(t, sum, summary(t, out).Worlds["packet"]["rr"].BytesMoved)
	assert.InEpsilon(t, float64(sum)*frameShare, float64(links(t, out)["p0>tor0-0"]), 0.05, "on the wire, with what was sent twice")
	assert.InEpsilon(t, float64(sum)*frameShare, float64(links(t, out)["tor1-0>d0"]), 0.005, "at the receiver")
}

func TestImpossibleTraces(t *testing.T) {
	for _, tt := range []struct{ name, trace, says string }{
		{"out of order", traceLine(1000, 512, 1) + traceLine(500, 512, 2), ":2: timestamp 500 is before line 1's 1000"},
		{"empty file", "", ": no request in the window"},
		{"nothing but bad lines", "x\n", ":1: not JSON"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			yaml, jsonl := traceScenario(t, "bad-trace", tt.trace)
			refused(t, 2, "bad-trace", []string{jsonl + tt.says}, "up", yaml)
		})
	}
	yaml, jsonl := traceScenario(t, "bad-trace", "x\n")
	refused(t, 2, "bad-trace", []string{jsonl + ": no request in the window", "1 bad lines skipped"}, "up", yaml, "--skip-bad-lines")
	require.NoError(t, os.Remove(jsonl))
	refused(t, 2, "bad-trace", []string{"workload.trace.file: open " + jsonl, "no such file"}, "up", yaml)
	require.NoError(t, os.Mkdir(jsonl, 0o700))
	refused(t, 2, "bad-trace", []string{jsonl, "is a directory"}, "up", yaml)
}

func TestWithoutRootNothingIsTried(t *testing.T) {
	// The user "nobody" may have no access to the checkout, but can read a folder in /tmp.
	dir := t.TempDir()
	data, err := os.ReadFile(binary)
	require.NoError(t, err)
	program := filepath.Join(dir, "netkvlab")
	require.NoError(t, os.WriteFile(program, data, 0o755))
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	as := func(args ...string) outcome {
		cmd, out, errs := command(t.Context(), dir, args...)
		cmd.Path = program
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, Groups: []uint32{}}}
		return finish(t, cmd, out, errs)
	}
	for _, args := range [][]string{{"up", "quickstart"}, {"up", "-d", "quickstart"}, {"down", "bad-user"}, {"ps"}, {"run", "x"}, {"inspect", "x"}} {
		o := as(args...)
		assert.Equal(t, 1, o.code, args)
		assert.Equal(t, "netkvlab: needs root to work with network namespaces: run it with sudo\n", o.stderr, args)
		assert.Empty(t, o.stdout, args)
	}
	for _, args := range [][]string{{"validate", "quickstart"}, {"schema"}, {"version"}, {"--help"}} {
		assert.Zero(t, as(args...).code, "%v needs no root", args)
	}
	assert.Equal(t, []string{"netkvlab"}, names(dir))
}

// TestRootWithoutPowers runs as root without capabilities, as in a container.
func TestRootWithoutPowers(t *testing.T) {
	t.Parallel()
	for _, missing := range []string{"net_admin", "sys_admin"} {
		cmd, out, errs := command(t.Context(), t.TempDir())
		cmd.Path, _ = exec.LookPath("setpriv")
		require.NotEmpty(t, cmd.Path, "setpriv is part of util-linux")
		cmd.Args = []string{"setpriv", "--inh-caps", "-" + missing, "--bounding-set", "-" + missing, binary, "up", scenario(t, "bad-caps")}
		o := finish(t, cmd, out, errs)
		assert.Equal(t, 1, o.code, o.stderr)
		assert.Contains(t, o.stderr, "this kernel cannot carry the lab")
		assert.Contains(t, o.stderr, "CAP_NET_ADMIN")
		assert.Contains(t, o.stderr, "netkvlab doctor")
		nothingOf(t, "bad-caps")
	}
}

// absentControl is a congestion control that this kernel does not have, even as a module.
func absentControl(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { _ = unix.Close(fd) }()
	for _, name := range []string{"dctcp", "bbr", "vegas", "westwood", "illinois", "nosuch"} {
		if unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name) != nil {
			return name
		}
	}
	t.Fatal("a kernel with a congestion control called nosuch")
	return ""
}

func TestMissingCongestionControlIsNamedWithWhatThereIs(t *testing.T) {
	name := absentControl(t)
	s := scenario(t, "bad-cc", "timeout: 20s", "timeout: 20s\n  congestionControl: "+name)
	refused(t, 1, "bad-cc", []string{"transfer.congestionControl: this kernel has no \"" + name + "\"", "choose one of those it has", "cubic"}, "up", s)
	o := mustRun(t, "validate", s)
	assert.Contains(t, o.stderr, "transfer.congestionControl: this kernel shows no \""+name+"\"", "valid, but not here")
}

func TestEverySocketHasTheCongestionControlAskedFor(t *testing.T) {
	t.Parallel()
	have := sh(t, "cat /proc/sys/net/ipv4/tcp_available_congestion_control")
	for name, set := range map[string]string{"cubic": "", "reno": "reno", "bbr": "bbr"} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(have, name) {
				refused(t, 1, "bad-ccs", []string{"transfer.congestionControl"}, "up", scenario(t, "bad-ccs"), "--set", "transfer.congestionControl="+set)
				return
			}
			absent(t, "bad-ccs")
			args := []string{"up", "-d", scenario(t, "bad-ccs")}
			if set != "" {
				args = append(args, "--set", "transfer.congestionControl="+set)
			}
			mustRun(t, args...)
			// Connections are open before the first transfer. For a connection with its own algorithm ss
			// prints the name as the first word of its details.
			text := mustRun(t, "exec", "bad-ccs", "p0", "--", "ss", "-tinH", "state", "established", "dport = :7000").stdout
			details := regexp.MustCompile(`(?m)^\s+(\w+) `).FindAllStringSubmatch(text, -1)
			require.NotEmpty(t, details, text)
			for _, d := range details {
				assert.Equal(t, name, d[1])
			}
			mustRun(t, "down", "bad-ccs")
		})
	}
}

func TestRateSpellingsReachTheKernelAsBits(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"25Gbps", "25gbit", "25 Gbit/s", "25Gbit", "3.125GB/s", "3.125GBps", "25000000000bps", "25000Mbps"} {
		o := mustRun(t, "validate", scenario(t, "bad-rate"), "--set", "topology.linkRates.rackUplink="+text)
		assert.Contains(t, o.stdout, "rackUplink: 25Gbps", text)
	}
	for _, text := range []string{"25e9", "25000000000", "25Gibps", "25gbps", "25Gb/s", "25GB", "-1Gbps", "0", "0Gbps", "NaN", "25", "25 parsecs", "1e400Gbps", "99999Tbps"} {
		refused(t, 2, "bad-rate", []string{"topology.linkRates.rackUplink: "}, "validate", scenario(t, "bad-rate"), "--set", "topology.linkRates.rackUplink="+text)
	}
	absent(t, "bad-rate")
	mustRun(t, "up", "-d", scenario(t, "bad-rate"), "--set", "topology.linkRates.rackUplink=3.125GB/s")
	var qdiscs []struct {
		Kind, Dev string
		Options   struct{ Rate float64 } // bytes per second
	}
	text := mustRun(t, "exec", "bad-rate", "tor0-0", "--", "tc", "-j", "qdisc", "show").stdout
	require.NoError(t, json.Unmarshal([]byte(text), &qdiscs), text)
	uplinks := 0
	for _, q := range qdiscs {
		if q.Kind == "tbf" && strings.HasPrefix(q.Dev, "up") {
			uplinks++
			assert.InDelta(t, 25e9/400, q.Options.Rate*8, 8, "25 Gbps at scale 400, in bits a second: %s", text)
		}
	}
	assert.Equal(t, 2, uplinks, text)
	mustRun(t, "down", "bad-rate")
}

func TestLabThatIsUpAlready(t *testing.T) {
	t.Parallel()
	absent(t, "bad-twice")
	s := scenario(t, "bad-twice")
	mustRun(t, "up", "-d", s)
	before := mustRun(t, "inspect", "bad-twice").stdout
	for _, args := range [][]string{{"up", s}, {"up", "-d", s}} {
		dir := t.TempDir()
		o := netkvlabIn(t, dir, args...)
		assert.Equal(t, 1, o.code)
		for _, text := range []string{`lab "bad-twice" is already up (ready since `, "netkvlab run bad-twice", "netkvlab down bad-twice"} {
			assert.Contains(t, o.stderr, text)
		}
		assert.Empty(t, names(dir))
	}
	assert.Equal(t, before, mustRun(t, "inspect", "bad-twice").stdout, "the lab that was there is untouched")
	mustRun(t, "down", "bad-twice")
}

func TestOddNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"0", "yes", "null", "010", "1e3", "all", "default", "lo", "host", strings.Repeat("bad-odd-8", 4) + "-40x"} {
		absent(t, name)
		file := filepath.Join(t.TempDir(), "s.yaml")
		require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, strings.Replace(small, "name: %s", "name: %q", 1), name), 0o600))
		mustRun(t, "up", "-d", file)
		assert.Contains(t, mustRun(t, "ps").stdout, name+" ")
		mustRun(t, "inspect", name)
		assert.Contains(t, mustRun(t, "down", name).stdout, name+": removed")
	}
	for _, name := range []string{strings.Repeat("a", 41), strings.Repeat("a", 300), "..", "-d", "a-", "a/b", "é", "", "A", "a_b", "a b"} {
		file := filepath.Join(t.TempDir(), "s.yaml")
		require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "name: %q\n", name), 0o600))
		refused(t, 2, "bad-odd", []string{file + ":1: name: must be 1..40 of a-z, 0-9 and -"}, "up", file)
	}
}

func TestScenariosThatTheHostCannotCarry(t *testing.T) {
	refused(t, 1, "bad-big", []string{"bad-big is too fast for this host", "use scale.rate ", "or auto"},
		"up", "paper-64gpu", "--set", "name=bad-big", "--set", "scale.rate=1")
	const agents = 4096
	kb, err := strconv.Atoi(strings.TrimSpace(sh(t, "awk '/MemAvailable/ {print $2}' /proc/meminfo")))
	require.NoError(t, err)
	if kb > 46<<20 {
		t.Logf("a host with %d kB carries the largest scenario there is", kb)
		return
	}
	refused(t, 1, "bad-big", []string{"is too large for this host: ", fmt.Sprintf(" namespaces and %d agents need about ", agents), "MiB are available; make topology smaller"},
		"up", "paper-64gpu", "--set", "name=bad-big", "--set", "topology.pods=64", "--set", "topology.serversPerRack=16", "--set", "scale.rate=100000")
}

// mounted returns a folder that is a separate file system.
func mounted(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, options))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func TestRunFoldersThatCannotBeWritten(t *testing.T) {
	s := scenario(t, "bad-out")
	taken := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(taken, "thesis.txt"), nil, 0o600))
	refused(t, 2, "bad-out", []string{"--out: " + taken + " is not empty (holds thesis.txt): name another folder or remove it"}, "up", s, "--out", taken)
	refused(t, 2, "bad-out", []string{"thesis.txt is no folder: name another"}, "up", s, "--out", filepath.Join(taken, "thesis.txt"))
	refused(t, 2, "bad-out", []string{"thesis.txt is no folder, so that none can be made in it"}, "up", s, "--out", filepath.Join(taken, "thesis.txt", "a", "b"))
	assert.Equal(t, []string{"thesis.txt"}, names(taken))

	full := mounted(t, "size=256k")
	refused(t, 1, "bad-out", []string{"--out: no room for a run in " + full, "no space left on device", "make room or name another folder"}, "up", s, "--out", filepath.Join(full, "run"))
	assert.Empty(t, names(full))

	ro := mounted(t, "size=4m")
	require.NoError(t, unix.Mount("", ro, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	refused(t, 1, "bad-out", []string{"--out: cannot write in " + ro, "read-only file system"}, "up", s, "--out", filepath.Join(ro, "a", "b"))
}

func TestDiskThatFillsDuringTheRun(t *testing.T) {
	t.Parallel()
	absent(t, "bad-disk")
	disk := mounted(t, "size=2m")
	out := filepath.Join(disk, "run")
	cmd, _, errs := command(t.Context(), t.TempDir(), "up", scenario(t, "bad-disk", "requests: 8", "requests: 40"), "--out", out)
	require.NoError(t, cmd.Start())
	waitFor(t, 20*time.Second, "the run to begin", func() bool { return strings.Contains(errs.String(), "trial 1 of") })
	sh(t, "head -c 4m /dev/zero > "+filepath.Join(disk, "filler")+" 2>/dev/null || true")
	_ = cmd.Wait()
	assert.Equal(t, 1, cmd.ProcessState.ExitCode(), errs)
	assert.Contains(t, errs.String(), "no space left on device")
	assert.Contains(t, errs.String(), out, "says where")
	assert.NotContains(t, names(out), "summary.json", "a run that is not whole has no summary")
}
