package lab

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/netkvlab/netkvlab/nodes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func store(t *testing.T) Store { return Store{Root: filepath.Join(t.TempDir(), "labs")} }

func TestStateComesBackAsWritten(t *testing.T) {
	s := store(t)
	lk, err := s.tryLock("a", true)
	require.NoError(t, err)
	st := &State{
		Format: stateFormat, Lab: "a", Created: time.Now().UTC().Round(0), Phase: PhaseReady, Runtime: "process",
		Owner: self(), Agents: []nodes.Agent{{Node: "p0", PID: 7, StartTime: 9}},
	}
	require.NoError(t, s.save(st))
	got, err := s.Load("a")
	require.NoError(t, err)
	assert.Equal(t, st, got)
	assert.True(t, got.Owner.running(), "this very process")
	assert.False(t, Process{PID: got.Owner.PID, StartTime: 1}.running(), "another one of the same number")
	require.NoError(t, lk.Close())
}

func TestAbsentAndDamagedAreDifferentAnswers(t *testing.T) {
	s := store(t)
	_, err := s.Load("none")
	require.ErrorIs(t, err, ErrNotUp)
	lk, err := s.tryLock("hurt", true)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.state("hurt"), []byte(`{"format":1,"la`), 0o600))
	_, err = s.Load("hurt")
	require.Error(t, err)
	assert.NotErrorIs(t, err, ErrNotUp)
	assert.Contains(t, err.Error(), "damaged")
	require.NoError(t, lk.Close())
}

func TestOneProcessWorksOnALabAtATime(t *testing.T) {
	s := store(t)
	lk, err := s.tryLock("a", true)
	require.NoError(t, err)
	_, err = s.tryLock("a", false)
	var busy *BusyError
	require.ErrorAs(t, err, &busy)
	assert.Contains(t, err.Error(), "netkvlab down a")
	require.NoError(t, lk.Close())
	lk, err = s.tryLock("a", false)
	require.NoError(t, err)
	require.NoError(t, lk.Close())
}

func TestWaitingEndsWhenTheFolderIsRemoved(t *testing.T) {
	s := store(t)
	lk, err := s.tryLock("a", true)
	require.NoError(t, err)
	got := make(chan error, 1)
	go func() {
		_, _, err := evict(t.Context(), "a", Options{Store: s})
		got <- err
	}()
	require.NoError(t, s.removeDir("a"))
	require.NoError(t, lk.Close())
	require.ErrorIs(t, <-got, ErrNotUp)
	assert.NoDirExists(t, s.Root, "the last lab takes the root with it")
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	s := store(t)
	lk, err := s.tryLock("a", true)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = evict(ctx, "a", Options{Store: s})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, lk.Close())
}

func TestAHolderThatSignsLateIsAskedToEndAllTheSame(t *testing.T) {
	s := store(t)
	lk, err := s.tryLock("a", true)
	require.NoError(t, err)
	require.NoError(t, s.save(&State{Format: stateFormat, Lab: "a", Phase: PhaseReady}))
	holder := exec.Command("sleep", "600")
	require.NoError(t, holder.Start())
	start, err := nodes.StartTime(holder.Process.Pid)
	require.NoError(t, err)
	owner := Process{PID: holder.Process.Pid, StartTime: start}

	got := make(chan Process, 1)
	go func() {
		lk, owner, err := evict(t.Context(), "a", Options{Store: s})
		if assert.NoError(t, err) {
			assert.NoError(t, lk.Close())
		}
		got <- owner
	}()
	require.NoError(t, s.save(&State{Format: stateFormat, Lab: "a", Phase: PhaseReady, Owner: owner}))
	var status *exec.ExitError
	require.ErrorAs(t, holder.Wait(), &status, "interrupted, not left to sleep")
	require.NoError(t, lk.Close())
	assert.Equal(t, owner, <-got)
}

func TestAJournalCutOffLosesOnlyItsLastName(t *testing.T) {
	s := store(t)
	lk, err := s.tryLock("a", true)
	require.NoError(t, err)
	names, err := s.planned("a")
	require.NoError(t, err)
	assert.Empty(t, names, "no journal yet")
	require.NoError(t, s.writeJournal("a", []string{"a.p0", "a.d0", "a.tor0-0"}))
	names, err = s.planned("a")
	require.NoError(t, err)
	assert.Equal(t, []string{"a.p0", "a.d0", "a.tor0-0"}, names)
	require.NoError(t, os.Truncate(s.journal("a"), 13))
	names, err = s.planned("a")
	require.NoError(t, err)
	assert.Equal(t, []string{"a.p0", "a.d0"}, names)
	require.NoError(t, lk.Close())
}

func TestLabsListsOnlyWhatCanBeOne(t *testing.T) {
	s := store(t)
	labs, err := s.Labs()
	require.NoError(t, err)
	assert.Empty(t, labs)
	for _, d := range []string{"b", "a", "-no", "UPPER", "x.y"} {
		require.NoError(t, os.MkdirAll(filepath.Join(s.Root, d), 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(s.Root, "file"), nil, 0o600))
	labs, err = s.Labs()
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, labs)
}

func TestNamesFromTheCommandLineCannotLeaveTheRoot(t *testing.T) {
	for _, name := range []string{"", "..", "a/b", "../etc", "-x", "A", strings.Repeat("a", 41), "é"} {
		_, err := Down(t.Context(), name, Options{Store: store(t)})
		require.Error(t, err, name)
		assert.False(t, errors.Is(err, ErrNotUp), name)
		_, _, err = read(store(t), name)
		require.Error(t, err, name)
	}
}

func TestProgressIsPlainWhereThereIsNoTerminal(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(&b)
	now := time.Unix(0, 0)
	p.now = func() time.Time { return now }
	p.Phase("building %s", "a")
	p.Step("trial", 1, 4, 30*time.Second)
	assert.Equal(t, "building a\n", b.String(), "no more than a line in ten seconds")
	now = now.Add(11 * time.Second)
	p.Step("trial", 2, 4, 20*time.Second)
	p.Note("done")
	p.Close()
	assert.Equal(t, "building a\ntrial: 2 of 4, about 20s left\ndone\n", b.String())
	var none *Progress
	none.Phase("nothing")
	none.Close()
}

func TestShortenKeepsListsReadable(t *testing.T) {
	assert.Equal(t, "a, b", shorten([]string{"a", "b"}, 2))
	assert.Equal(t, "a, b and 2 more", shorten([]string{"a", "b", "c", "d"}, 2))
}

func TestMembersAreTheLabsThatWereMadeBesideOne(t *testing.T) {
	s := store(t)
	for name, group := range map[string]string{"a": "", "a-2": "a", "a-3": "a", "a-4": "", "b-2": "b"} {
		lk, err := s.tryLock(name, true)
		require.NoError(t, err)
		require.NoError(t, s.save(&State{Format: stateFormat, Lab: name, Group: group, Phase: PhaseReady}))
		require.NoError(t, lk.Close())
	}
	require.NoError(t, os.WriteFile(s.state("a-3"), []byte("{"), 0o600))
	members, err := s.members("a")
	require.NoError(t, err)
	assert.Equal(t, []string{"a-2"}, members, "by what states say, never by the name alone")
}

func TestAProcessIsAskedOnce(t *testing.T) {
	p, q := Process{PID: 1, StartTime: 2}, Process{PID: 1, StartTime: 3}
	a := asked{}
	assert.True(t, a.first(p))
	assert.True(t, a.first(q), "the number alone is not the process")
	assert.False(t, a.first(p))
	var none asked
	assert.True(t, none.first(p))
	assert.True(t, none.first(p))
}
