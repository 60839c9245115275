package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

func TestRunFolderIsTriedAndLeftAsItWas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, out := range []string{dir, filepath.Join(dir, "new"), filepath.Join(dir, "a", "b", "c")} {
		got, _, err := runFolder(out, "lab")
		require.NoError(t, err)
		assert.Equal(t, out, got)
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		assert.Empty(t, entries, "nothing is made yet")
	}
}

func TestRunFolderIsNamedAfterTheLab(t *testing.T) {
	t.Chdir(t.TempDir())
	got, giveBack, err := runFolder("", "lab")
	require.NoError(t, err)
	assert.Regexp(t, `^netkvlab-runs/lab-\d{8}-\d{6}$`, got)
	assert.DirExists(t, got)
	giveBack()
	assert.NoDirExists(t, "netkvlab-runs", "nothing was written")
}

func TestRunsThatBeginAtOnceHaveFoldersOfTheirOwn(t *testing.T) {
	t.Chdir(t.TempDir())
	const runs = 32
	var g errgroup.Group
	for i := range runs {
		g.Go(func() error {
			folder, giveBack, err := newRunFolder("lab-20260102-030405")
			if err != nil {
				return err
			}
			if i%2 == 0 { // like a run that is refused before it writes, while others begin
				giveBack()
				return nil
			}
			err = os.WriteFile(filepath.Join(folder, "requests.jsonl"), nil, 0o600)
			giveBack()
			return err
		})
	}
	require.NoError(t, g.Wait())
	files, err := filepath.Glob("netkvlab-runs/lab-20260102-030405*/requests.jsonl")
	require.NoError(t, err)
	assert.Len(t, files, runs/2)
	all, err := os.ReadDir("netkvlab-runs")
	require.NoError(t, err)
	assert.Len(t, all, runs/2, "what was given back is gone")
}

func TestNobodyIsBlamedForAFlagThatWasNotGiven(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("netkvlab-runs", nil, 0o600))
	_, _, err := runFolder("", "lab")
	require.EqualError(t, err, "run folder: netkvlab-runs is no folder, so that none can be made in it: name another with --out")
	assert.Equal(t, exitUsage, exitCode(err))
}

func TestRunFolderThatCannotBe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "thesis.txt")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, tt := range []struct {
		name, out, want string
		code            int
	}{
		{"a folder with something in it", dir, dir + " is not empty (holds thesis.txt): name another folder or remove it", exitUsage},
		{"a file", file, "thesis.txt is no folder: name another", exitUsage},
		{"below a file", filepath.Join(file, "a", "b"), "thesis.txt is no folder, so that none can be made in it", exitUsage},
		{"where nobody writes", "/proc/netkvlab/run", "--out: cannot write in /proc: name another folder", exitFailed},
		{"too long a name", filepath.Join(dir, strings.Repeat("x", 300)), "file name too long", exitFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := runFolder(tt.out, "lab")
			require.ErrorContains(t, err, tt.want)
			assert.Equal(t, tt.code, exitCode(err))
		})
	}
}

func TestSudoCallerIsWhoCalledSudo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		env  map[string]string
		ok   bool
	}{
		{"a user", map[string]string{"SUDO_UID": "1000", "SUDO_GID": "1000"}, true},
		{"no sudo", nil, false},
		{"root by sudo", map[string]string{"SUDO_UID": "0", "SUDO_GID": "0"}, false},
		{"no group", map[string]string{"SUDO_UID": "1000"}, false},
		{"no number", map[string]string{"SUDO_UID": "me", "SUDO_GID": "1000"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, _, ok := sudoCaller(func(key string) string { return tt.env[key] })
			assert.Equal(t, tt.ok, ok)
		})
	}
}
