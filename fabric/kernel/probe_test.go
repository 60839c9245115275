//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/fabrictest"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/tc"
	"github.com/netkvlab/netkvlab/scenarios"
)

func TestProbesAnswerInThreeWays(t *testing.T) {
	t.Parallel()
	p := &Probe{Name: "htb", Need: "CONFIG_NET_SCH_HTB"}
	assert.NoError(t, p.judge(nil))

	err := p.judge(fmt.Errorf("add htb: %w", unix.ENOENT))
	assert.ErrorIs(t, err, ErrUnsupported)
	assert.ErrorIs(t, err, unix.ENOENT)
	assert.EqualError(t, err, "htb: needs CONFIG_NET_SCH_HTB: add htb: no such file or directory")

	err = p.judge(unix.EPERM)
	var unsupported *UnsupportedError
	require.ErrorAs(t, err, &unsupported)
	assert.Contains(t, unsupported.Need, "root", "the kernel may have it, the caller may not ask")

	err = p.judge(unix.ENOMEM)
	require.Error(t, err)
	assert.NotErrorIs(t, err, ErrUnsupported, "could not tell")
}

func TestAnswersAreRememberedUnlessItCouldNotTell(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		answer error
		tries  int
	}{
		{"it works", nil, 1},
		{"the kernel lacks it", unix.ENOENT, 1},
		{"it could not tell", unix.ENOMEM, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tries := 0
			p := &Probe{Name: "x", Try: func() error { tries++; return tc.answer }}
			first := p.Check()
			assert.ErrorIs(t, first, tc.answer)
			assert.Equal(t, first, p.Check())
			assert.Equal(t, tc.tries, tries)
		})
	}
}

func TestEveryProbeSettles(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, p := range Probes() {
		assert.NotEmpty(t, p.Need)
		assert.False(t, names[p.Name])
		names[p.Name] = true
		assert.Equal(t, p.Required, p.Without == "", "%s: what a lab does without it, unless there is no lab", p.Name)
		err := p.Check()
		t.Logf("%s: %v", p.Name, err)
		if err != nil {
			assert.ErrorIs(t, err, ErrUnsupported, "a probe must be able to tell here")
		}
	}
}

func TestPlansNeedWhatTheyUse(t *testing.T) {
	t.Parallel()
	marking, fair := fabrictest.Paper64(), fabrictest.Paper64()
	marking.Transfer.CongestionControl = scenarios.CongestionDCTCP
	fair.Topology.Buffers.Queueing = scenarios.QueueingFair
	for _, tc := range []struct {
		name     string
		scenario *scenarios.Scenario
		needs    []string
	}{
		{"plain", fabrictest.Paper64(), nil},
		{"classes", fabrictest.Paper64Background(), []string{"htb", "u32"}},
		{"marks", marking, []string{"red", "dctcp"}},
		{"queues for flows", fair, []string{"flow-queues"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			plan, err := fabric.New(tc.scenario, scenarios.Scale{Rate: 400, Time: 1})
			require.NoError(t, err)
			var needs []string
			var lack error
			for _, p := range Probes() {
				needed := p.NeededBy != nil && p.NeededBy(plan)
				if needed {
					needs = append(needs, p.Name)
				}
				if lack == nil && (needed || p.Required) {
					lack = p.Check()
				}
			}
			assert.Equal(t, tc.needs, needs)
			assert.ErrorIs(t, Supported(plan), lack)
		})
	}
}

func TestMarksAreReadStrictly(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, file, alias string
		ours              bool
	}{
		{"its own name", "lab.p0", "netkvlab/lab/1f/p0", true},
		{"a second name", "lab.p1", "netkvlab/lab/1f/p0", false},
		{"another lab", "lab2.p0", "netkvlab/lab2/1f/p0", false},
		{"no mark", "lab.p0", "", false},
		{"another tool's alias", "lab.p0", "lab/lab/1f/p0", false},
		{"too few parts", "lab.p0", "netkvlab/lab/p0", false},
		{"too many parts", "lab.p0", "netkvlab/lab/1f/p0/x", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tc.ours, parseMark(tc.file, tc.alias).ours("lab"))
		})
	}
	assert.Equal(t, "p0", parseMark("lab.p0", mark("lab", newID(), "p0")).node)
}

func TestOnThreadReportsAFunctionThatLeaves(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	assert.ErrorIs(t, onThread(func() error { return boom }), boom)
	assert.NoError(t, onThread(func() error { return nil }))
}

func TestRatesAbove32BitsKeepTheirValue(t *testing.T) {
	t.Parallel()
	for _, r := range []fabric.BitsPerSecond{8, 25e6, 34e9, 35e9, 100e9, 3600e9} {
		rate := byteRate(r)
		assert.EqualValues(t, r/8, rate)
		depth := tc.Bucket{Rate: rate, Bytes: float64(fabric.BurstBytes(r, 4))}.Ticks()
		bytes := float64(depth) * tc.TickNanoseconds * float64(rate) / 1e9
		// The kernel's resolution is one tick; the burst of one byte per second is limited by its field.
		if r > 1000 {
			assert.InDelta(t, fabric.BurstBytes(r, 4), bytes, tc.TickNanoseconds*float64(rate)/1e9+1)
		}
	}
}
