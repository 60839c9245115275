package kernel

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/fabrictest"
	"github.com/netkvlab/netkvlab/scenarios"
)

func TestRemarksSayWhatIsEmulated(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	missing := &UnsupportedError{Feature: "netem", Need: "CONFIG_NET_SCH_NETEM", Cause: errors.New("no such qdisc")}
	for _, tc := range []struct {
		name    string
		latency scenarios.TierLatency
		lack    error
		want    string
	}{
		{
			"microseconds", scenarios.TierLatency{Tier1: 3000, Tier2: 8000, Tier3: 15000}, nil,
			"link latency is not emulated, since it is under 50µs on every path through a switch; what remains is the host's own forwarding, about 25 us per round trip",
		},
		{
			"milliseconds", scenarios.TierLatency{Tier0: ms, Tier1: 3000, Tier2: 2 * ms, Tier3: 4 * ms}, nil,
			"link latency is emulated, one way none at tier 0, none at tier 1, 2ms at tier 2, 4ms at tier 3; added to it is the host's own forwarding, about 25 us per round trip",
		},
		{
			"milliseconds that the kernel cannot", scenarios.TierLatency{Tier3: 4 * ms}, missing,
			"link latency is not emulated, since this kernel cannot (netem: needs CONFIG_NET_SCH_NETEM: no such qdisc); what remains is the host's own forwarding, about 25 us per round trip",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := fabrictest.Paper64()
			s.Topology.Latency = tc.latency
			p, err := fabric.New(s, scenarios.Scale{Rate: 400, Time: 1})
			require.NoError(t, err)
			assert.Equal(t, tc.want, latencyRemark(p, tc.lack))
			assert.Empty(t, markRemarks(p), "cubic's queues only drop")
		})
	}
}

func TestRemarksSayFromWhereQueuesMark(t *testing.T) {
	t.Parallel()
	for rate, want := range map[float64]string{
		4000: "switch ports mark packets (ECN) from a backlog of 16384 bytes on",
		400:  "switch ports mark packets (ECN) from a backlog of 16384 to 30280 bytes on, by their rates",
	} {
		s := fabrictest.Paper64()
		s.Transfer.CongestionControl = scenarios.CongestionDCTCP
		p, err := fabric.New(s, scenarios.Scale{Rate: rate, Time: 1})
		require.NoError(t, err)
		assert.Equal(t, []string{want}, markRemarks(p))
	}
}
