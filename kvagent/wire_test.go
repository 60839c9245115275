package kvagent

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/kvagent/control"
)

func TestFramesRoundTrip(t *testing.T) {
	t.Parallel()
	law := func(kind, flags uint8, request uint64, attempt, stream uint32, bytes, epoch int64) bool {
		in := frame{kind: kindWarm + frameKind(kind%5), flags: flags & 3, request: request, attempt: attempt, stream: stream, bytes: bytes & (1<<62 - 1), epoch: epoch}
		in.trailer = in.wantTrailer()
		var b [frameSize]byte
		in.put(&b)
		var out frame
		return out.parse(&b) == nil && out == in
	}
	require.NoError(t, quick.Check(law, nil))
}

func FuzzFrameParse(f *testing.F) {
	var b [frameSize]byte
	good := frame{kind: kindData, flags: flagIntegrity, bytes: 5, trailer: trailerSize}
	good.put(&b)
	f.Add(b[:])
	f.Fuzz(func(t *testing.T, in []byte) {
		var b [frameSize]byte
		copy(b[:], in)
		var fr frame
		if fr.parse(&b) != nil {
			return
		}
		assert.GreaterOrEqual(t, fr.bytes, int64(0))
		assert.Equal(t, fr.wantTrailer(), fr.trailer)
	})
}

// rawSender is a connection to a receiver's data port that writes any bytes.
func rawSender(t *testing.T, to *node) net.Conn {
	c, err := net.Dial("tcp4", netip.AddrPortFrom(netip.MustParseAddr(to.cfg.GetAddresses()[0]), testPort).String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (r *rig) frame(bytes int64, flags uint8) frame {
	f := frame{kind: kindData, flags: flags, request: 1, attempt: 1, bytes: bytes, epoch: r.epoch}
	f.trailer = f.wantTrailer()
	return f
}

func TestCorruptPayloadIsCaught(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		corrupt func(f *frame, payload []byte)
		fails   bool
	}{
		{"intact", func(*frame, []byte) {}, false},
		{"one bit", func(_ *frame, p []byte) { p[70_000] ^= 1 }, true},
		{"intact but another request's", func(f *frame, _ []byte) { f.stream = 1 }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, a, b := pair(t)
			f := r.frame(100_000, flagIntegrity)
			check := newChecked(&f)
			payload := make([]byte, f.bytes)
			check.fill(payload)
			trailer := check.trailer()
			tc.corrupt(&f, payload)
			b.expect(1, a, bytesOn(0, 100_000), bytesOn(0, 100_000))
			c := rawSender(t, b)
			var h [frameSize]byte
			f.put(&h)
			_, err := (&net.Buffers{h[:], payload, trailer[:]}).WriteTo(c)
			require.NoError(t, err)
			if tc.fails {
				assert.Contains(t, b.failed().GetReason(), "integrity: checksum")
				return
			}
			_, err = io.ReadFull(c, h[:])
			require.NoError(t, err)
			var ack frame
			require.NoError(t, ack.parse(&h))
			assert.Equal(t, kindAck, ack.kind)
			assert.EqualValues(t, 100_000, ack.bytes)
		})
	}
}

func TestReceiverRefusesWhatDoesNotBelong(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		edit func(*frame)
	}{
		{"a stream of another trial", func(f *frame) { f.epoch++ }},
		{"an acknowledgement nobody waits for", func(f *frame) { f.kind = kindAck }},
		{"a negative size", func(f *frame) { f.bytes = -1 }},
		{"unknown flags", func(f *frame) { f.flags = 0x80 }},
		{"a trailer without the flag", func(f *frame) { f.trailer = 8 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, _, b := pair(t)
			f := r.frame(10, 0)
			tc.edit(&f)
			c := rawSender(t, b)
			var h [frameSize]byte
			f.put(&h)
			_, err := c.Write(h[:])
			require.NoError(t, err)
			require.NoError(t, c.SetReadDeadline(time.Now().Add(testTimeout)))
			_, err = c.Read(h[:])
			assert.ErrorContains(t, err, "reset")
			assert.Zero(t, b.status().GetTransfersIn())
		})
	}
	t.Run("another program's bytes", func(t *testing.T) {
		t.Parallel()
		_, _, b := pair(t)
		c := rawSender(t, b)
		_, err := c.Write(make([]byte, frameSize))
		require.NoError(t, err)
		_, err = c.Read(make([]byte, 1))
		assert.ErrorContains(t, err, "reset")
	})
}

