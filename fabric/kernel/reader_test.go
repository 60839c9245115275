//go:build linux

package kernel

import (
	"testing"
	"time"

	gotc "github.com/florianl/go-tc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/tc"
)

// The decoder of florianl/go-tc v0.4.8 must read the same tree that our codec wrote.
// Our own reader could have the same fault as our writer.
func TestAnotherDecoderReadsTheSameTree(t *testing.T) {
	plan := &fabric.Plan{KVDSCP: 10, BackgroundDSCP: 8}
	plain := fabric.Shape{Rate: 125e6, BurstBytes: 12112, LimitBytes: 65536}
	classes := plain
	classes.Classes, classes.KVRate, classes.BackgroundRate, classes.OtherRate = true, 93_750_000, 30e6, 1_250_000
	fast := classes
	fast.Rate, fast.KVRate = 400e9, 368_750_000_000 // it knows HTB's 64-bit rates
	for _, c := range []struct {
		name  string
		needs []string
		shape fabric.Shape
		but   func(s *fabric.Shape)
	}{
		{"tbf", nil, plain, nil},
		{"tbf just below 32 bits", nil, plain, func(s *fabric.Shape) { s.Rate, s.BurstBytes = 34_359_738_360, 900_000 }},
		{"tbf with flow queues", []string{"flow-queues"}, plain, func(s *fabric.Shape) { s.FlowQueues, s.QuantumBytes = 16, 6056 }},
		{"tbf that marks", []string{"red"}, plain, func(s *fabric.Shape) { s.MarkBytes = 30_280 }},
		{"tbf behind a delay", []string{"netem"}, plain, func(s *fabric.Shape) { s.Delay = 5 * time.Minute }},
		{"htb", []string{"htb", "u32"}, classes, nil},
		{"htb above 32 bits", []string{"htb", "u32"}, fast, nil},
		{"htb with flow queues", []string{"u32", "flow-queues"}, classes, func(s *fabric.Shape) { s.FlowQueues, s.QuantumBytes = 16, 6056 }},
		{"htb that marks", []string{"u32", "red"}, classes, func(s *fabric.Shape) { s.MarkBytes = 30_280 }},
		{"htb behind a delay", []string{"u32", "netem"}, classes, func(s *fabric.Shape) { s.Delay = time.Millisecond }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, p := range c.needs {
				if err := Lacks(p); err != nil {
					t.Skip(err)
				}
			}
			shape := c.shape
			if c.but != nil {
				c.but(&shape)
			}
			want := queueing(plan, &shape, shape.Delay > 0)
			mustScratch(t, func() error {
				mustMake(t, want)
				theirs, err := readWithGoTC(t)
				if err == nil {
					assert.Empty(t, theirs.Diff(want))
					assert.Len(t, theirs, len(want))
				}
				return err
			})
		})
	}
}

// These tests show why we do not use the codec of go-tc v0.4.8 (docs/decisions/0005). When they fail, reconsider.
func TestGoTCCannotReadATBFAbove32Bits(t *testing.T) {
	shape := fabric.Shape{Rate: 400e9, BurstBytes: 10e6, LimitBytes: 65536}
	mustScratch(t, func() error {
		mustMake(t, queueing(nil, &shape, false))
		_, err := readWithGoTC(t)
		assert.ErrorContains(t, err, "unmarshalTbf()\t4")
		return nil
	})
}

func TestGoTCCannotMakeRED(t *testing.T) {
	if err := Lacks("red"); err != nil {
		t.Skip(err)
	}
	mustScratch(t, func() error {
		c, err := gotc.Open(&gotc.Config{})
		require.NoError(t, err)
		defer func() { assert.NoError(t, c.Close()) }()
		err = c.Qdisc().Add(&gotc.Object{
			Msg:       gotc.Msg{Ifindex: loIndex, Handle: uint32(rootHandle), Parent: uint32(tc.Root)},
			Attribute: gotc.Attribute{Kind: "red", Red: &gotc.Red{Parms: &gotc.RedQOpt{Limit: 65536, QthMin: 30280, QthMax: 30280, ScellLog: 10}}},
		})
		assert.ErrorIs(t, err, unix.EINVAL)
		return nil
	})
}

