package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
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

func TestHostNetworkIsTheSameBeforeDuringAndAfter(t *testing.T) {
	bothRuntimes(t, func(t *testing.T, runtime string) {
		clean(t)
		before := network(t)
		mustRun(t, "up", "-d", scenarioOn(t, runtime, "e2e-host"))
		assert.Equal(t, before, network(t), "while the lab is up")
		mustRun(t, "down", "e2e-host")
		assert.Equal(t, before, network(t), "after it")
	})
}

func TestTwentyTimesUpAndDown(t *testing.T) {
	t.Parallel()
	bothRuntimes(t, func(t *testing.T, runtime string) {
		clean(t, "e2e-cycle")
		s := scenarioOn(t, runtime, "e2e-cycle")
		left := leftovers(t, "e2e-cycle")
		for i := range rounds() {
			mustRun(t, "up", "-d", s)
			mustRun(t, "down", "e2e-cycle")
			require.Equal(t, left, leftovers(t, "e2e-cycle"), "after round %d, at once", i)
		}
	})
}

// TestKilledAtAnyInstant kills `up` at random instants, from the first namespace to the run, and
// expects `down` to leave nothing.
func TestKilledAtAnyInstant(t *testing.T) {
	t.Parallel()
	bothRuntimes(t, func(t *testing.T, runtime string) {
		clean(t, "e2e-kill")
		s := scenarioOn(t, runtime, "e2e-kill")
		left := leftovers(t, "e2e-kill")
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 1))
		for i := range rounds() {
			after := time.Duration(rng.ExpFloat64() * float64(300*time.Millisecond))
			args := []string{"up", s, "--out", filepath.Join(t.TempDir(), fmt.Sprint(i))}
			if i%2 == 0 {
				args = []string{"up", "-d", s}
			}
			cmd, _, _ := command(t.Context(), t.TempDir(), args...)
			require.NoError(t, cmd.Start())
			time.Sleep(min(after, 3*time.Second)) // the instant is the test's input
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			mustRun(t, "down", "e2e-kill")
			require.Equal(t, left, leftovers(t, "e2e-kill"), "killed after %v", after)
		}
		mustRun(t, "up", "-d", s)
		mustRun(t, "down", "e2e-kill")
	})
}

func TestInterruptionInAnyPhaseCleansUpByItself(t *testing.T) {
	t.Parallel()
	bothRuntimes(t, func(t *testing.T, runtime string) {
		clean(t, "e2e-int")
		s := scenarioOn(t, runtime, "e2e-int")
		left := leftovers(t, "e2e-int")
		for _, after := range []time.Duration{20, 50, 100, 200, 400, 800, 1600} {
			cmd, _, errs := command(t.Context(), t.TempDir(), "up", s)
			require.NoError(t, cmd.Start())
			time.Sleep(after * time.Millisecond) // the instant is the test's input
			require.NoError(t, cmd.Process.Signal(os.Interrupt))
			err := cmd.Wait()
			if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || after > 100 || errs.String() != "" {
				assert.Equal(t, 130, cmd.ProcessState.ExitCode(), "after %d ms: %v %s", after, err, errs)
			} // else the signal came before the program had begun: a shell says 130, too
			require.Equal(t, left, leftovers(t, "e2e-int"), "interrupted after %d ms", after)
		}
	})
}

func TestInterruptedRunKeepsWhatItMeasured(t *testing.T) {
	t.Parallel()
	bothRuntimes(t, func(t *testing.T, runtime string) {
		clean(t, "e2e-keep")
		dir := filepath.Join(t.TempDir(), "run")
		s := scenarioOn(t, runtime, "e2e-keep", "requests: 8", "requests: 200")
		cmd, _, errs := command(t.Context(), t.TempDir(), "up", s, "--out", dir)
		require.NoError(t, cmd.Start())
		waitFor(t, time.Minute, "the run to begin", func() bool { return strings.Contains(errs.String(), "trial 1 of") })
		time.Sleep(3 * time.Second) // let some requests finish
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait()
		require.Equal(t, 130, cmd.ProcessState.ExitCode(), errs)
		sum := summary(t, dir)
		assert.True(t, sum.Interrupted)
		c := sum.Worlds[results.WorldPacket]["rr"].Requests
		assert.Equal(t, 200, c.Submitted)
		assert.Positive(t, c.Completed)
		assert.Positive(t, c.Incomplete)
		assert.Equal(t, c.Submitted, c.Completed+c.Failed+c.Incomplete)
	})
}

