//go:build linux

package kernel

import (
	"fmt"
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

// words lists a tree one object a line, as "qdisc root 1: tbf".
func words(tree tc.Tree) (lines []string) {
	types := map[tc.Type]string{tc.Qdisc: "qdisc", tc.Class: "class", tc.Filter: "filter"}
	for _, o := range tree {
		line := fmt.Sprint(types[o.Type], " ", o.Parent, " ", o.Handle, " ", o.Options.Kind())
		switch q := o.Options.(type) {
		case tc.HTB:
			line += fmt.Sprintf(" default %x", q.Default)
		case tc.HTBClass:
			line += fmt.Sprintf(" %d/%d quantum %d prio %d", q.Rate.Rate, q.Ceil.Rate, q.Quantum, q.Prio)
		case tc.U32:
			line = fmt.Sprint("filter ", o.Parent, " ", q)
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
		{"plain", plain, false, []string{"qdisc root 1: tbf"}},
		{"a delay that this kernel cannot have", with(plain, slow), false, []string{"qdisc root 1: tbf"}},
		{"a delay", with(plain, slow), true, []string{"qdisc root 2: netem", "qdisc 2:1 1: tbf"}},
		{"marks", with(plain, marking), false, []string{"qdisc root 1: tbf", "qdisc 1:1 40: red"}},
		{"flow queues", with(plain, fair), false, []string{
			"qdisc root 1: tbf", "qdisc 1:1 50: htb default 1",
			"class 50: 50:1 htb 34359738368/34359738368 quantum 3028 prio 0", "qdisc 50:1 0: bfifo",
			"class 50: 50:2 htb 34359738368/34359738368 quantum 3028 prio 0", "qdisc 50:2 0: bfifo",
			"filter 50: 0: bpf",
		}},
		{"classes behind a delay", with(classes, slow), true, []string{
			"qdisc root 2: netem", "qdisc 2:1 1: htb default 30",
			"class 1: 1:1 htb 1000000/1000000 quantum 3028 prio 0",
			"class 1:1 1:10 htb 700000/1000000 quantum 3028 prio 1", "qdisc 1:10 10: bfifo", "filter 1: u32 filter of dscp 10 to class 1:10",
			"class 1:1 1:20 htb 200000/1000000 quantum 3028 prio 1", "qdisc 1:20 20: bfifo", "filter 1: u32 filter of dscp 8 to class 1:20",
			"class 1:1 1:30 htb 100000/1000000 quantum 3028 prio 0", "qdisc 1:30 30: bfifo",
		}},
		{"classes that mark", with(classes, marking), false, []string{
			"qdisc root 1: htb default 30",
			"class 1: 1:1 htb 1000000/1000000 quantum 3028 prio 0",
			"class 1:1 1:10 htb 700000/1000000 quantum 3028 prio 1", "qdisc 1:10 10: red", "filter 1: u32 filter of dscp 10 to class 1:10",
			"class 1:1 1:20 htb 200000/1000000 quantum 3028 prio 1", "qdisc 1:20 20: red", "filter 1: u32 filter of dscp 8 to class 1:20",
			"class 1:1 1:30 htb 100000/1000000 quantum 3028 prio 0", "qdisc 1:30 30: red",
		}},
		{"classes with flow queues", with(classes, func(s *fabric.Shape) { s.FlowQueues, s.QuantumBytes = 1, 6056 }), false, []string{
			"qdisc root 1: htb default 30",
			"class 1: 1:1 htb 1000000/1000000 quantum 3028 prio 0",
			"class 1:1 1:10 htb 700000/1000000 quantum 3028 prio 1", "qdisc 1:10 10: htb default 1",
			"class 10: 10:1 htb 34359738368/34359738368 quantum 6056 prio 0", "qdisc 10:1 0: bfifo", "filter 10: 0: bpf",
			"filter 1: u32 filter of dscp 10 to class 1:10",
			"class 1:1 1:20 htb 200000/1000000 quantum 3028 prio 1", "qdisc 1:20 20: htb default 1",
			"class 20: 20:1 htb 34359738368/34359738368 quantum 6056 prio 0", "qdisc 20:1 0: bfifo", "filter 20: 0: bpf",
			"filter 1: u32 filter of dscp 8 to class 1:20",
			"class 1:1 1:30 htb 100000/1000000 quantum 3028 prio 0", "qdisc 1:30 30: bfifo",
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

// written is a tree as its own messages say.
func written(tree tc.Tree) (out tc.Tree) {
	var b rtnl.Batch
	tree.Add(&b, loIndex, "lo")
	b.Requests(func(r rtnl.Message) {
		m := tc.Parse(r.Payload)
		if o, ok := m.Object(tc.Type(r.Type)); ok {
			out = append(out, o)
		}
	})
	return out
}
