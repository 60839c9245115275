package fidelity

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/flowsim"
	"github.com/netkvlab/netkvlab/internal/fidelity/telemetry"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/scenarios"
)

func TestServedRatesAreComparedWithThePorts(t *testing.T) {
	t.Parallel()
	ports := []telemetry.PortRef{{Name: "a>b", Rate: 8_000_000}, {Name: "b>a", Rate: 8_000_000}} // one megabyte per second
	row := func(second, port int, bytes uint64, backlog uint64) telemetry.Row {
		return telemetry.Row{At: time.Duration(second) * time.Second, Port: port, Bytes: bytes, Backlog: backlog}
	}
	burst := func(int) int { return 10_000 }
	var p Ports
	p.Serve(ports, []telemetry.Row{row(1, 0, 0, 0), row(2, 0, 1_010_000, 0), row(3, 0, 1_900_000, 0)}, 1, burst)
	assert.InDelta(t, 0, p.Excess, 1e-9, "the rate and a burst")
	assert.Zero(t, p.Served, "no queue seen")
	p.Serve(ports, []telemetry.Row{row(1, 1, 0, 0), row(2, 1, 1_510_000, 0)}, 1, burst)
	assert.InDelta(t, 0.5, p.Excess, 1e-9)
	assert.Equal(t, "b>a", p.ExcessAt)

	p = Ports{}
	p.Serve(ports, []telemetry.Row{row(1, 1, 0, 0), row(2, 1, 1_510_000, 0)}, 2, burst)
	assert.InDelta(t, 0, p.Excess, 1e-9, "a second of paper time is two of the shaper's")

	p = Ports{}
	late := row(2, 1, 1_510_000, 0)
	late.Since = 1500 * time.Millisecond
	p.Serve(ports, []telemetry.Row{row(1, 1, 0, 0), late}, 1, burst)
	assert.InDelta(t, 0, p.Excess, 1e-9, "the port was read half a second after others of its poll")

	p = Ports{}
	var rows []telemetry.Row
	for s := range 12 { // always a queue, and half the rate
		rows = append(rows, row(s+1, 0, uint64(s)*500_000, 40_000))
	}
	p.Serve(ports, rows, 1, burst)
	assert.InDelta(t, 0.5, p.Served, 1e-9)
	assert.Equal(t, "a>b", p.ServedAt)
	p = Ports{}
	for i := range rows {
		rows[i].Backlog = 12_000
	}
	p.Serve(ports, rows, 1, burst)
	assert.Zero(t, p.Served, "a packet or two that wait for tokens are no queue")
	for i := range rows {
		rows[i].Backlog = 40_000
	}
	p.Serve(ports, rows[:9], 1, burst)
	assert.Zero(t, p.Served, "eight windows say nothing")
}

// crossing is a completed transfer of the quickstart plan with one stream on a path slot.
func crossing(plan *fabric.Plan, slot int, bytes int64) results.Record {
	return results.Record{
		Status: results.Completed, Attempts: 1, Prefill: plan.Nodes[plan.Prefill[0]].Name,
		Decode:  plan.Nodes[plan.Decode[len(plan.Decode)-1]].Name,
		Streams: []results.StreamRecord{{Slot: slot, Bytes: bytes, Retransmits: 10}},
	}
}

