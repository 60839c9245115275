package scenarios

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func parseTopology(t *testing.T, yaml string) *Scenario {
	t.Helper()
	s, err := Parse("s.yaml", []byte(yaml))
	require.NoError(t, err, yaml)
	requireRoundTrip(t, s)
	return s
}

func TestOversubscriptionAndLinkRatesSayTheSame(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fact, yaml string
		over       Oversubscription
		rates      LinkRates
	}{
		{"neither", "topology: {}", Oversubscription{2, 4}, LinkRates{50e9, 25e9}},
		{"oversubscription", "topology: {oversubscription: {rack: 1, pod: 8}}", Oversubscription{1, 8}, LinkRates{100e9, 12.5e9}},
		{"link rates", "topology: {linkRates: {rackUplink: 100Gbps, coreLink: 100Gbps}}", Oversubscription{1, 1}, LinkRates{100e9, 100e9}},
		{"one tier each way", "topology: {oversubscription: {rack: 4}, linkRates: {coreLink: 50Gbps}}", Oversubscription{4, 2}, LinkRates{25e9, 50e9}},
		{"both, agreeing", "topology: {oversubscription: {rack: 2}, linkRates: {rackUplink: 50Gbps}}", Oversubscription{2, 4}, LinkRates{50e9, 25e9}},
		{"a third, rounded to a bit", "topology: {oversubscription: {rack: 3}}", Oversubscription{3, 4}, LinkRates{33333333333, 25e9}},
		{"a third, written with five digits", "topology: {oversubscription: {rack: 3}, linkRates: {rackUplink: 33.333Gbps}}", Oversubscription{3, 4}, LinkRates{33333e6, 25e9}},
		{"more NICs, same total", "topology: {nicsPerInstance: 4, nicRate: 25Gbps}", Oversubscription{2, 4}, LinkRates{50e9, 25e9}},
		{"more switches", "topology: {aggsPerPod: 4, coresPerAgg: 1}", Oversubscription{2, 4}, LinkRates{25e9, 25e9}},
		{"idle instances count", "placement: {prefill: [0], decode: [5]}", Oversubscription{2, 4}, LinkRates{50e9, 25e9}},
	} {
		t.Run(test.fact, func(t *testing.T) {
			t.Parallel()
			s := parseTopology(t, test.yaml)
			assert.Equal(t, test.over, s.Topology.Oversubscription)
			assert.Equal(t, test.rates, s.Topology.LinkRates)
		})
	}
}

func TestDoublingAllNICsDoublesAllLinks(t *testing.T) {
	t.Parallel()
	one := parseTopology(t, "topology: {nicRate: 50Gbps, oversubscription: {rack: 3, pod: 5}}").Topology.LinkRates
	two := parseTopology(t, "topology: {nicRate: 100Gbps, oversubscription: {rack: 3, pod: 5}}").Topology.LinkRates
	assert.InDelta(t, 2*float64(one.RackUplink), float64(two.RackUplink), 1)
	assert.InDelta(t, 2*float64(one.CoreLink), float64(two.CoreLink), 1)
}

func TestRolesFollowThePatternOrTheLists(t *testing.T) {
	t.Parallel()
	const small = "topology: {pods: 1, racksPerPod: 2, serversPerRack: 2}\n" // 8 instances: 2 per server, 4 per rack
	for _, test := range []struct {
		placement string
		want      []string
	}{
		{"{}", []string{"p0", "p1", "p2", "p3", "d0", "d1", "d2", "d3"}},
		{"{unit: server}", []string{"p0", "p1", "d0", "d1", "p2", "p3", "d2", "d3"}},
		{"{unit: instance}", []string{"p0", "d0", "p1", "d1", "p2", "d2", "p3", "d3"}},
		{"{unit: instance, pattern: [prefill, decode, idle]}", []string{"p0", "d0", "i0", "p1", "d1", "i1", "p2", "d2"}},
		{"{prefill: [7, 0], decode: [3]}", []string{"p0", "i0", "i1", "d0", "i2", "i3", "i4", "p1"}},
	} {
		s := parseTopology(t, small+"placement: "+test.placement)
		assert.Equal(t, test.want, s.InstanceNames(), test.placement)
	}
	flows := "workload: {flows: {list: [{from: FROM, to: TO, bytes: 1GB}]}}\n"
	idle := parseTopology(t, small+strings.NewReplacer("FROM", "i0", "TO", "i7").Replace(flows))
	assert.Equal(t, []string{"i0", "i1", "i2", "i3", "i4", "i5", "i6", "i7"}, idle.InstanceNames())
	assert.Empty(t, idle.Policies)
	placed := parseTopology(t, small+strings.NewReplacer("FROM", "p0", "TO", "d3").Replace(flows)+"placement: {unit: rack}")
	assert.Len(t, slices.DeleteFunc(placed.Roles(), func(r string) bool { return r != RoleDecode }), 4)
}

func TestCountsAreZeroForImpossibleTensorParallelism(t *testing.T) {
	t.Parallel()
	top := defaultTopology()
	assert.Equal(t, 2, top.InstancesPerServer(4))
	assert.Equal(t, 0, top.InstancesPerServer(0))
	assert.Equal(t, 0, top.InstancesPerServer(-4))
	assert.Equal(t, 0, top.InstancesPerServer(16))
	assert.Equal(t, 64, top.Instances(1))
}

func TestValidateChecksAScenarioChangedInGo(t *testing.T) {
	t.Parallel()
	s, err := Load("quickstart")
	require.NoError(t, err)
	require.NoError(t, s.Validate())
	s.Topology.Pods = 0
	s.Seeds = nil
	err = s.Validate()
	require.ErrorContains(t, err, "topology.pods: must be 1..64, got 0")
	require.ErrorContains(t, err, "seeds: must have 1..1000 items, got 0")

	require.Error(t, (&Scenario{}).Validate(), "the zero value is no scenario, and no panic")

	s, err = Load("quickstart")
	require.NoError(t, err)
	s.Topology.LinkRates.CoreLink = 0
	require.Error(t, s.Validate())
	s.Workload.Synthetic = nil
	require.ErrorContains(t, s.Validate(), "workload.synthetic: is missing, and workload.kind is synthetic")
}
