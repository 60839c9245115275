package paper

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/scenarios"
)

func TestFittedSettingsGoIntoTheFileAndNothingElseChanges(t *testing.T) {
	t.Parallel()
	text, ok := scenarios.Embedded("paper-table2")
	require.True(t, ok)
	set := append(settings([]string{"transfer.streams=2", "workload.synthetic.prefix.groups=77"}, []float64{9000, 0.25, 0.75}, 4500),
		slopeSetting(81234), "slo.ttft=3210ms", policySetting(2, 0.5))
	out, err := WriteSettings(text, set)
	require.NoError(t, err)
	got, err := scenarios.Parse("paper-table2.yaml", out)
	require.NoError(t, err)
	want, err := scenarios.Load("paper-table2", set...)
	require.NoError(t, err)
	got.Dir = want.Dir
	assert.Equal(t, want, got, "as the settings would make it")
	assert.Equal(t, strings.Count(string(text), "\n"), strings.Count(string(out), "\n"))
	assert.Equal(t, strings.Count(string(text), "#"), strings.Count(string(out), "#"), "comments stay")
}

func TestASettingWithoutAPlaceIsAnError(t *testing.T) {
	t.Parallel()
	text, _ := scenarios.Embedded("paper-table2")
	_, err := WriteSettings(text, []string{"topology.podz=4"})
	require.ErrorContains(t, err, "topology.podz: found 0 times")
	_, err = WriteSettings(text, []string{"topology.pods"})
	require.Error(t, err)
}
