package e2e

import (
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

	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/host/calibrate"
	"github.com/netkvlab/netkvlab/internal/results"
)

func TestTrialsSideBySideLeaveTheFolderOfASerialRun(t *testing.T) {
	goneAtEnd(t, "e2e-par")
	s := scenario(t, "e2e-par", "seeds: [1]", "seeds: [1, 2]")
	var runs [2][]results.Record
	for i, fabrics := range []string{"1", "4"} {
		dir := filepath.Join(t.TempDir(), "run")
		mustRun(t, "up", s, "--parallel", fabrics, "--worlds", "packet", "--out", dir)
		runs[i] = records(t, dir)
		sum := summary(t, dir)
		assert.NotNil(t, sum.Fidelity.Figures)
		assert.NotEmpty(t, sum.Scaling)
		assert.Equal(t, "e2e-par", sum.Scenario)
		assert.NotEmpty(t, links(t, dir))
	}
	require.Len(t, runs[1], 2*2*8, "seeds, policies, requests")
	require.Len(t, runs[1], len(runs[0]))
	for i := range runs[0] {
		a, b := &runs[0][i], &runs[1][i]
		require.Equal(t, a.Key(), b.Key(), "record %d", i)
		assert.Equal(t, results.Completed, b.Status, b.Key())
		if a.Policy == "rr" { // its decisions do not depend on the network
			assert.Equal(t, [2]string{a.Prefill, a.Decode}, [2]string{b.Prefill, b.Decode}, b.Key())
			assert.Equal(t, a.PayloadBytesEmulated, b.PayloadBytesEmulated, b.Key())
		}
	}
}

// gone checks that nothing is left of a run's labs side by side; unlike clean it ignores other
// labs.
func gone(t *testing.T, name string) {
	t.Helper()
	for _, lab := range []string{name, name + "-2", name + "-3", name + "-4"} {
		nothingOf(t, lab)
	}
}

// goneAtEnd is the same at the test's end.
func goneAtEnd(t *testing.T, name string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			_ = exec.Command(binary, "down", name).Run()
			return
		}
		gone(t, name)
	})
}

// sideBySide starts a long run in three fabrics and waits until their trials run.
func sideBySide(t *testing.T, name string) (dir string, signal func(os.Signal), wait func() (int, string)) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "run")
	s := scenario(t, name, "seeds: [1]", "seeds: [1, 2, 3]", "requests: 8", "requests: 60")
	cmd, _, errs := command(t.Context(), t.TempDir(), "up", s, "--parallel", "3", "--worlds", "packet", "--out", dir)
	require.NoError(t, cmd.Start())
	waitFor(t, 30*time.Second, "the trials to begin", func() bool { return strings.Contains(errs.String(), "trial 3 of 6") })
	return dir, func(s os.Signal) { require.NoError(t, cmd.Process.Signal(s)) }, func() (int, string) {
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode(), errs.String()
	}
}

func TestInterruptionSideBySideKeepsWhatAllMeasured(t *testing.T) {
	t.Parallel()
	goneAtEnd(t, "e2e-parint")
	dir, signal, wait := sideBySide(t, "e2e-parint")
	var listed []struct {
		Lab string `json:"lab"`
	}
	require.NoError(t, json.Unmarshal([]byte(mustRun(t, "ps", "--output", "json").stdout), &listed))
	found := map[string]bool{}
	for _, l := range listed {
		found[l.Lab] = true
	}
	assert.True(t, found["e2e-parint"] && found["e2e-parint-2"] && found["e2e-parint-3"], "ps lists %v", found)
	time.Sleep(3 * time.Second) // let some requests finish
	signal(os.Interrupt)
	code, errs := wait()
	require.Equal(t, 130, code, errs)
	gone(t, "e2e-parint")
	sum := summary(t, dir)
	assert.True(t, sum.Interrupted)
	for _, policy := range []string{"rr", "netkv-full"} {
		c := sum.Worlds[results.WorldPacket][policy].Requests
		assert.Positive(t, c.Completed, policy)
		assert.Positive(t, c.Incomplete, policy)
	}
	assert.Len(t, records(t, dir), 3*60, "of the three trials that were under way")
}

func TestDownFindsAllFabricsOfAKilledRun(t *testing.T) {
	t.Parallel()
	goneAtEnd(t, "e2e-parkill")
	_, signal, wait := sideBySide(t, "e2e-parkill")
	signal(os.Kill)
	wait()
	down := mustRun(t, "down", "e2e-parkill")
	for _, lab := range []string{"e2e-parkill:", "e2e-parkill-2:", "e2e-parkill-3:"} {
		assert.Contains(t, down.stdout, lab)
	}
	gone(t, "e2e-parkill")
}

func TestDownEndsARunSideBySideInOrder(t *testing.T) {
	t.Parallel()
	goneAtEnd(t, "e2e-pardown")
	dir, _, wait := sideBySide(t, "e2e-pardown")
	mustRun(t, "down", "e2e-pardown")
	code, errs := wait()
	assert.Equal(t, 130, code, errs)
	assert.NotContains(t, errs, "stopped at once", "it was asked to end once, not once a fabric")
	gone(t, "e2e-pardown")
	assert.True(t, summary(t, dir).Interrupted)
}

