package attribution

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/scenarios"
)

// sent is a completed transfer along nodes.
func sent(start, took float64, paths ...[]string) results.Record {
	r := results.Record{Status: results.Completed, TransferStartMS: start, TransferMS: took}
	for _, p := range paths {
		r.Streams = append(r.Streams, results.StreamRecord{Path: p})
	}
	return r
}

func TestTransfersMeet(t *testing.T) {
	t.Parallel()
	up := []string{"p0", "tor0", "agg0", "tor1", "d0"}
	same := []string{"p1", "tor0", "agg0", "tor1", "d1"} // shares the two links about agg0
	other := []string{"p1", "tor0", "agg1", "tor1", "d1"}
	back := []string{"d0", "tor1", "agg0", "tor0", "p0"} // the same links, the other way
	nic := sent(1, 10, []string{"p0", "tor0", "agg1", "tor1", "d1"})
	nic.Streams[0].NIC = 1
	for _, tt := range []struct {
		name          string
		first, second results.Record
		meet          bool
	}{
		{"on a link and in time", sent(0, 10, up), sent(5, 10, same), true},
		{"on one link of one stream of several", sent(0, 10, other, up), sent(5, 10, same), true},
		{"not when one has ended before", sent(0, 10, up), sent(10, 10, same), false},
		{"not on other links", sent(0, 10, up), sent(5, 10, other), false},
		{"not on the other direction of a link", sent(0, 10, up), sent(5, 10, back), false},
		{"not on another NIC of the same instance", sent(0, 10, up), nic, false},
		{"not when one did not complete", sent(0, 10, up), results.Record{Status: results.Failed, TransferStartMS: 5, TransferMS: 10, Streams: sent(0, 0, same).Streams}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rows := []results.Record{tt.second, tt.first} // the order of rows must not matter
			got := meetings(rows, rows)
			assert.Equal(t, []met{{earlier: tt.meet}, {later: tt.meet}}, got)
		})
	}
	t.Run("as long as the slower world says", func(t *testing.T) {
		t.Parallel()
		packet := []results.Record{sent(0, 4, up), sent(5, 10, same)}
		replay := []results.Record{sent(0, 10, up), sent(5, 10, same)}
		assert.Equal(t, []met{{later: true}, {earlier: true}}, meetings(packet, replay))
	})
}

func TestAcknowledgementsMeetDataOnTheirWayBack(t *testing.T) {
	t.Parallel()
	lone := sent(5, 10, []string{"p0", "tor0", "agg0", "tor1", "d0"})
	lone.Streams[0].BackPath = []string{"d0", "tor1", "agg1", "tor0", "p0"}
	there := []string{"p1", "tor1", "agg1", "tor2", "d1"} // uses the upward link of the way back
	acks := sent(0, 10, []string{"p1", "tor2", "agg1", "tor3", "d1"})
	acks.Streams[0].BackPath = []string{"d1", "tor1", "agg1", "tor2", "p1"}
	unknown := lone
	unknown.Streams = sent(0, 0, lone.Streams[0].Path).Streams
	for _, tt := range []struct {
		name        string
		rec, others results.Record
		met         bool
	}{
		{"that came before", lone, sent(0, 10, there), true},
		{"that comes later", lone, sent(10, 10, there), true},
		{"not when it has left", lone, sent(0, 5, there), false},
		{"not on other links", lone, sent(0, 10, []string{"p1", "tor1", "agg0", "tor2", "d1"}), false},
		{"not the acknowledgements of others", lone, acks, false},
		{"not where the way back is not known", unknown, sent(0, 10, there), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rows := []results.Record{tt.rec, tt.others}
			assert.Equal(t, []met{{back: tt.met}, {}}, meetings(rows, rows))
		})
	}
	unknown.Streams[0].Bytes, lone.Streams[0].Bytes = 1, 1
	assert.True(t, backUnknown(&unknown))
	assert.False(t, backUnknown(&lone))
}

func TestClassOfTransfer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		want         string
		met          met
		fluid, alone float64
	}{
		{ClassAlone, met{}, 100, 100},
		{ClassUnslowed, met{earlier: true}, 100.05, 100},
		{ClassNewcomer, met{earlier: true}, 101, 100},
		{ClassIncumbent, met{later: true}, 101, 100},
		{ClassBoth, met{earlier: true, later: true}, 101, 100},
		{ClassAckPath, met{back: true}, 100, 100},
		{ClassAckPath, met{earlier: true, back: true}, 100.05, 100},
		{ClassNewcomer, met{earlier: true, back: true}, 101, 100}, // already slowed on its own links
	} {
		assert.Equal(t, tt.want, classOf(tt.met, tt.fluid, tt.alone))
	}
}

func TestBeingAheadByAPortsBurstIsIdeal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		packet, early float64
		want          float64
	}{
		{"on time", 100, 2, 1},
		{"late, burst or not", 103, 2, 1.03},
		{"ahead by less than the burst", 99, 2, 1},
		{"ahead by just the burst", 98, 2, 1},
		{"ahead by more", 95, 2, 0.97},
		{"ahead without a burst", 99, 0, 0.99},
	} {
		c := Transfer{packet: tt.packet, fluid: 100, early: tt.early}
		assert.InDelta(t, tt.want, c.offIdeal(), 1e-9, tt.name)
	}
	plan, err := fabric.New(quick(t), scenarios.Scale{Rate: 400, Time: 1})
	require.NoError(t, err)
	r := results.Record{
		Prefill: plan.Nodes[plan.Prefill[0]].Name, Decode: plan.Nodes[plan.Decode[len(plan.Decode)-1]].Name,
		Streams: []results.StreamRecord{{Slot: 0}, {Slot: 3}},
	}
	core := plan.Egress(plan.NICPaths(plan.Prefill[0], plan.Decode[len(plan.Decode)-1], 0, 0)[0][2]).Shape
	assert.InDelta(t, 1000*float64(core.BurstBytes)/core.Rate.BytesPerSecond(), early(plan, &r), 1e-9, "the slowest port's")
	r.Streams[0].Slot, r.Streams[1].Slot = 99, -1
	assert.Zero(t, early(plan, &r))
}

func quick(t *testing.T) *scenarios.Scenario {
	t.Helper()
	s, err := scenarios.Load("quickstart")
	require.NoError(t, err)
	return s
}
