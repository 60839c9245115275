package scenarios

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAPolicyReadsItsFileOfWeights(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := Weights{CacheWeight: 1, LoadWeight: 0.25, Scenario: "s", Grid: []WeightScore{{CacheWeight: 1, LoadWeight: 0.25, Score: 12.5}}}
	data, err := want.Marshal()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "w.yaml"), data, 0o600))
	file := filepath.Join(dir, "s.yaml")
	require.NoError(t, os.WriteFile(file, []byte("policies: [rr, {name: cla*, weights: w.yaml}]\n"), 0o600))

	s, err := Load(file)
	require.NoError(t, err)
	assert.Equal(t, Policy{Name: "cla*", Label: "cla*", CacheWeight: 1, LoadWeight: 0.25}, s.Policies[1])
	requireRoundTrip(t, s)

	got, err := ReadWeights(filepath.Join(dir, "w.yaml"))
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestWeightsAreCheckedStrictly(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"unknown key":    {"cacheWeight: 1\nloadWeigth: 1\n", `w.yaml:2: unknown key "loadWeigth"; did you mean "loadWeight"?`},
		"missing weight": {"cacheWeight: 1\n", "w.yaml:1: loadWeight: is missing"},
		"negative":       {"cacheWeight: 1\nloadWeight: -1\n", "w.yaml:2: loadWeight: must be 0..1000, got -1"},
		"no number":      {"cacheWeight: .nan\nloadWeight: 1\n", "w.yaml:1: cacheWeight: must be 0..1000"},
		"text":           {"cacheWeight: many\nloadWeight: 1\n", "w.yaml: cannot be read as weights"},
		"both zero":      {"cacheWeight: 0\nloadWeight: 0\n", "both 0"},
		"no mapping":     {"- 1\n", "w.yaml:1: must be a mapping"},
		"no YAML":        {"a: [\n", "not YAML"},
		"empty":          {"", "must be a mapping"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseWeights("w.yaml", []byte(tt.text))
			var fault *Error
			require.ErrorAs(t, err, &fault)
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

func TestAFileOfWeightsIsOneOfTwoWays(t *testing.T) {
	t.Parallel()
	_, err := Parse("s.yaml", []byte("policies: [{name: cla*, weights: w.yaml, loadWeight: 1}]"))
	require.ErrorContains(t, err, "policies[0]: gives both weights (a file) and cacheWeight or loadWeight")
	_, err = Parse("s.yaml", []byte("policies: [{name: rr, weights: w.yaml}]"))
	require.ErrorContains(t, err, "rr takes no weights")
	file := filepath.Join(t.TempDir(), "s.yaml")
	require.NoError(t, os.WriteFile(file, []byte("policies: [{name: cla, weights: gone.yaml}]"), 0o600))
	_, err = Load(file)
	require.ErrorContains(t, err, "gone.yaml: no such file of weights")
	s, err := Parse("s.yaml", []byte("policies: [{name: cla, weights: w.yaml}]"))
	require.NoError(t, err)
	assert.Equal(t, Policy{Name: "cla", Label: "cla", Weights: "w.yaml"}, s.Policies[0])
	requireRoundTrip(t, s)
}
