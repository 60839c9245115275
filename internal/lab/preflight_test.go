package lab

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/scenarios"
)

func TestNamesThatCannotBeALabs(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "0", "yes", "010", "a-b", strings.Repeat("a", 40)} {
		require.NoError(t, checkName(good))
	}
	for _, bad := range []string{"", "-a", "a-", "..", "a/b", "A", "é", "a_b", "a b", "a\n", strings.Repeat("a", 41), strings.Repeat("a", 1<<20)} {
		err := checkName(bad)
		var invalid InvalidError
		require.ErrorAs(t, err, &invalid)
		assert.Less(t, len(err.Error()), 300)
	}
}

func TestWorkloadsAreReadBeforeTheLabIsBuilt(t *testing.T) {
	t.Parallel()
	s, err := scenarios.Load("trace-mooncake", "workload.trace.file=/nonexistent/t.jsonl", "scale.rate=1000")
	require.NoError(t, err)
	p, err := Plan(s)
	require.NoError(t, err)
	var input *workload.InputError
	require.ErrorAs(t, CheckWorkload(s, p), &input)

	s, err = scenarios.Load("flows-example")
	require.NoError(t, err)
	p, err = Plan(s)
	require.NoError(t, err)
	require.NoError(t, CheckWorkload(s, p))
	s.Workload.Flows.List[1].Via = []string{"tor0-0"} // changed in Go, so that no parser has seen it
	var invalid InvalidError
	require.ErrorAs(t, CheckWorkload(s, p), &invalid)
}

func TestBackgroundThatCannotBeIsRefusedBeforeTheLabIsBuilt(t *testing.T) {
	t.Parallel()
	s, err := scenarios.Load("quickstart", "background.utilization.tier3=0.5")
	require.NoError(t, err)
	_, err = Plan(s)
	var invalid InvalidError
	require.ErrorAs(t, err, &invalid)
	require.ErrorContains(t, err, "raise tier2")
	s.Background.Utilization.Tier2 = 0.5
	_, err = Plan(s)
	require.NoError(t, err)
}

func TestOnlyPairsOfFlowsAreConnected(t *testing.T) {
	t.Parallel()
	s, err := scenarios.Load("flows-example")
	require.NoError(t, err)
	pairs, err := flowPairs(s)
	require.NoError(t, err)
	assert.Equal(t, map[[2]string]bool{{"i0", "i2"}: true, {"i1", "i3"}: true, {"i0", "i4"}: true}, pairs)
	s, err = scenarios.Load("quickstart")
	require.NoError(t, err)
	pairs, err = flowPairs(s)
	require.NoError(t, err)
	assert.Empty(t, pairs)
}
