package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/results"
)

// A shell inside a lab requests its removal: the lab is removed, the shell keeps running.
func TestDownFromInsideTheLab(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, enter string }{
		{"ip netns exec", "ip netns exec e2e-inside.d0"},
		{"nsenter", "nsenter --net=/run/netns/e2e-inside.d0"},
		{"exec", binary + " exec e2e-inside d0 --"},
		{"exec from exec", binary + " exec e2e-inside tor0-0 -- " + binary + " exec e2e-inside d0 --"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clean(t, "e2e-inside")
			mustRun(t, "up", "-d", scenario(t, "e2e-inside"))
			out := sh(t, fmt.Sprintf(`%s bash -c '%s down e2e-inside 2>&1 | cat; echo "exit ${PIPESTATUS[0]}"; ip -o link | wc -l' && echo survived`, tt.enter, binary))
			assert.Contains(t, out, "e2e-inside: removed")
			assert.Regexp(t, `left alone in node d0: process \d+ \("bash"\)`, out, "who is left there is named")
			assert.Contains(t, out, "exit 0\n1\nsurvived\n", "only lo is left of the network around the shell")
			nothingOf(t, "e2e-inside")
			assert.Contains(t, mustRun(t, "down", "e2e-inside").stdout, "nothing to remove")
		})
	}
}