func TestSecondInterruptionStopsAtOnce(t *testing.T) {
	t.Parallel()
	bothRuntimes(t, func(t *testing.T, runtime string) {
		clean(t, "e2e-twice")
		s := scenarioOn(t, runtime, "e2e-twice", "requests: 8", "requests: 100")
		cmd, _, errs := command(t.Context(), t.TempDir(), "up", s)
		require.NoError(t, cmd.Start())
		waitFor(t, time.Minute, "the run to begin", func() bool { return strings.Contains(errs.String(), "trial 1 of") })
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		time.Sleep(300 * time.Millisecond)
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		assert.Equal(t, 130, cmd.ProcessState.ExitCode())
		mustRun(t, "down", "e2e-twice")
	})
}

func TestOneInterruptionMayComeTwice(t *testing.T) {
	besides(t, "e2e-timeout")
	s := scenario(t, "e2e-timeout", "requests: 8", "requests: 400")
	out := filepath.Join(t.TempDir(), "run")
	cmd := exec.Command("timeout", "15", binary, "up", s, "--out", out) // timeout signals the process and its group
	errs, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 124, exit.ExitCode())
	assert.Contains(t, string(errs), "cleaning up")
	assert.NotContains(t, string(errs), "stopped at once")
	assert.True(t, summary(t, out).Interrupted)
}

func TestDownNeedsNoScenarioAndNoState(t *testing.T) {
	t.Parallel()
	bothRuntimes(t, func(t *testing.T, runtime string) {
		for _, tt := range []struct {
			name   string
			damage func(t *testing.T, file string)
			says   string
		}{
			{"scenario file gone", func(t *testing.T, file string) { require.NoError(t, os.Remove(file)) }, ""},
			{"scenario file edited", func(t *testing.T, file string) {
				require.NoError(t, os.WriteFile(file, []byte("name: other\n"), 0o600))
			}, ""},
			{"state cut in half", func(t *testing.T, _ string) { halve(t, "/run/netkvlab/e2e-lost/state.json") }, "damaged"},
			{"journal cut in half", func(t *testing.T, _ string) { halve(t, "/run/netkvlab/e2e-lost/journal") }, ""},
			{"state folder gone", func(t *testing.T, _ string) { require.NoError(t, os.RemoveAll("/run/netkvlab/e2e-lost")) }, ""},
		} {
			t.Run(tt.name, func(t *testing.T) {
				clean(t, "e2e-lost")
				file := scenarioOn(t, runtime, "e2e-lost")
				mustRun(t, "up", "-d", file)
				tt.damage(t, file)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				cmd, out, errs := command(ctx, "/", "down", "e2e-lost")
				cmd.Env = []string{"HOME=/nonexistent", "PATH=" + os.Getenv("PATH")}
				if host, ok := os.LookupEnv("DOCKER_HOST"); ok && tt.name == "state folder gone" {
					// Only that folder contained the engine's address.
					cmd.Env = append(cmd.Env, "DOCKER_HOST="+host)
				}
				require.NoError(t, cmd.Run(), errs)
				assert.Contains(t, out.String(), tt.says)
			})
		}
	})
}

func halve(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(path, info.Size()/2))
}