func TestAgentLostInOneFabricLeavesTheOthersTheirTrial(t *testing.T) {
	t.Parallel()
	goneAtEnd(t, "e2e-parloss")
	dir, _, wait := sideBySide(t, "e2e-parloss")
	killAgent(t, "e2e-parloss-2", "d0")
	code, errs := wait()
	assert.Equal(t, 1, code, errs)
	assert.Contains(t, errs, "lost agent d0")
	sum := summary(t, dir)
	assert.Equal(t, results.VerdictInvalid, sum.Fidelity.Verdict)
	byTrial := map[string]map[string]int{}
	for _, r := range records(t, dir) {
		k := fmt.Sprintf("%s %d", r.Policy, r.Seed)
		if byTrial[k] == nil {
			byTrial[k] = map[string]int{}
		}
		byTrial[k][r.Status]++
	}
	assert.GreaterOrEqual(t, len(byTrial), 3, "those under way came to their end: %v", byTrial)
	assert.Less(t, len(byTrial), 6, "and not all others were begun: %v", byTrial)
}

func TestParallelRefusesWhatMakesNoSense(t *testing.T) {
	s := scenario(t, "e2e-parbad")
	for _, args := range [][]string{
		{"up", s, "--parallel", "0"}, {"up", s, "--parallel", "many"}, {"up", "-d", s, "--parallel", "2"},
		{"up", scenario(t, "e2e-"+strings.Repeat("a", 36)), "--parallel", "2"},
	} {
		assert.Equal(t, 2, netkvlab(t, args...).code, "%v", args)
	}
}

// setAside moves this host's calibration, if any, to another place until the test's end.
func setAside(t *testing.T) {
	t.Helper()
	file := filepath.Join(host.CalibrationDir, "calibration.json")
	data, err := os.ReadFile(file)
	if err == nil {
		require.NoError(t, os.Remove(file))
	}
	t.Cleanup(func() {
		if data != nil {
			require.NoError(t, os.WriteFile(file, data, 0o644))
			return
		}
		require.NoError(t, os.RemoveAll(file))
		_ = os.Remove(host.CalibrationDir) // the first calibration makes it again
	})
}

func TestAutoGoesByTheCalibration(t *testing.T) {
	long(t)
	absent(t, calibrate.Lab)
	absent(t, "e2e-auto")
	setAside(t)
	var o outcome
	waitFor(t, 3*time.Minute, "a quiet host", func() bool {
		o = netkvlab(t, "doctor", "--calibrate")
		return o.code == 0 || !strings.Contains(o.stderr, "when the host is quiet")
	})
	require.Zero(t, o.code, o.stderr)
	assert.Contains(t, o.stdout, "PACKET-HOPS/S PER CORE")
	c, err := host.ReadCalibration(host.CalibrationDir)
	require.NoError(t, err)
	require.Len(t, c.Steps, 5)
	for _, s := range c.Steps {
		assert.Greater(t, s.HopsPerCore, 10e3, "%v", s)
	}
	assert.Greater(t, c.Saturated.HopsPerSecond, 10e3)
	assert.Positive(t, c.OneFlow.BitsPerSecond)
	nothingOf(t, calibrate.Lab)

	s := scenario(t, "e2e-auto", "rate: 400", "rate: auto", "policies: [rr, netkv-full]", "policies: [rr]")
	dir := filepath.Join(t.TempDir(), "run")
	up := mustRun(t, "up", s, "--worlds", "packet", "--out", dir)
	assert.Contains(t, up.stderr, "by this host's calibration")
	sum := summary(t, dir)
	assert.GreaterOrEqual(t, sum.Scale.Rate, 50.0)
	assert.Contains(t, strings.Join(sum.Fidelity.Notes, "\n"), "auto chose")

	c.Kernel = "0.0.1"
	require.NoError(t, c.Save(host.CalibrationDir))
	up = mustRun(t, "up", s, "--worlds", "packet", "--out", filepath.Join(t.TempDir(), "run"))
	assert.Contains(t, up.stderr, "the calibration is of Linux 0.0.1")
	assert.Contains(t, up.stderr, "cautious constants")
}

// --all removes all labs, so the command runs with a separate /run and /var/cache, where there
// are no other labs.
func TestDownAllLeavesTheCalibration(t *testing.T) {
	script := fmt.Sprintf(`export DOCKER_HOST=unix:///nonexistent
mount -t tmpfs none /run; mount -t tmpfs none /var/cache
mkdir -p %[1]s /run/netkvlab/e2e-none; echo measured >%[1]s/calibration.json
%[2]s down --all
ls /run/netkvlab 2>/dev/null || true
cat %[1]s/calibration.json`, host.CalibrationDir, binary)
	out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "private", "sh", "-ec", script).CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "e2e-none: removed")
	assert.True(t, strings.HasSuffix(string(out), "\nmeasured\n"), "%s", out)
}

func TestAnInterruptedCalibrationLeavesNothing(t *testing.T) {
	long(t)
	absent(t, calibrate.Lab)
	setAside(t)
	for _, after := range []time.Duration{600, 900, 1300, 2500} {
		cmd, _, errs := command(t.Context(), t.TempDir(), "doctor", "--calibrate")
		require.NoError(t, cmd.Start())
		time.Sleep(after * time.Millisecond) // the instant is the test's input
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if !strings.Contains(errs.String(), "when the host is quiet") {
			assert.Equal(t, 130, cmd.ProcessState.ExitCode(), "after %d ms: %s", after, errs)
		}
		nothingOf(t, calibrate.Lab)
	}
}
