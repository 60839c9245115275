package fabric_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/fabrictest"
	"github.com/netkvlab/netkvlab/scenarios"
)

func TestMarkBytes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		rate scenarios.BitsPerSecond
		rtt  time.Duration
		want int
	}{
		{"20 packets at the DCTCP paper's gigabit", 1e9, 0, 20 * 1514},
		{"no fewer below", 25e6, 100 * time.Microsecond, 20 * 1514},
		{"65 packets at its ten gigabits", 10e9, 100 * time.Microsecond, 65 * 1514},
		{"a sixth of a long path", 1e9, 8 * time.Millisecond, 170_000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tc.want, fabric.MarkBytes(tc.rate, tc.rtt))
		})
	}
}

func TestOnlySwitchesMarkAndOnlyForDCTCP(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		control string
		asked   scenarios.Bytes
		rate    float64 // scale
		want    int     // on core links
	}{
		{"cubic fills queues until they drop", "cubic", 0, 400, 0},
		{"a threshold alone marks nothing", "cubic", 20_000, 400, 0},
		{"dctcp has a quarter of a short queue", "dctcp", 0, 400, (64 << 10) / 4},
		{"dctcp has 20 packets of a long one", "dctcp", 0, 50, 20 * 1514},
		{"a threshold is taken as it is", "dctcp", 50_000, 400, 50_000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := fabrictest.Paper64Background()
			s.Transfer.CongestionControl = tc.control
			s.Topology.Buffers.ECNThresholdEmulated = tc.asked
			p := mustPlan(t, s, scale(tc.rate, 1))
			assert.Equal(t, tc.want > 0, p.Marks())
			for i := range p.Links {
				for _, port := range []*fabric.Port{&p.Links[i].A, &p.Links[i].B} {
					switch {
					case !p.Nodes[port.Node].IsSwitch():
						assert.Zero(t, port.Shape.MarkBytes)
					case p.Links[i].Tier == 3:
						assert.Equal(t, tc.want, port.Shape.MarkBytes)
					default:
						assert.LessOrEqual(t, port.Shape.MarkBytes, port.Shape.LimitBytes)
					}
				}
			}
		})
	}
}

func TestAThresholdAboveTheQueueIsRefused(t *testing.T) {
	t.Parallel()
	s := fabrictest.Paper64()
	s.Transfer.CongestionControl = "dctcp"
	s.Topology.Buffers = scenarios.Buffers{SwitchEmulated: 65536, ECNThresholdEmulated: 65536}
	_, err := fabric.New(s, scale(400, 1))
	assert.ErrorContains(t, err, "topology.buffers.ecnThresholdEmulated is 65536, want less than the switch buffer of 65536 bytes")
}

func TestOneMarkingPortIsEnough(t *testing.T) {
	t.Parallel()
	marking := fabric.Port{Shape: fabric.Shape{MarkBytes: 1}}
	assert.True(t, (&fabric.Plan{Links: []fabric.Link{{}, {A: marking}}}).Marks(), "a lower end")
	assert.True(t, (&fabric.Plan{Links: []fabric.Link{{B: marking}, {}}}).Marks(), "an upper end")
	assert.False(t, (&fabric.Plan{Links: []fabric.Link{{}}}).Marks())
}
