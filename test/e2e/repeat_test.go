package e2e

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/internal/results"
)

// crowded gives each instance some hundred events per second during a trial of some five
// seconds. A stop of 100 ms then meets one that is due early in it.
var crowded = []string{
	"requests: 8", "requests: 500", "rate: 6/s", "rate: 100/s",
	"prompt: {mean: 1000, sigma: 0.3, min: 512, max: 2048}", "prompt: {mean: 100, sigma: 0.3, min: 64, max: 200}",
	"seeds: [1]", "seeds: [1, 2]", "[rr, netkv-full]", "[netkv-full, cla, rr]", // the third trial deals the requests out evenly
}

// TestASpoiledTrialIsRepeatedAndNoOther stops one agent for 100 ms in the third of six trials.
func TestASpoiledTrialIsRepeatedAndNoOther(t *testing.T) {
	absent(t, "e2e-spoil")
	out := filepath.Join(t.TempDir(), "run")
	cmd, stdout, errs := command(t.Context(), t.TempDir(), "up", scenario(t, "e2e-spoil", crowded...), "--worlds", "packet", "--out", out)
	require.NoError(t, cmd.Start())
	waitFor(t, 2*time.Minute, "the third trial", func() bool { return strings.Contains(errs.String(), "(trial 3 of 6)") })
	time.Sleep(2 * time.Second) // until the middle of the trial
	stallAgent(t, "e2e-spoil", "d0", 100*time.Millisecond)
	require.NoError(t, cmd.Wait(), errs)

	s := summary(t, out)
	require.Len(t, s.Trials, 6)
	assert.Equal(t, results.VerdictGood, s.Trials[2].Verdict, s.Trials[2].Reasons)
	if !slices.ContainsFunc(s.Trials, func(x results.Trial) bool { return x.Verdict != results.VerdictGood }) {
		assert.Equal(t, results.VerdictGood, s.Fidelity.Verdict, s.Fidelity.Reasons)
	}
	for i, x := range s.Trials { // a stall of the host may spoil another as well
		assert.Len(t, x.Spoiled, x.Attempts-1, "trial %d", i+1)
		assert.NotNil(t, x.Figures)
	}
	third := s.Trials[2]
	t.Logf("timers of the third trial were at most %.1f ms late", third.Figures.TimerLateMS)
	require.NotEmpty(t, third.Spoiled)
	assert.Contains(t, strings.Join(third.Spoiled[0].Reasons, "; "), "a timer of agent d0 was")
	assert.Regexp(t, "of 6 trials (was|were) repeated", stdout.String())
	rows := records(t, out)
	assert.Len(t, rows, 6*500, "no figure holds the spoiled attempt")
	aside, err := os.ReadFile(filepath.Join(out, third.Spoiled[0].File))
	require.NoError(t, err)
	assert.Equal(t, 500, strings.Count(string(aside), "\n"))
}

// TestBadLuckWhileATrialIsRepeated: what was measured is kept, there is one message, and nothing
// is left behind.
func TestBadLuckWhileATrialIsRepeated(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		strike func(t *testing.T, up *os.Process)
		code   int
		says   string
	}{
		{"interrupted", func(t *testing.T, up *os.Process) { require.NoError(t, up.Signal(os.Interrupt)) }, 130, "interrupted"},
		{"an agent dies", func(t *testing.T, _ *os.Process) { killAgent(t, "e2e-unlucky", "d0") }, 1, "agent d0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clean(t, "e2e-unlucky")
			out := filepath.Join(t.TempDir(), "run")
			cmd, _, errs := command(t.Context(), t.TempDir(), "up", scenario(t, "e2e-unlucky", crowded...), "--worlds", "packet", "--out", out)
			require.NoError(t, cmd.Start())
			waitFor(t, time.Minute, "the first trial", func() bool { return strings.Contains(errs.String(), "(trial 1 of 6)") })
			time.Sleep(2 * time.Second)                              // until the middle of the trial
			stallAgent(t, "e2e-unlucky", "d0", 400*time.Millisecond) // it looks at its own timers every 250 ms
			waitFor(t, time.Minute, "its repetition", func() bool { return strings.Contains(errs.String(), "attempt 2 (trial 1 of 6)") })
			time.Sleep(time.Second)
			tt.strike(t, cmd.Process)
			_ = cmd.Wait()
			assert.Equal(t, tt.code, cmd.ProcessState.ExitCode(), errs)
			assert.Contains(t, errs.String(), tt.says)

			s := summary(t, out)
			require.Len(t, s.Trials, 1)
			assert.Equal(t, 2, s.Trials[0].Attempts)
			require.Len(t, s.Trials[0].Spoiled, 1)
			assert.FileExists(t, filepath.Join(out, s.Trials[0].Spoiled[0].File))
			rows := records(t, out)
			require.Len(t, rows, 500, "of the second attempt")
			c := s.Worlds[results.WorldPacket]["netkv-full"].Requests
			assert.Equal(t, 500, c.Completed+c.Failed+c.Incomplete)
			assert.Positive(t, c.Completed)
		})
	}
}