func TestBytesOnOtherLinksThanRecordedAreFound(t *testing.T) {
	t.Parallel()
	s, err := scenarios.Load("quickstart")
	require.NoError(t, err)
	plan, err := fabric.New(s, s.Scale)
	require.NoError(t, err)
	ports := telemetry.Ports(plan)
	const bytes = 50_000_000
	carried := func(slot int) []int64 {
		out := make([]int64, len(ports))
		from, to := plan.Prefill[0], plan.Decode[len(plan.Decode)-1]
		for _, l := range flowsim.AppendPath(nil, plan.NICPaths(from, to, 0, 0)[slot]) {
			out[l] = bytes*frame/segment + 5*frame // some of it sent twice
			out[l^1] = bytes / 50                  // acknowledgements
		}
		return out
	}
	record := []results.Record{crossing(plan, 1, bytes)}
	var p Ports
	require.NoError(t, p.Conserve(plan, ports, carried(1), record))
	assert.Zero(t, p.Stray)
	require.NoError(t, p.Conserve(plan, ports, carried(0), record))
	assert.Greater(t, p.Stray, 0.9)
	assert.NotEmpty(t, p.StrayAt)

	p = Ports{}
	unknown := carried(0)
	for i := range unknown {
		unknown[i] = -1
	}
	require.NoError(t, p.Conserve(plan, ports, unknown, record))
	assert.Zero(t, p.Stray, "ports that do not tell are not judged")

	failed := record[0]
	failed.Attempts = 2
	require.NoError(t, p.Conserve(plan, ports, carried(0), append(record, failed)))
	assert.Zero(t, p.Stray, "an attempt that failed left bytes that no record places")

	record[0].Streams[0].Slot = 99
	require.ErrorContains(t, p.Conserve(plan, ports, carried(0), record), "path slot 99")
	record[0].Decode = "nobody"
	require.ErrorContains(t, p.Conserve(plan, ports, carried(0), record), "no such instances")
}

func TestAcknowledgementsArePlacedOnTheirWayBack(t *testing.T) {
	t.Parallel()
	s, err := scenarios.Load("quickstart")
	require.NoError(t, err)
	plan, err := fabric.New(s, s.Scale)
	require.NoError(t, err)
	ports := telemetry.Ports(plan)
	from, to := plan.Prefill[0], plan.Decode[len(plan.Decode)-1]
	// carried returns the ports' bytes if the acknowledgements return on slot back with acks bytes.
	carried := func(r results.Record, back int, acks int64) []int64 {
		out := make([]int64, len(ports))
		for _, st := range r.Streams {
			for _, l := range flowsim.AppendPath(nil, plan.NICPaths(from, to, 0, 0)[st.Slot]) {
				out[l] += st.Bytes * frame / segment
			}
			for _, l := range flowsim.AppendPath(nil, plan.NICPaths(to, from, 0, 0)[back]) {
				out[l] += acks
			}
		}
		return out
	}
	two := 2
	big := crossing(plan, 1, 50_000_000)
	for _, tt := range []struct {
		name      string
		known     *int
		back      int
		acks      int64
		plausible bool
	}{
		{"where they should be", &two, 2, 1_000_000, true},
		{"on another path", &two, 0, 1_000_000, false},
		{"more than data can have", &two, 2, 6_000_000, false},
		{"anywhere, where the way is not known", nil, 0, 1_000_000, true},
	} {
		big.Streams[0].BackSlot = tt.known
		var p Ports
		require.NoError(t, p.Conserve(plan, ports, carried(big, tt.back, tt.acks), []results.Record{big}), tt.name)
		assert.Equal(t, tt.plausible, p.Stray < strayInvalid, "%s: %v at %s", tt.name, p.Stray, p.StrayAt)
	}

	// Many short streams are mostly handshakes, and these belong to the path too.
	var many results.Record
	for range 4 * 64 {
		many = crossing(plan, 1, 3_000)
		many.Streams[0].BackSlot = &two
		big.Streams = append(big.Streams, many.Streams[0])
	}
	many.Streams = big.Streams[1:]
	var p Ports
	require.NoError(t, p.Conserve(plan, ports, carried(many, 2, 135_062/256), []results.Record{many}))
	assert.Zero(t, p.Stray)

	big.Streams[0].BackSlot = new(int)
	*big.Streams[0].BackSlot = 99
	require.ErrorContains(t, p.Conserve(plan, ports, carried(many, 2, 0), []results.Record{big}), "path slot 99 of 4 on the way back")
}
