package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// events builds a stream from "action test [output]" lines of one package.
func events(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		f := strings.SplitN(line, " ", 3)
		b.WriteString(`{"Action":"` + f[0] + `","Package":"example.org/m/a"`)
		if len(f) > 1 && f[1] != "" {
			b.WriteString(`,"Test":"` + f[1] + `"`)
		}
		if len(f) > 2 {
			b.WriteString(`,"Output":"` + f[2] + `\n"`)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestReport(t *testing.T) {
	t.Parallel()
	skip := []string{"run TestB", "output TestB     b_test.go:7: netem: needs CONFIG_NET_SCH_NETEM: not found", "skip TestB"}
	tests := []struct {
		name        string
		events      string
		allow, must string
		strict      bool
		wantErr     error
		want        string // the last lines
	}{
		{name: "passes are counted", events: events("run TestA", "pass TestA", "pass"), want: "1 passed, 0 failed, 0 skipped\n"},
		{name: "no test at all is a failure", events: events("pass"), wantErr: errUnproven, want: "0 passed, 0 failed, 0 skipped\n"},
		{name: "a failing test is a failure", events: events("run TestA", "fail TestA", "fail"), wantErr: errUnproven, want: "0 passed, 1 failed, 0 skipped\n"},
		{
			name: "a package that does not build is a failure", events: events("run TestA", "pass TestA") + `{"Action":"fail","Package":"example.org/m/b"}` + "\n",
			wantErr: errUnproven, want: "1 passed, 1 failed, 0 skipped\n",
		},
		{name: "a test that never ended is a failure", events: events("run TestA"), wantErr: errUnproven, want: "0 passed, 1 failed, 0 skipped\n"},
		{
			name: "an allowed skip is named with its reason", events: events(append(skip, "run TestA", "pass TestA")...), allow: "^netem: needs", strict: true,
			want: "skipped 1 (netem: needs CONFIG_NET_SCH_NETEM: not found): a.TestB\n1 passed, 0 failed, 1 skipped\n",
		},
		{name: "another skip fails where CI is strict", events: events(append(skip, "pass TestA")...), allow: "^red: needs", strict: true, wantErr: errUnproven, want: "1 passed, 0 failed, 1 skipped\n"},
		{name: "another skip is only told elsewhere", events: events(append(skip, "pass TestA")...), want: "1 passed, 0 failed, 1 skipped\n"},
		{name: "a must-run test that passed is fine", events: events("pass TestA"), must: "a TestA", strict: true, want: "1 passed, 0 failed, 0 skipped\n"},
		{
			name: "a must-run test that is missing fails", events: events("pass TestA"), must: "# why\n\na TestGone", strict: true, wantErr: errUnproven,
			want: "ERROR: must pass, but is missing: a TestGone\n1 passed, 0 failed, 0 skipped\n",
		},
		{
			name: "a must-run test that was skipped fails though the skip is allowed", events: events(append(skip, "pass TestA")...), allow: "netem", must: "a TestB", strict: true, wantErr: errUnproven,
			want: "ERROR: must pass, but is skipped: a TestB\n1 passed, 0 failed, 1 skipped\n",
		},
		{name: "a pass in another lane makes a skip good", events: events("skip TestA", "pass TestA"), strict: true, want: "1 passed, 0 failed, 0 skipped\n"},
		{name: "a failure is not made good", events: events("fail TestA", "pass TestA"), wantErr: errUnproven, want: "0 passed, 1 failed, 0 skipped\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := reportFiles(&out, []string{write(t, tt.events)}, write(t, tt.allow), write(t, tt.must), tt.strict)
			require.ErrorIs(t, err, tt.wantErr)
			assert.True(t, strings.HasSuffix(out.String(), tt.want), "got %q", out.String())
		})
	}
}

func TestWatchShowsFailuresAndKeepsTheEvents(t *testing.T) {
	t.Parallel()
	in := events("output TestB === RUN   TestB", "output TestA     a_test.go:3: fine", "pass TestA", "output TestB     a_test.go:9: broken", "fail TestB", "output  FAIL example.org/m/a") + "not json\n"
	kept := filepath.Join(t.TempDir(), "events")
	var out bytes.Buffer
	require.ErrorIs(t, run([]string{"watch", "-append", kept}, strings.NewReader(in), &out, false), errUnproven)
	assert.Contains(t, out.String(), "broken")
	assert.Contains(t, out.String(), "FAIL example.org/m/a")
	assert.Contains(t, out.String(), "not json")
	assert.NotContains(t, out.String(), "fine")
	assert.NotContains(t, out.String(), "=== RUN")
	got, err := os.ReadFile(kept)
	require.NoError(t, err)
	assert.Equal(t, in, string(got))
}

func TestTimesAreKeptAndShown(t *testing.T) {
	t.Parallel()
	ended := func(test string, seconds string) string {
		return `{"Action":"pass","Package":"example.org/m/a","Test":"` + test + `","Elapsed":` + seconds + "}\n"
	}
	kept := filepath.Join(t.TempDir(), "events")
	for _, part := range []string{ended("TestShort", "0.5") + ended("TestLong/part", "3") + ended("TestLong", "3.25"), ended("TestLonger", "4")} {
		require.NoError(t, run([]string{"watch", "-append", kept, "-lane", "unit"}, strings.NewReader(part), io.Discard, false))
	}
	var out bytes.Buffer
	require.NoError(t, run([]string{"report", kept}, nil, &out, false))
	assert.Equal(t, "    4.0 s  a.TestLonger\n    3.2 s  a.TestLong\nlane unit took 0 s\n4 passed, 0 failed, 0 skipped\n", out.String())
}

func TestBadRuleFilesAreRefused(t *testing.T) {
	t.Parallel()
	_, err := loadRules(write(t, "("), "")
	require.Error(t, err)
	_, err = loadRules("", write(t, "TestAlone"))
	require.ErrorContains(t, err, "package folder")
	_, err = loadRules("no-such-file", "")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"other"}, {"select"}} {
		require.ErrorIs(t, run(args, nil, &bytes.Buffer{}, false), errUsage)
	}
	require.ErrorContains(t, run([]string{"select", "fast"}, nil, &bytes.Buffer{}, false), "unknown lane")
}

func TestSelect(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"go.mod":              "module example.org/m\n\ngo 1.21\n",
		"a/a.go":              "package a\n",
		"a/a_test.go":         "package a\n",
		"k/k.go":              "package k\n",
		"k/k_test.go":         "package k\n// asks NETKVLAB_" + "MUST\n",
		"k/time_test.go":      "//go:build !race\n\npackage k\n\nimport \"testing\"\n\nfunc TestMain(m *testing.M) { m.Run() }\nfunc TestRate(t *testing.T) {}\nfunc helper() {}\n",
		"k/other_test.go":     "//go:build windows\n\npackage k\n\nimport \"testing\"\n\nfunc TestElsewhere(t *testing.T) {}\n",
		"test/e2e/e2e.go":     "package e2e\n",
		"test/e2e/up_test.go": "package e2e\n",
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	t.Chdir(dir)
	t.Setenv("CGO_ENABLED", "0") // as scripts/test.sh has it
	for lane, want := range map[string]string{
		"unit":   "example.org/m/a\n",
		"kernel": "example.org/m/k\n",
		"timing": "-run=^(TestRate)$\nexample.org/m/k\n",
		"e2e":    "example.org/m/test/e2e\n",
	} {
		var out bytes.Buffer
		require.NoError(t, run([]string{"select", lane}, nil, &out, false))
		assert.Equal(t, want, out.String(), lane)
	}
}