func TestDamagedLabIsNamedAndRemovable(t *testing.T) {
	t.Parallel()
	bothRuntimes(t, func(t *testing.T, runtime string) {
		clean(t, "e2e-hurt")
		s := scenarioOn(t, runtime, "e2e-hurt")
		mustRun(t, "up", "-d", s)
		sh(t, "ip netns del e2e-hurt.core0-0; ip -n e2e-hurt.tor0-0 link del up0")
		killAgent(t, "e2e-hurt", "p0")
		waitFor(t, 5*time.Second, "the agent's end", func() bool {
			return strings.Contains(netkvlab(t, "ps").stdout, "agent p0 is dead")
		})
		ps := mustRun(t, "ps").stdout
		for _, part := range []string{"damaged", "core0-0", "agent p0 is dead"} {
			assert.Contains(t, ps, part)
		}
		assert.Contains(t, mustRun(t, "inspect", "e2e-hurt").stdout, "damaged")
		for _, again := range [][]string{{"up", "-d", s}, {"run", "e2e-hurt"}} {
			o := netkvlab(t, again...)
			assert.Equal(t, 1, o.code)
			assert.Contains(t, o.stderr, "netkvlab down e2e-hurt")
		}
		mustRun(t, "down", "e2e-hurt")
		assert.Contains(t, mustRun(t, "down", "e2e-hurt").stdout, "nothing to remove")
	})
}

func TestDecoysSurvive(t *testing.T) {
	bothRuntimes(t, func(t *testing.T, runtime string) {
		clean(t)
		decoys := []string{"netkvlab-mine", "e2e-decoyx", "e2e-decoy.zzz", "p0"}
		for _, d := range decoys {
			sh(t, "ip netns add "+d)
			t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", d).Run() })
		}
		sh(t, "ip link add nkvdecoy0 type veth peer name nkvdecoy1")
		t.Cleanup(func() { _ = exec.Command("ip", "link", "del", "nkvdecoy0").Run() })
		sleeper := exec.Command("/bin/sleep", "300")
		sleeper.Args[0] = "kvagent"
		require.NoError(t, sleeper.Start())
		t.Cleanup(func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() })
		before := network(t)
		mustRun(t, "up", "-d", scenarioOn(t, runtime, "e2e-decoy"))
		mustRun(t, "down", "e2e-decoy")
		mustRun(t, "down", "e2e-decoy")
		assert.Equal(t, before, network(t))
		for _, d := range decoys {
			assert.FileExists(t, filepath.Join("/run/netns", d))
		}
		assert.NoError(t, unix.Kill(sleeper.Process.Pid, 0), "the decoy process still runs")
	})
}

func TestTakenNamesAreRefusedUntouched(t *testing.T) {
	t.Parallel()
	bothRuntimes(t, func(t *testing.T, runtime string) {
		clean(t, "e2e-taken")
		sh(t, "ip netns add e2e-taken.p0")
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", "e2e-taken.p0").Run() })
		left := leftovers(t, "e2e-taken")
		o := netkvlab(t, "up", "-d", scenarioOn(t, runtime, "e2e-taken"))
		assert.Equal(t, 1, o.code)
		assert.Contains(t, o.stderr, "e2e-taken.p0")
		assert.Equal(t, left, leftovers(t, "e2e-taken"))
		mustRun(t, "down", "e2e-taken")
		assert.FileExists(t, "/run/netns/e2e-taken.p0", "not marked as ours")
	})
}

func TestTwoLabsLiveSideBySide(t *testing.T) {
	t.Parallel()
	bothRuntimes(t, func(t *testing.T, runtime string) {
		clean(t, "e2e-twelve-chars-a", "e2e-twelve-chars-b")
		a, b := scenarioOn(t, runtime, "e2e-twelve-chars-a"), scenarioOn(t, runtime, "e2e-twelve-chars-b")
		mustRun(t, "up", "-d", a)
		mustRun(t, "up", "-d", b)
		o := netkvlab(t, "up", "-d", a)
		assert.Equal(t, 1, o.code)
		assert.Contains(t, o.stderr, "already up")
		mustRun(t, "down", "e2e-twelve-chars-b")
		dst := strings.Fields(mustRun(t, "exec", "e2e-twelve-chars-a", "d1", "--", "ip", "-4", "-o", "addr", "show", "dev", "lo").stdout)
		addr := ""
		for _, f := range dst {
			if strings.HasPrefix(f, "10.") {
				addr = strings.TrimSuffix(f, "/32")
			}
		}
		require.NotEmpty(t, addr)
		// bash opens a connection to the other instance's agent.
		mustRun(t, "exec", "e2e-twelve-chars-a", "p0", "--", "timeout", "5", "bash", "-c", ": </dev/tcp/"+addr+"/7000")
		mustRun(t, "run", "e2e-twelve-chars-a")
		mustRun(t, "down", "e2e-twelve-chars-a")
	})
}

