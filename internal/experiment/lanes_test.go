package experiment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/scenarios"
)

func booked(t *testing.T) (*book, func() string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	w, err := results.Create(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	b := &book{run: &run{out: w}, waiting: map[int]*page{}}
	return b, func() string {
		var seeds strings.Builder
		for _, r := range b.run.records {
			seeds.WriteByte(byte('0' + r.Seed))
		}
		files, err := filepath.Glob(filepath.Join(dir, results.RequestsFile+"*"))
		require.NoError(t, err)
		data, err := os.ReadFile(files[0])
		require.NoError(t, err)
		assert.Equal(t, len(b.run.records), strings.Count(string(data), "\n"), "what is kept is written")
		return seeds.String()
	}
}

func leaf(n int) *page {
	return &page{records: []results.Record{{Seed: uint64(n)}}, links: []results.LinkSample{{Seed: uint64(n)}}}
}

func TestTrialsAreWrittenInTheirOrderWhicheverEndsFirst(t *testing.T) {
	t.Parallel()
	b, written := booked(t)
	for _, step := range []struct {
		n    int
		want string
	}{{2, ""}, {1, ""}, {0, "012"}, {4, "012"}, {3, "01234"}} {
		require.NoError(t, b.enter(step.n, leaf(step.n)))
		assert.Equal(t, step.want, written())
	}
	require.NoError(t, b.close())
	assert.Equal(t, "01234", written())
}

func TestTrialsBehindOneThatNeverCameAreWrittenAtTheEnd(t *testing.T) {
	t.Parallel()
	b, written := booked(t)
	for _, n := range []int{5, 0, 3} {
		require.NoError(t, b.enter(n, leaf(n)))
	}
	assert.Equal(t, "0", written())
	require.NoError(t, b.close())
	assert.Equal(t, "035", written())
}

func TestTurnsAreInTheOrderOfSeedsAndPolicies(t *testing.T) {
	t.Parallel()
	s, err := scenarios.Load("quickstart", "seeds=[7, 3]", "policies=[rr, cla]", "workload.synthetic.requests=2")
	require.NoError(t, err)
	turns, err := (&run{opt: Options{Scenario: s}}).turns()
	require.NoError(t, err)
	var got []string
	for i, x := range turns {
		assert.Equal(t, i, x.n)
		got = append(got, x.name)
	}
	assert.Equal(t, []string{
		"rr, seed 7 (trial 1 of 4)", "cla, seed 7 (trial 2 of 4)", "rr, seed 3 (trial 3 of 4)", "cla, seed 3 (trial 4 of 4)",
	}, got)
	assert.Same(t, turns[0].load, turns[1].load, "all policies get the same requests")
}

func TestNoTrialIsHandedOutOnceALaneHasFailed(t *testing.T) {
	t.Parallel()
	s := &share{queue: []turn{{n: 0}, {n: 1}, {n: 2}}}
	x, ok := s.next()
	require.True(t, ok)
	assert.Zero(t, x.n)
	s.stop()
	_, ok = s.next()
	assert.False(t, ok)
}

// line remembers what a person is told.
type line struct{ said []string }

func (l *line) Phase(format string, args ...any) { l.said = append(l.said, args[0].(string)) }

func (l *line) Step(phase string, done, total int, _ time.Duration) {
	l.said = append(l.said, phase)
	l.said = append(l.said, strings.Repeat("|", done)+strings.Repeat(".", total-done))
}

func TestProgressSideBySideIsOfAllTrials(t *testing.T) {
	t.Parallel()
	var l line
	told := newTold(&l, 2, 2)
	told.begin("a")
	told.begin("b")
	told.step("a", 1, 3)
	told.step("b", 2, 3)
	told.step("a", 3, 3)
	assert.Equal(t, []string{
		"a", "b", "2 trials in 2 fabrics", "|.....", "2 trials in 2 fabrics", "|||...", "2 trials in 2 fabrics", "|||||.",
	}, l.said)
	l.said = nil
	told = newTold(&l, 2, 1)
	told.begin("a")
	told.step("a", 2, 3)
	assert.Equal(t, []string{"a", "a", "||."}, l.said)
}