// mustMake makes a tree in the calling thread's namespace and compares it by our own reader.
func mustMake(t *testing.T, tree tc.Tree) {
	t.Helper()
	c, err := rtnl.Open()
	require.NoError(t, err)
	defer func() { assert.NoError(t, c.Close()) }()
	require.NoError(t, tryTree(c, tree))
	ours, err := tc.Read(c)
	require.NoError(t, err)
	assert.Empty(t, ours[loIndex].Diff(tree))
	assert.Len(t, ours[loIndex], len(tree))
}

// readWithGoTC reads the loopback interface of the calling thread's namespace.
func readWithGoTC(t *testing.T) (tree tc.Tree, err error) {
	t.Helper()
	c, err := gotc.Open(&gotc.Config{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, c.Close()) }()
	qdiscs, err := c.Qdisc().Get()
	if err != nil {
		return nil, err
	}
	for _, q := range qdiscs {
		if q.Ifindex == loIndex {
			tree = append(tree, translated(t, tc.Qdisc, q))
		}
	}
	for _, q := range qdiscs {
		if q.Kind != "htb" {
			continue
		}
		// Reading all classes would fail at those of TBF, RED and netem, which have no statistics.
		own := &gotc.Msg{Ifindex: loIndex, Parent: q.Handle}
		classes, err := c.Class().Get(own)
		if err != nil {
			return nil, err
		}
		for _, o := range classes {
			tree = append(tree, translated(t, tc.Class, o))
		}
		filters, err := c.Filter().Get(own)
		if err != nil {
			return nil, err
		}
		for _, o := range filters {
			if o.BPF != nil || o.U32 != nil && o.U32.Sel != nil {
				tree = append(tree, translated(t, tc.Filter, o))
			}
		}
	}
	return tree, nil
}

// translated converts what go-tc read into our own value.
func translated(t *testing.T, typ tc.Type, o gotc.Object) tc.Object {
	t.Helper()
	out := tc.Object{Parent: tc.Handle(o.Parent), Handle: tc.Handle(o.Handle), Options: tc.Other{Type: typ, Name: o.Kind}}
	if typ == tc.Class && out.Parent == tc.Root {
		out.Parent = out.Handle.Qdisc()
	}
	bucket := func(spec gotc.RateSpec, wide *uint64, ticks uint32) tc.Bucket {
		rate := uint64(spec.Rate)
		if wide != nil {
			rate = *wide
		}
		return tc.Bucket{Rate: rate, Bytes: float64(ticks) * tc.TickNanoseconds * float64(rate) / 1e9}
	}
	switch {
	case o.Tbf != nil:
		out.Options = tc.TBF{Bucket: bucket(o.Tbf.Parms.Rate, nil, o.Tbf.Parms.Buffer), Limit: o.Tbf.Parms.Limit}
	case o.Htb != nil && typ == tc.Class:
		p := o.Htb.Parms
		out.Options = tc.HTBClass{Rate: bucket(p.Rate, o.Htb.Rate64, p.Buffer), Ceil: bucket(p.Ceil, o.Htb.Ceil64, p.Cbuffer), Quantum: p.Quantum, Prio: p.Prio}
	case o.Htb != nil:
		out.Options = tc.HTB{Default: o.Htb.Init.Defcls, Direct: o.Htb.Init.DirectPkts}
	case o.Bfifo != nil:
		out.Options = tc.FIFO{Limit: o.Bfifo.Limit}
	case o.Red != nil:
		p := o.Red.Parms
		out.Options = tc.RED{Limit: p.Limit, MarkFrom: p.QthMin, MarkAll: p.QthMax, Averaging: p.Wlog, Flags: uint32(*o.Red.Flags)}
	case o.Netem != nil:
		p := o.Netem.Qopt
		out.Options = tc.Netem{Delay: uint64(*o.Netem.Latency64), Limit: p.Limit, Loss: p.Loss, Gap: p.Gap, Duplicate: p.Duplicate, Jitter: p.Jitter}
	case o.BPF != nil:
		out.Options, out.Handle = tc.BPF{Program: string(*o.BPF.Ops)}, 0
	case o.U32 != nil:
		k := o.U32.Sel.Keys[0]
		out.Options, out.Handle = tc.U32{Class: *o.U32.ClassID, Mask: k.Mask, Value: k.Val, Offset: k.Off, Keys: o.U32.Sel.NKeys}, 0
	}
	return out
}
