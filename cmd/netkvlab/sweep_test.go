package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const smallSweep = `scenario: paper-64gpu
settings: {workload.synthetic.requests: 10}
axes: [{key: workload.synthetic.rate, values: [1/s, 2/s]}]
policies: [rr, netkv-full]
seeds: [1]
figure: {baseline: rr}
`

func TestSweepPrintsItsMapAndARerunDoesNothing(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "s.yaml")
	require.NoError(t, os.WriteFile(file, []byte(smallSweep), 0o600))
	out := filepath.Join(dir, "out")
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"sweep", file, "--out", out}, &stdout, &stderr), stderr.String())
	assert.Contains(t, stdout.String(), "ttft_mean of netkv-full against rr (%)")
	assert.FileExists(t, filepath.Join(out, "table.csv"))

	stdout.Reset()
	require.Equal(t, exitOK, run(t.Context(), []string{"sweep", file, "--out", out, "--output", "json"}, &stdout, &stderr))
	var said map[string]any
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &said))
	assert.InDelta(t, 4, said["reused"], 0)

	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(smallSweep, "2/s", "3/s", 1)), 0o600))
	stderr.Reset()
	assert.Equal(t, exitUsage, run(t.Context(), []string{"sweep", file, "--out", out}, &stdout, &stderr))
	assert.Contains(t, stderr.String(), "the sweep file has changed, first in line 3")

	stderr.Reset()
	assert.Equal(t, exitUsage, run(t.Context(), []string{"sweep", "no-such"}, &stdout, &stderr))
	assert.Contains(t, stderr.String(), "paper-table2")
	assert.Equal(t, exitUsage, run(t.Context(), []string{"sweep", file, "--jobs", "-1"}, &stdout, &stderr))
}

func TestTuneWritesAFileThatAScenarioCanName(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "w.yaml")
	var stdout, stderr bytes.Buffer
	small := []string{"paper-64gpu", "--set", "workload.synthetic.requests=10", "--seeds", "1"}
	require.Equal(t, exitOK, run(t.Context(), append([]string{"tune", "--out", out}, small...), &stdout, &stderr), stderr.String())
	assert.Contains(t, stdout.String(), "<- best")
	file := filepath.Join(dir, "s.yaml")
	require.NoError(t, os.WriteFile(file, []byte("workload: {synthetic: {requests: 5}}\npolicies: [{name: cla*, weights: w.yaml}]\nscale: {rate: 400}\n"), 0o600))
	require.Equal(t, exitOK, run(t.Context(), []string{"sim", file, "--out", filepath.Join(dir, "run")}, &stdout, &stderr), stderr.String())

	stdout.Reset()
	require.Equal(t, exitOK, run(t.Context(), append([]string{"tune", "--output", "json"}, small...), &stdout, &stderr))
	var said map[string]any
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &said))
	assert.Contains(t, said, "cache_weight")
	assert.NotEmpty(t, said["grid"])

	assert.Equal(t, exitUsage, run(t.Context(), append([]string{"tune", "--metric", "tier2"}, small...), &stdout, &stderr))
}

func TestTwoSweepsDoNotShareAFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "sweep")
	unlock, err := lockSweep(dir)
	require.NoError(t, err)
	_, err = lockSweep(dir)
	require.ErrorContains(t, err, "another netkvlab is working on the sweep in "+dir)
	unlock()
	assert.NoDirExists(t, dir, "nothing was written")
	unlock, err = lockSweep(dir)
	require.NoError(t, err)
	unlock()
}
