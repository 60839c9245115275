package sweep

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/results"
)

// finished runs the tiny sweep in a folder and gives the lines of its cells.
func finished(t *testing.T) (s *Sweep, dir string, lines []string) {
	t.Helper()
	s, dir = mustFolder(t, tiny), t.TempDir()
	_, err := Run(t.Context(), s, Options{Dir: dir, Version: "v1"})
	require.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(dir, cellsFile))
	require.NoError(t, err)
	return s, dir, strings.SplitAfter(strings.TrimSuffix(string(data), "\n"), "\n")
}

func TestALineThatStandsThereTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	s, dir, lines := finished(t)
	before := table(t, dir)
	double := strings.Join(lines, "") + "\n" + strings.Join(lines, "") + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, cellsFile), []byte(double), 0o600))
	res, err := Run(t.Context(), s, Options{Dir: dir, Version: "v1", Progress: func(int, int, time.Duration) { t.Error("nothing is left to run") }})
	require.NoError(t, err)
	assert.Len(t, res.Rows, 16)
	assert.Equal(t, before, table(t, dir))
}

func TestLinesThatAreNotTheSweepsAreRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ from, to, want string }{
		"two values for one trial": {`"submitted":20`, `"submitted":21`, "line 17: cell 0, policy \"rr\", seed 1 has another value than in an earlier line"},
		"a cell beyond the grid":   {`"cell":0`, `"cell":99`, "line 17: cell 99"},
		"a policy of another":      {`"policy":"rr"`, `"policy":"cla"`, "is no trial of this sweep"},
		"a seed of another":        {`"seed":1`, `"seed":7`, "is no trial of this sweep"},
		"a world of another":       {`"seed":1`, `"world":"packet","seed":1`, "is no trial of this sweep"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir, lines := finished(t)
			own := ""
			for _, l := range lines {
				if strings.Contains(l, `"cell":0,`) && strings.Contains(l, `"policy":"rr"`) && strings.Contains(l, `"seed":1,`) {
					own = strings.TrimSpace(l)
				}
			}
			require.Contains(t, own, tt.from)
			text := strings.Join(lines, "") + "\n" + strings.Replace(own, tt.from, tt.to, 1) + "\n"
			require.NoError(t, os.WriteFile(filepath.Join(dir, cellsFile), []byte(text), 0o600))
			_, err := Run(t.Context(), s, Options{Dir: dir, Version: "v1"})
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestASweepOfOtherWorldsIsAnotherSweep(t *testing.T) {
	t.Parallel()
	s, dir, _ := finished(t)
	s.File.Worlds = []string{results.WorldPacket, results.WorldFlow}
	assert.Equal(t, 32, s.Trials())
	_, _, err := openStore(dir, s, "v1")
	var changed *ChangedError
	require.ErrorAs(t, err, &changed)
	assert.Contains(t, changed.Reason, "worlds")
	_, err = Run(t.Context(), s, Options{Dir: t.TempDir(), Version: "v1"})
	require.ErrorContains(t, err, "needs labs")
}

func TestWorldsAreChecked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"worlds: flow":               "must be a list",
		"worlds: []":                 "not empty",
		"worlds: [flow, flow]":       "each once",
		"worlds: [replay]":           "each once",
		"worlds: [packet, flow, {}]": "each once",
	} {
		_, err := Parse("x.yaml", []byte("scenario: quickstart\n"+text+"\n"))
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, "x.yaml:2: worlds", text)
	}
}

func TestGapsAreOfTheRequestsThatCompletedEverywhere(t *testing.T) {
	t.Parallel()
	record := func(id int, ttft, transfer float64) results.Record {
		return results.Record{ID: id, Status: results.Completed, TTFTMS: &ttft, TransferMS: transfer}
	}
	failed := record(3, 1000, 1000)
	failed.Status = results.Failed
	packet := []results.Record{record(1, 110, 60), record(2, 220, 80), failed}
	replay := []results.Record{record(1, 105, 55), record(2, 210, 70), record(3, 1, 1)}
	flow := []results.Record{record(1, 100, 50), record(2, 215, 75), record(3, 1, 1)}
	assert.Equal(t, map[string]float64{
		"ttft_gap": 7.5, "ttft_transport": 7.5, "ttft_decisions": 0,
		"transfer_gap": 7.5, "transfer_transport": 7.5, "transfer_decisions": 0,
	}, gaps(packet, replay, flow))
	assert.Nil(t, gaps(packet[2:], replay, flow))
}

func TestEverySweepHasALabName(t *testing.T) {
	t.Parallel()
	for sweep, want := range map[string]string{
		"core-rate": "sweep-core-rate", "My Sweep!": "sweep-my-sweep", "/../../etc": "sweep--------etc", "é": "sweep", "": "sweep",
		strings.Repeat("x", 99): "sweep-" + strings.Repeat("x", 24),
	} {
		assert.Equal(t, want, LabName(sweep), sweep)
	}
}