// TestARunThatOverloadsTheHostIsNotRepeated: a scale at which this host cannot carry the packets
// is a fault of the run itself.
func TestARunThatOverloadsTheHostIsNotRepeated(t *testing.T) {
	absent(t, "e2e-heavy")
	out := filepath.Join(t.TempDir(), "run")
	o := mustRun(t, "up", scenario(t, "e2e-heavy", "scale: {rate: 400, time: 1}", "scale: {rate: 16, time: 1}", "requests: 8", "requests: 30",
		"prompt: {mean: 1000, sigma: 0.3, min: 512, max: 2048}", "prompt: {mean: 8000, sigma: 0.3, min: 512, max: 20000}"),
		"--policies", "rr", "--worlds", "packet", "--out", out)
	s := summary(t, out)
	assert.NotEqual(t, results.VerdictGood, s.Fidelity.Verdict)
	require.Len(t, s.Trials, 1)
	assert.Equal(t, 1, s.Trials[0].Attempts, o.stdout)
	assert.Empty(t, s.Trials[0].Spoiled)
	assert.Contains(t, strings.Join(s.Fidelity.Reasons, "; "), "raise scale.rate")
}

// TestAPacketSweepGoesOnWhereItWasStopped: 2 loads x 3 policies x 3 seeds, interrupted once and
// killed once.
func TestAPacketSweepGoesOnWhereItWasStopped(t *testing.T) {
	goneAtEnd(t, "sweep-e2e-grid")
	dir, base := t.TempDir(), scenario(t, "e2e-sweep-base")
	file := filepath.Join(dir, "sweep.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `name: e2e-grid
scenario: %s
worlds: [packet, flow]
axes: [{key: workload.synthetic.rate, values: [4/s, 8/s]}]
policies: [rr, cla, netkv-full]
seeds: [1, 2, 3]
figure: {metric: transfer_mean, policy: netkv-full, baseline: rr}
`, base), 0o600))
	out := filepath.Join(dir, "out")
	for _, stop := range []struct {
		signal unix.Signal
		rows   int // must exist before
	}{{unix.SIGINT, 2}, {unix.SIGKILL, 10}} {
		cmd, _, errs := command(t.Context(), dir, "sweep", file, "--parallel", "2", "--out", out)
		require.NoError(t, cmd.Start())
		waitFor(t, 2*time.Minute, "some trials", func() bool {
			data, _ := os.ReadFile(filepath.Join(out, "cells.jsonl"))
			return strings.Count(string(data), "\n") >= stop.rows
		})
		require.NoError(t, cmd.Process.Signal(stop.signal))
		require.Error(t, cmd.Wait(), errs)
	}
	o := netkvlabIn(t, dir, "sweep", file, "--parallel", "2", "--out", out)
	require.Zero(t, o.code, o.stderr)
	assert.Contains(t, o.stdout, "packet world: ")
	data, err := os.ReadFile(filepath.Join(out, "table.csv"))
	require.NoError(t, err)
	rows, err := csv.NewReader(strings.NewReader(string(data))).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 1+2*2*3*3, "every cell once in each world")
	column := func(name string) int {
		i := slices.Index(rows[0], name)
		require.GreaterOrEqual(t, i, 0, name)
		return i
	}
	seen := map[string]bool{}
	for _, row := range rows[1:] {
		key := strings.Join([]string{row[column("cell")], row[column("policy")], row[column("seed")], row[column("world")]}, " ")
		assert.False(t, seen[key], key)
		seen[key] = true
		if row[column("world")] == results.WorldPacket {
			assert.Contains(t, []string{results.VerdictGood, results.VerdictDegraded, results.VerdictInvalid}, row[column("verdict")], key)
			assert.NotEmpty(t, row[column("attempts")], key)
			assert.NotEmpty(t, row[column("transfer_gap")], key)
			assert.Equal(t, row[column("submitted")], row[column("completed")], key)
			assert.NotEmpty(t, row[column("ttft_mean")], key)
		}
	}
}
