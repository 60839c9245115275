package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/analysis/compare"
)

// call runs one command line.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestCompareOfASimulatedRun(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	code, _, stderr := call(t, "sim", "quickstart", "--out", dir, "--policies", "rr,netkv-full")
	require.Equal(t, exitOK, code, stderr)

	code, stdout, stderr := call(t, "compare", dir, dir+":flow", "--output", "json")
	require.Equal(t, exitOK, code, stderr)
	var c compare.Comparison
	require.NoError(t, json.Unmarshal([]byte(stdout), &c))
	require.Len(t, c.Gains, 2)
	for _, r := range append(c.Means, c.Gains...) {
		assert.True(t, r.Paired)
		assert.Zero(t, r.Gaps[0].Value, "a run is like itself")
	}
	assert.Empty(t, c.Notes)

	csv := filepath.Join(t.TempDir(), "other.csv")
	require.NoError(t, os.WriteFile(csv, []byte("policy,seed,id,transfer_ms\nrr,1,0,500\nrr,1,1,500\nrr,1,1,600\n"), 0o600))
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"a line of a CSV file", []string{dir, csv}, "other.csv:4: rr, seed 1, request 1 is in line 3 already"},
		{"a world that did not run", []string{dir, dir + ":packet"}, "no requests of the packet world: it has flow"},
		{"nothing there", []string{dir, dir + "-absent"}, "no run folder and no CSV file"},
		{"an unknown baseline", []string{dir, dir, "--baselines", "magic"}, "baseline magic is not in all of them; these are: rr, netkv-full"},
		{"one run alone", []string{dir}, "requires at least 2 arg(s)"},
	} {
		t.Run("names "+tt.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := call(t, append([]string{"compare"}, tt.args...)...)
			assert.Equal(t, exitUsage, code)
			assert.Empty(t, stdout)
			assert.Contains(t, stderr, tt.want)
		})
	}
}