func TestStreamThatComesTwiceFails(t *testing.T) {
	t.Parallel()
	r, _, b := pair(t)
	f := r.frame(1000, 0)
	var h [frameSize]byte
	f.put(&h)
	for range 2 {
		_, err := rawSender(t, b).Write(h[:])
		require.NoError(t, err)
	}
	assert.Contains(t, b.failed().GetReason(), "stream 0 came twice")
}

func TestTruncatedStreamFailsWithBothCounts(t *testing.T) {
	t.Parallel()
	r, a, b := pair(t)
	b.expect(1, a, bytesOn(0, 1000))
	until(t, "announced", func() bool { return b.status().GetTransfersIn() == 1 })
	f := r.frame(1000, 0)
	c := rawSender(t, b)
	var h [frameSize]byte
	f.put(&h)
	_, err := c.Write(append(h[:], make([]byte, 400)...))
	require.NoError(t, err)
	until(t, "read", func() bool { return b.status().GetBytesIn() == 400 })
	require.NoError(t, c.Close())
	e := b.failed()
	assert.Equal(t, "peer a: stream 0 after 400 of 1000 bytes: closed by the peer", e.GetReason())
	assert.EqualValues(t, 400, e.GetBytes())
}

func TestPaperClockNeverWakesEarly(t *testing.T) {
	t.Parallel()
	law := func(paper uint32, scale uint16, epoch uint32) bool {
		c := paperClock{epoch: int64(epoch), scale: float64(scale%1000+1) / 100}
		p := time.Duration(paper)
		return c.paper(c.real(p)) >= p
	}
	require.NoError(t, quick.Check(law, &quick.Config{MaxCount: 5000}))
	assert.Zero(t, paperClock{epoch: 1 << 62, scale: 1}.now(), "nothing happens before the trial")
}

func TestAlarmsFireInOrderAndOnTime(t *testing.T) {
	t.Parallel()
	a, err := newAlarms()
	require.NoError(t, err)
	defer a.close()
	now := Monotonic()
	late, soon, past := a.at(now+int64(time.Hour)), a.at(now+20*ms), a.at(now-1)
	<-past.ch
	<-soon.ch
	assert.GreaterOrEqual(t, Monotonic(), now+20*ms)
	a.stop(late)
	a.stop(soon)
	assert.Empty(t, a.queue)
	assert.GreaterOrEqual(t, a.lateness.Load(), int64(0))
}

func TestOutboxDropsAControllerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	o := newOutbox()
	for range outboxLimit + 1 {
		o.put(nil)
	}
	sent := 0
	err := o.pump(func(*control.Event) error { sent++; return nil })
	assert.ErrorContains(t, err, "unread")
	assert.Equal(t, outboxLimit, sent)
}

// TestAnOverdueAlarmThatIsWithdrawnWasLate: bytes that arrive at the end of a stop may be handled
// before the timer.
func TestAnOverdueAlarmThatIsWithdrawnWasLate(t *testing.T) {
	t.Parallel()
	overdue, early := &alarm{at: Monotonic() - int64(100*time.Millisecond)}, &alarm{at: Monotonic() + int64(time.Hour)}
	a := &alarms{queue: []*alarm{overdue, early}}
	a.stop(early)
	assert.Zero(t, a.lateness.Load())
	a.stop(overdue)
	assert.GreaterOrEqual(t, a.lateness.Load(), int64(100*time.Millisecond))
	assert.Empty(t, a.queue)
}
