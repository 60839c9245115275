package trials_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/scenarios"
)

func cluster(t *testing.T, name string, settings ...string) *trials.Cluster {
	t.Helper()
	s, err := scenarios.Load(name, settings...)
	require.NoError(t, err)
	c, err := trials.New(s)
	require.NoError(t, err)
	return c
}

func TestTrialsAreInTheOrderOfSeedsAndPolicies(t *testing.T) {
	t.Parallel()
	c := cluster(t, "quickstart", "seeds=[7, 3]", "policies=[rr, cla]", "workload.synthetic.requests=2")
	var got []string
	for _, x := range c.Trials(results.WorldPacket, c.Scenario.Seeds) {
		got = append(got, trials.Label(x.Policy)+string(rune('0'+x.Seed)))
	}
	assert.Equal(t, []string{"rr7", "cla7", "rr3", "cla3"}, got)
}

func TestWhatArrivesIsMadeOnceAndSharedByEveryScale(t *testing.T) {
	t.Parallel()
	c := cluster(t, "quickstart", "workload.synthetic.requests=5", "scale.rate=100")
	a, err := c.Load(1)
	require.NoError(t, err)
	slower, err := c.Rescale(200)
	require.NoError(t, err)
	b, err := slower.Load(1)
	require.NoError(t, err)
	assert.Same(t, a, b)
	assert.InDelta(t, 200, slower.Plan.Scale.Rate, 0)
	assert.InDelta(t, 200, slower.Scenario.Scale.Rate, 0)
	assert.InDelta(t, 100, c.Scenario.Scale.Rate, 0, "the first is what it was")
	b, err = cluster(t, "quickstart", "workload.synthetic.requests=5", "scale.rate=100").Load(1)
	require.NoError(t, err)
	assert.NotSame(t, a, b)
	assert.Equal(t, a, b)
}

func TestAVariedClusterLeavesTheFirstAsItIs(t *testing.T) {
	t.Parallel()
	c := cluster(t, "quickstart")
	v := c.Vary(func(s *scenarios.Scenario) { s.Transfer.Paths = scenarios.PathsFresh })
	assert.Equal(t, scenarios.PathsFresh, v.Scenario.Transfer.Paths)
	assert.NotEqual(t, scenarios.PathsFresh, c.Scenario.Transfer.Paths)
	assert.Same(t, c.Plan, v.Plan)
}

func TestAScaleOfAutoIsPlannedUnscaled(t *testing.T) {
	t.Parallel()
	c := cluster(t, "quickstart", "scale.rate=auto")
	assert.InDelta(t, 1, c.Plan.Scale.Rate, 0)
	assert.Zero(t, c.Scenario.Scale.Rate, "which is still to be chosen")
}

func TestWorkloadsAreCheckedBeforeAnythingIsBuilt(t *testing.T) {
	t.Parallel()
	var input *workload.InputError
	require.ErrorAs(t, cluster(t, "trace-mooncake", "workload.trace.file=/nonexistent/t.jsonl", "scale.rate=1000").Check(), &input)
	c := cluster(t, "flows-example")
	require.NoError(t, c.Check())
	c = cluster(t, "flows-example")
	c.Scenario.Workload.Flows.List[1].Via = []string{"tor0-0"} // changed in Go, so that no parser has checked it
	var invalid trials.InvalidError
	require.ErrorAs(t, c.Check(), &invalid)
}

func TestBackgroundThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	s, err := scenarios.Load("quickstart", "background.utilization.tier3=0.5")
	require.NoError(t, err)
	_, err = trials.New(s)
	var invalid trials.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.ErrorContains(t, err, "raise tier2")
	s.Background.Utilization.Tier2 = 0.5
	_, err = trials.New(s)
	require.NoError(t, err)
}

func TestPlayGivesTheSameRecordsEachTime(t *testing.T) {
	t.Parallel()
	c := cluster(t, "quickstart", "workload.synthetic.requests=20", "policies=[rr]")
	one := c.Trials(results.WorldFlow, []uint64{1})[0]
	a, err := trials.Play(t.Context(), trials.Flow{Cluster: c}, c, one)
	require.NoError(t, err)
	b, err := trials.Play(t.Context(), trials.Flow{Cluster: c}, c, one)
	require.NoError(t, err)
	require.Len(t, a, 20)
	assert.Equal(t, a, b)
	assert.NotEmpty(t, a[0].Streams[0].Path, "paths are named")
	one.Policy = scenarios.Policy{Name: "no-such"}
	_, err = trials.Play(t.Context(), trials.Flow{Cluster: c}, c, one)
	require.Error(t, err)
}