// guest is a process in a node's network that the lab did not start. It prints a line when it is
// asked to end.
func guest(t *testing.T, name string, args ...string) (pid int, lines *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(name, append(args, "bash", "-c", `trap 'echo bye; exit' TERM; echo ready; while :; do read -t 1 <> <(:); done`)...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	lines = bufio.NewScanner(out)
	require.True(t, lines.Scan())
	require.Equal(t, "ready", lines.Text())
	return cmd.Process.Pid, lines
}

func TestDownLeavesOthersProcessesAlone(t *testing.T) {
	besides(t, "e2e-guest")
	s := scenario(t, "e2e-guest")
	mustRun(t, "up", "-d", s)
	pid, _ := guest(t, "nsenter", "--net=/run/netns/e2e-guest.p0")
	_, lines := guest(t, binary, "exec", "e2e-guest", "d0", "--")
	out := mustRun(t, "down", "e2e-guest").stdout
	assert.Contains(t, out, fmt.Sprintf(`left alone in node p0: process %d ("bash");`, pid))
	assert.FileExists(t, fmt.Sprintf("/proc/%d/comm", pid), "it still runs")
	assert.Equal(t, "1\n", sh(t, fmt.Sprintf("nsenter -t %d -n ip -o link | wc -l", pid)), "with lo alone")
	nothingOf(t, "e2e-guest")
	// Processes that exec started belong to the lab and are asked to end.
	assert.Contains(t, out, "which `netkvlab exec` had started")
	require.True(t, lines.Scan())
	assert.Equal(t, "bye", lines.Text())
	// The lab's name is free again.
	mustRun(t, "up", "-d", s)
	mustRun(t, "down", "e2e-guest")
}

func TestUpIsRefusedWhereNobodyWouldSeeTheLab(t *testing.T) {
	besides(t, "e2e-private")
	s := scenario(t, "e2e-private")
	mustRun(t, "up", "-d", s) // so that the folder of names is a mount
	mustRun(t, "down", "e2e-private")
	for _, enter := range [][]string{
		{"unshare", "-m", "--propagation", "private"},
		{"unshare", "-m", "--propagation", "slave"},
	} {
		t.Run(strings.Join(enter, " "), func(t *testing.T) {
			left := leftovers(t, "e2e-private")
			cmd := exec.Command(enter[0], append(enter[1:], binary, "up", "-d", s)...)
			text, err := cmd.CombinedOutput()
			require.Error(t, err, string(text))
			assert.Equal(t, 1, cmd.ProcessState.ExitCode())
			assert.Contains(t, string(text), "mounts of its own")
			assert.Contains(t, string(text), "nsenter --mount=/proc/1/ns/mnt", "the way out")
			assert.Equal(t, 1, strings.Count(string(text), "\n"), string(text))
			assert.Equal(t, left, leftovers(t, "e2e-private"))
		})
	}
	t.Run("a lab seen from both is built", func(t *testing.T) {
		text, err := exec.Command("unshare", "-m", "--propagation", "unchanged", binary, "up", "-d", s).CombinedOutput()
		require.NoError(t, err, string(text))
		assert.Contains(t, mustRun(t, "ps").stdout, "ready")
		mustRun(t, "down", "e2e-private")
	})
}

func TestUpOfADamagedLabSaysSo(t *testing.T) {
	besides(t, "e2e-again")
	s := scenario(t, "e2e-again")
	refused := func(want ...string) {
		t.Helper()
		o := netkvlab(t, "up", "-d", s)
		assert.Equal(t, 1, o.code)
		for _, w := range want {
			assert.Contains(t, o.stderr, w)
		}
	}
	mustRun(t, "up", "-d", s)
	refused("is already up (ready since", "netkvlab run e2e-again")
	sh(t, "ip -n e2e-again.tor0-0 link del up0")
	refused("is damaged", "tor0-0 port up0", "netkvlab down e2e-again")
	assert.NotContains(t, netkvlab(t, "up", "-d", s).stderr, "netkvlab run")
	halve(t, "/run/netkvlab/e2e-again/state.json")
	refused("state.json is damaged", "netkvlab down e2e-again")
	mustRun(t, "down", "e2e-again")
}

// Signals that a shell ignores when it starts a program stay ignored in the program.
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	besides(t, "e2e-ignore")
	s := scenario(t, "e2e-ignore", "requests: 8", "requests: 16", "policies: [rr, netkv-full]", "policies: [rr]")
	for _, sig := range []string{"HUP", "INT"} {
		t.Run(sig, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command("bash", "-c", `trap "" `+sig+`; exec "$@"`, "bash", binary, "up", s, "--worlds", "packet", "--out", filepath.Join(dir, "run"))
			errs := new(buffer)
			cmd.Stderr = errs
			require.NoError(t, cmd.Start())
			waitFor(t, time.Minute, "the run to begin", func() bool { return strings.Contains(errs.String(), "trial 1 of") })
			sh(t, fmt.Sprintf("kill -%s %d", sig, cmd.Process.Pid))
			require.NoError(t, cmd.Wait(), errs.String())
			assert.NotContains(t, errs.String(), "interrupted")
			assert.False(t, summary(t, filepath.Join(dir, "run")).Interrupted)
		})
	}
	t.Run("what is not ignored still ends it", func(t *testing.T) {
		cmd := exec.Command("nohup", binary, "up", s, "--out", filepath.Join(t.TempDir(), "run"))
		errs := new(buffer)
		cmd.Stderr = errs
		require.NoError(t, cmd.Start())
		waitFor(t, time.Minute, "the run to begin", func() bool { return strings.Contains(errs.String(), "trial 1 of") })
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait()
		assert.Equal(t, 130, cmd.ProcessState.ExitCode(), errs.String())
	})
}

func TestRunsWithinASecondHaveFoldersOfTheirOwn(t *testing.T) {
	t.Parallel()
	dir, s := t.TempDir(), scenario(t, "e2e-folders")
	sh(t, fmt.Sprintf(`cd %s; for seed in 1 2 3 4; do %s sim %s --seeds $seed & all="$all $!"; done 2>/dev/null; for p in $all; do wait $p || exit; done`, dir, binary, s))
	runs := names(filepath.Join(dir, "netkvlab-runs"))
	require.Len(t, runs, 4)
	seeds := map[uint64]bool{}
	for _, run := range runs {
		seeds[recordsOf(t, filepath.Join(dir, "netkvlab-runs", run), results.WorldFlow)[0].Seed] = true
	}
	assert.Len(t, seeds, 4)
}
