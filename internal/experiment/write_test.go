package experiment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/fidelity"
	"github.com/netkvlab/netkvlab/internal/packetworld"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

// writing returns a writer for six trials, its folder, and a function that returns what is
// written so far: one digit per trial.
func writing(t *testing.T) (*orderedWriter, string, func() string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	w, err := results.Create(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	o := newOrderedWriter(w)
	for n := range 6 {
		o.work = append(o.work, Work{Name: string(rune('a' + n)), Trial: trials.Trial{Policy: scenarios.NewPolicy("rr"), Seed: uint64(n)}})
	}
	return o, dir, func() string {
		files, err := filepath.Glob(filepath.Join(dir, results.RequestsFile+"*"))
		require.NoError(t, err)
		data, err := os.ReadFile(files[0])
		require.NoError(t, err)
		var seeds strings.Builder
		for line := range strings.Lines(string(data)) {
			_, rest, found := strings.Cut(line, `"seed":`)
			require.True(t, found)
			seeds.WriteByte(rest[0])
		}
		return seeds.String()
	}
}

func played(n, attempts int) *Played {
	return &Played{
		Outcome: &packetworld.Outcome{
			Records: []results.Record{{Seed: uint64(n), Policy: "rr"}}, Replay: []results.Record{{Seed: uint64(n)}},
			Links: []results.LinkSample{{Seed: uint64(n)}}, Evidence: &fidelity.Evidence{},
		},
		Judgement: fidelity.Judge(&fidelity.Evidence{}), Lab: "x", Attempts: attempts,
	}
}

func TestTrialsAreWrittenInTheirOrderWhicheverEndsFirst(t *testing.T) {
	t.Parallel()
	o, _, written := writing(t)
	for _, step := range []struct {
		n    int
		want string
	}{{2, ""}, {1, ""}, {0, "012"}, {4, "012"}, {3, "01234"}} {
		require.NoError(t, o.Keep(step.n, played(step.n, 1)))
		assert.Equal(t, step.want, written())
	}
	require.NoError(t, o.flush())
	assert.Equal(t, "01234", written())
	assert.Len(t, o.records(), 5)
	assert.Len(t, o.replays(), 5)
}

func TestTrialsBehindOneThatNeverCameAreWrittenAtTheEnd(t *testing.T) {
	t.Parallel()
	o, _, written := writing(t)
	for _, n := range []int{5, 0, 3} {
		require.NoError(t, o.Keep(n, played(n, 1)))
	}
	assert.Equal(t, "0", written())
	require.NoError(t, o.flush())
	assert.Equal(t, "035", written())
}

func TestASpoiledAttemptIsPutAsideAndCountsNowhere(t *testing.T) {
	t.Parallel()
	o, dir, written := writing(t)
	bad := played(0, 1)
	bad.Judgement.Verdict, bad.Judgement.Reasons = results.VerdictDegraded, []string{"a timer was late"}
	require.NoError(t, o.PutAside(0, bad))
	assert.Empty(t, written())
	require.NoError(t, o.Keep(0, played(0, 2)))
	assert.Equal(t, "0", written())
	assert.Len(t, o.records(), 1)
	all := o.judged()
	require.Len(t, all, 1)
	assert.Equal(t, 2, all[0].Attempts)
	assert.Equal(t, results.VerdictGood, all[0].Verdict)
	require.Equal(t, []results.SpoiledAttempt{{
		Attempt: 1, Verdict: results.VerdictDegraded, Reasons: []string{"a timer was late"}, File: "spoiled-trial1-attempt1.jsonl",
	}}, all[0].Spoiled)
	data, err := os.ReadFile(filepath.Join(dir, all[0].Spoiled[0].File))
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(data), "\n"))
}

func TestAnAttemptThatCannotBePutAsideIsAnError(t *testing.T) {
	t.Parallel()
	o, dir, _ := writing(t)
	require.NoError(t, os.Rename(dir, dir+".gone"))
	require.Error(t, o.PutAside(0, played(0, 1)))
	assert.Empty(t, o.judged())
	require.NoError(t, os.Rename(dir+".gone", dir))
}
