//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"slices"
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
	known := &Probe{Name: "x", known: true, answer: ErrUnsupported}
	assert.ErrorIs(t, known.Check(), ErrUnsupported)
	// A probe that nothing knows how to ask can never tell.
	strange := &Probe{Name: "strange"}
	if err := ProbeRoot.Check(); err != nil {
		t.Skip(err)
	}
	err := strange.Check()
	require.Error(t, err)
	assert.NotErrorIs(t, err, ErrUnsupported)
	assert.False(t, strange.known)
}

func TestEveryProbeSettles(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, p := range Probes() {
		assert.NotEmpty(t, p.Need)
		assert.False(t, names[p.Name])
		names[p.Name] = true
		err := p.Check()
		t.Logf("%s: %v", p.Name, err)
		if err != nil {
			assert.ErrorIs(t, err, ErrUnsupported, "a probe must be able to tell here")
		}
	}
}

func TestSupportedNeedsClassesAndMarksOnlyForPlansWithThem(t *testing.T) {
	t.Parallel()
	marking := fabrictest.Paper64()
	marking.Transfer.CongestionControl = scenarios.CongestionDCTCP
	for _, s := range []*scenarios.Scenario{fabrictest.Paper64(), fabrictest.Paper64Background(), marking} {
		plan, err := fabric.New(s, scenarios.Scale{Rate: 400, Time: 1})
		require.NoError(t, err)
		want := slices.ContainsFunc(Probes(), func(p *Probe) bool {
			needed := p.Required || plan.Classes && (p == ProbeHTB || p == ProbeU32) || s == marking && p == ProbeRED
			return needed && errors.Is(p.Check(), ErrUnsupported)
		})
		assert.Equal(t, want, Supported(plan) != nil)
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
		// One tick is what the kernel can tell apart; a byte a second's burst is capped by its field.
		if r > 1000 {
			assert.InDelta(t, fabric.BurstBytes(r, 4), bytes, tc.TickNanoseconds*float64(rate)/1e9+1)
		}
	}
}