func TestExecPassesInputOutputAndExitCode(t *testing.T) {
	t.Parallel()
	bothRuntimes(t, func(t *testing.T, runtime string) {
		clean(t, "e2e-exec")
		mustRun(t, "up", "-d", scenarioOn(t, runtime, "e2e-exec"))
		o := netkvlab(t, "exec", "e2e-exec", "tor0-0", "--", "sh", "-c", "ip -o link | grep -c ': up'; exit 7")
		assert.Equal(t, 7, o.code)
		assert.Equal(t, "2", strings.TrimSpace(o.stdout))
		o = netkvlab(t, "exec", "e2e-exec", "nobody", "--", "true")
		assert.Equal(t, 1, o.code)
		assert.Contains(t, o.stderr, "tor0-0", "names the nodes there are")
		mustRun(t, "down", "e2e-exec")
	})
}

func TestAgentThatDiesMidRunIsReported(t *testing.T) {
	t.Parallel()
	bothRuntimes(t, func(t *testing.T, runtime string) {
		clean(t, "e2e-death")
		dir := filepath.Join(t.TempDir(), "run")
		s := scenarioOn(t, runtime, "e2e-death", "requests: 8", "requests: 60")
		cmd, _, errs := command(t.Context(), t.TempDir(), "up", s, "--out", dir)
		require.NoError(t, cmd.Start())
		waitFor(t, time.Minute, "the run to begin", func() bool { return strings.Contains(errs.String(), "trial 1 of") })
		time.Sleep(2 * time.Second) // in the middle of the trial
		killAgent(t, "e2e-death", "d0")
		_ = cmd.Wait()
		assert.Equal(t, 1, cmd.ProcessState.ExitCode(), errs)
		assert.Contains(t, errs.String(), "d0")
		sum := summary(t, dir)
		assert.Equal(t, results.VerdictInvalid, sum.Fidelity.Verdict)
		c := sum.Worlds[results.WorldPacket]["rr"].Requests
		assert.Equal(t, 60, c.Submitted)
		assert.Equal(t, c.Submitted, c.Completed+c.Failed, "every request ended, on the other instance or with a reason")
		assert.Positive(t, c.Completed)
	})
}

func TestDownAllRemovesEveryLab(t *testing.T) {
	bothRuntimes(t, func(t *testing.T, runtime string) {
		require.Empty(t, names("/run/netkvlab"), "this test removes every lab on the host: take the others down first")
		clean(t)
		mustRun(t, "up", "-d", scenarioOn(t, runtime, "e2e-all-a"))
		mustRun(t, "up", "-d", scenarioOn(t, runtime, "e2e-all-b"))
		require.NoError(t, os.RemoveAll("/run/netkvlab/e2e-all-b")) // only the kernel knows it now
		out := mustRun(t, "down", "--all").stdout
		assert.Contains(t, out, "e2e-all-a")
		assert.Contains(t, out, "e2e-all-b")
		assert.Equal(t, "no labs\n", mustRun(t, "down", "--all").stdout)
	})
}

func TestDownEndsARunInProgress(t *testing.T) {
	t.Parallel()
	bothRuntimes(t, func(t *testing.T, runtime string) {
		clean(t, "e2e-busy")
		s := scenarioOn(t, runtime, "e2e-busy", "requests: 8", "requests: 100")
		cmd, _, errs := command(t.Context(), t.TempDir(), "up", s)
		require.NoError(t, cmd.Start())
		waitFor(t, time.Minute, "the run to begin", func() bool { return strings.Contains(errs.String(), "trial 1 of") })
		mustRun(t, "down", "e2e-busy")
		_ = cmd.Wait()
		assert.Equal(t, 130, cmd.ProcessState.ExitCode())
	})
}

func waitFor(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !done() {
		require.True(t, time.Now().Before(deadline), "waited %v for %s", limit, what)
		time.Sleep(20 * time.Millisecond)
	}
}
