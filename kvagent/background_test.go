package kvagent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/kvagent/control"
)

func TestBackgroundHoldsItsRateAndIsSwitched(t *testing.T) {
	t.Parallel()
	const rate = 40e6
	for _, kind := range []string{backgroundUDP, backgroundTCP, backgroundOnOff} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			sink := r.start("b1", control.Role_ROLE_BACKGROUND, 1)
			a := r.start("b0", control.Role_ROLE_BACKGROUND, 1)
			a.cfg.Background = []*control.BackgroundFlow{{
				PeerAddress: sink.cfg.GetAddresses()[0], PeerPort: testPort, SourcePort: 30001, BitsPerSecond: rate, Kind: kind, Dscp: 8,
			}}
			r.run(sink, a)
			begun := time.Now()
			a.command(&control.BackgroundSwitch{On: true})
			a.command(&control.BackgroundSwitch{On: true}) // a second call changes nothing
			until(t, "moving", func() bool { return a.status().GetBackgroundBytesOut() > 1e6 })
			a.command(&control.BackgroundSwitch{On: false})
			until(t, "off", func() bool { return settled(a) })
			out, spent := a.status().GetBackgroundBytesOut(), time.Since(begun)
			peak := rate / 8
			if kind == backgroundOnOff {
				peak *= 2
			}
			assert.Less(t, float64(out), peak*(spent+maxCatchUp).Seconds()+frameBytes, "never above the rate")
			until(t, "all arrived", func() bool { return sink.status().GetBackgroundBytesIn() == out })
			assert.Zero(t, sink.status().GetBytesIn(), "not counted as transfers")
		})
	}
}

// settled reports whether a source has sent nothing for a few ticks.
func settled(n *node) bool {
	before := n.status().GetBackgroundBytesOut()
	<-time.After(5 * pacingTick)
	return n.status().GetBackgroundBytesOut() == before
}

func TestBackgroundWithoutSinkIsReported(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.start("b0", control.Role_ROLE_BACKGROUND, 1)
	a.cfg.Background = []*control.BackgroundFlow{{PeerAddress: r.addr(), PeerPort: testPort, BitsPerSecond: 1e6, Kind: backgroundTCP}}
	r.run(a)
	a.command(&control.BackgroundSwitch{On: true})
	f := a.failed()
	assert.Equal(t, "background", f.GetStage())
	assert.Contains(t, f.GetReason(), "background flow 0 (tcp to")
}

func TestPacerKeepsTheRateAndForgetsStalls(t *testing.T) {
	t.Parallel()
	p := pacer{bytesPerSecond: 1e6}
	total := 0
	for now := int64(0); now <= int64(time.Second); now += ms {
		total += p.take(now, 1000)
	}
	assert.InDelta(t, 1000, total, 1)
	burst := p.take(int64(10*time.Second), 1000)
	assert.LessOrEqual(t, burst, int(maxCatchUp/time.Millisecond), "nine seconds of stall are not caught up on")
	assert.Greater(t, p.next(int64(10*time.Second), 1000), int64(10*time.Second))
	slow := pacer{bytesPerSecond: 100}
	require.Zero(t, slow.take(int64(time.Second), 1514), "less than a frame is due")
	sent := 0
	for now := time.Second; now < 100*time.Second; now += time.Second {
		sent += slow.take(int64(now), 1514)
	}
	assert.InDelta(t, 100*100/1514, sent, 1.1, "slow rates add up all the same")
}
