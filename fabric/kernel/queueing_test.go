//go:build linux

package kernel

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/fabrictest"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/tc"
	"github.com/netkvlab/netkvlab/scenarios"
)

// words lists a tree, one object per line: parent, handle, kind and its main settings.
func words(tree tc.Tree) (lines []string) {
	for _, o := range tree {
		line := fmt.Sprint(o.Parent, " ", o.Handle, " ")
		switch q := o.Options.(type) {
		case tc.HTB:
			line += fmt.Sprintf("htb default %x", q.Default)
		case tc.HTBClass:
			line += fmt.Sprintf("class %d/%d quantum %d prio %d", q.Rate.Rate, q.Ceil.Rate, q.Quantum, q.Prio)
		case tc.U32:
			line += q.String()
		default:
			line += strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", q), "tc."))
		}
		lines = append(lines, line)
	}
	return lines
}

func TestATreeFollowsTheShape(t *testing.T) {
	t.Parallel()
	plan := &fabric.Plan{KVDSCP: 10, BackgroundDSCP: 8}
	plain := fabric.Shape{Rate: 8e6, BurstBytes: 6056, LimitBytes: 65536}
	classes := plain
	classes.Classes, classes.KVRate, classes.BackgroundRate, classes.OtherRate = true, 56e5, 16e5, 8e5
	with := func(s fabric.Shape, set func(s *fabric.Shape)) fabric.Shape {
		set(&s)
		return s
	}
	marking := func(s *fabric.Shape) { s.MarkBytes = 30_280 }
	fair := func(s *fabric.Shape) { s.FlowQueues, s.QuantumBytes = 2, 3028 }
	slow := func(s *fabric.Shape) { s.Delay = time.Millisecond }
	for _, c := range []struct {
		name    string
		shape   fabric.Shape
		delayed bool
		want    []string
	}{
		{"plain", plain, false, []string{"root 1: tbf"}},
		{"a delay that this kernel cannot have", with(plain, slow), false, []string{"root 1: tbf"}},
		{"a delay", with(plain, slow), true, []string{"root 2: netem", "2:1 1: tbf"}},
		{"marks", with(plain, marking), false, []string{"root 1: tbf", "1:1 40: red"}},
		{"flow queues", with(plain, fair), false, []string{
			"root 1: tbf", "1:1 50: htb default 1",
			"50: 50:1 class 34359738368/34359738368 quantum 3028 prio 0", "50:1 0: fifo",
			"50: 50:2 class 34359738368/34359738368 quantum 3028 prio 0", "50:2 0: fifo",
			"50: 0: bpf",
		}},
		{"classes behind a delay", with(classes, slow), true, []string{
			"root 2: netem", "2:1 1: htb default 30",
			"1: 1:1 class 1000000/1000000 quantum 3028 prio 0",
			"1:1 1:10 class 700000/1000000 quantum 3028 prio 1", "1:10 10: fifo", "1: 0: of dscp 10 to class 1:10",
			"1:1 1:20 class 200000/1000000 quantum 3028 prio 1", "1:20 20: fifo", "1: 0: of dscp 8 to class 1:20",
			"1:1 1:30 class 100000/1000000 quantum 3028 prio 0", "1:30 30: fifo",
		}},
		{"classes that mark", with(classes, marking), false, []string{
			"root 1: htb default 30",
			"1: 1:1 class 1000000/1000000 quantum 3028 prio 0",
			"1:1 1:10 class 700000/1000000 quantum 3028 prio 1", "1:10 10: red", "1: 0: of dscp 10 to class 1:10",
			"1:1 1:20 class 200000/1000000 quantum 3028 prio 1", "1:20 20: red", "1: 0: of dscp 8 to class 1:20",
			"1:1 1:30 class 100000/1000000 quantum 3028 prio 0", "1:30 30: red",
		}},
		{"classes with flow queues", with(classes, func(s *fabric.Shape) { s.FlowQueues, s.QuantumBytes = 1, 6056 }), false, []string{
			"root 1: htb default 30",
			"1: 1:1 class 1000000/1000000 quantum 3028 prio 0",
			"1:1 1:10 class 700000/1000000 quantum 3028 prio 1", "1:10 10: htb default 1",
			"10: 10:1 class 34359738368/34359738368 quantum 6056 prio 0", "10:1 0: fifo", "10: 0: bpf",
			"1: 0: of dscp 10 to class 1:10",
			"1:1 1:20 class 200000/1000000 quantum 3028 prio 1", "1:20 20: htb default 1",
			"20: 20:1 class 34359738368/34359738368 quantum 6056 prio 0", "20:1 0: fifo", "20: 0: bpf",
			"1: 0: of dscp 8 to class 1:20",
			"1:1 1:30 class 100000/1000000 quantum 3028 prio 0", "1:30 30: fifo",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, words(queueing(plan, &c.shape, c.delayed)))
		})
	}
}

// Every kind of port of real plans is read back as it was written.
func TestEveryShapeIsReadBackAsItWasWritten(t *testing.T) {
	t.Parallel()
	kinds := map[string]bool{}
	for _, background := range []bool{false, true} {
		for _, congestion := range []string{"cubic", scenarios.CongestionDCTCP} {
			for _, queue := range []string{scenarios.QueueingFIFO, scenarios.QueueingFair} {
				for _, rate := range []float64{1, 400} { // 1: above 32 bits
					s := fabrictest.Paper64()
					if background {
						s = fabrictest.Paper64Background()
					}
					s.Topology.Pods, s.Transfer.CongestionControl, s.Topology.Buffers.Queueing = 1, congestion, queue
					s.Topology.Latency = scenarios.TierLatency{Tier1: time.Millisecond, Tier2: 2 * time.Millisecond, Tier3: 4 * time.Millisecond}
					plan, err := fabric.New(s, scenarios.Scale{Rate: rate, Time: 1})
					require.NoError(t, err)
					for _, l := range plan.Links {
						for _, p := range []fabric.Port{l.A, l.B} {
							want := queueing(plan, &p.Shape, p.Shape.Delay > 0)
							got := written(want)
							require.Empty(t, got.Diff(want), "%v", p.Shape)
							require.Len(t, got, len(want))
							for _, o := range want {
								kinds[fmt.Sprintf("%T", o.Options)] = true
							}
						}
					}
				}
			}
		}
	}
	assert.Len(t, kinds, 8, "every kind of object was among them: %v", kinds)
}

// written is a tree as read from its own messages.
func written(tree tc.Tree) (out tc.Tree) {
	var b rtnl.Batch
	tree.Add(&b, loIndex, "lo")
	b.Requests(func(typ uint16, payload []byte) {
		m := tc.Parse(payload)
		if o, ok := m.Object(tc.Type(typ)); ok {
			out = append(out, o)
		}
	})
	return out
}
