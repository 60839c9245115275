package kvagent

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/kvagent/control"
)

func TestTransferMovesEveryByte(t *testing.T) {
	t.Parallel()
	integrity := func(c *control.ConfigureRequest) { c.Transfer.Integrity = true }
	pull := func(c *control.ConfigureRequest) { c.Transfer.Pull = true }
	fresh := func(c *control.ConfigureRequest) { c.Transfer.Fresh = true }
	for _, tc := range []struct {
		name    string
		edit    []func(*control.ConfigureRequest)
		streams []*control.StreamSpec
	}{
		{name: "one stream", streams: []*control.StreamSpec{bytesOn(0, 1<<20+7)}},
		{name: "four streams on two paths", streams: []*control.StreamSpec{bytesOn(0, 1), bytesOn(1, 300_000), bytesOn(0, 4096), bytesOn(1, 999_999)}},
		{name: "a stream without payload is legal", streams: []*control.StreamSpec{bytesOn(0, 0), bytesOn(1, 10)}},
		{name: "no stream completes at once"},
		{name: "with checksums", edit: []func(*control.ConfigureRequest){integrity}, streams: []*control.StreamSpec{bytesOn(0, 777_777), bytesOn(1, 0), bytesOn(1, 8)}},
		{name: "pulled", edit: []func(*control.ConfigureRequest){pull}, streams: []*control.StreamSpec{bytesOn(0, 500_000), bytesOn(1, 0)}},
		{name: "pulled with checksums", edit: []func(*control.ConfigureRequest){pull, integrity}, streams: []*control.StreamSpec{bytesOn(0, 500_001)}},
		{name: "on fresh connections", edit: []func(*control.ConfigureRequest){fresh}, streams: []*control.StreamSpec{bytesOn(0, 500_000), bytesOn(0, 1)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, a, b := pair(t, tc.edit...)
			b.expect(7, a, tc.streams...)
			a.send(7, b, tc.streams...)
			in, out := b.done(), a.sent()

			var total int64
			for i, s := range tc.streams {
				total += s.GetBytes()
				got, sent := in.GetTransferDone().GetStreams()[i], out.GetTransferSent().GetStreams()[i]
				assert.Equal(t, s.GetBytes(), got.GetBytes())
				assert.Equal(t, s.GetPath(), got.GetPath())
				assert.Equal(t, got.GetSourcePort(), sent.GetSourcePort(), "both ends name the same connection")
				assert.LessOrEqual(t, got.GetFirstPaperNs(), got.GetLastPaperNs())
				assert.LessOrEqual(t, got.GetLastPaperNs(), in.GetAtPaperNs())
				if s.GetBytes() > 0 {
					assert.LessOrEqual(t, sent.GetFirstPaperNs(), got.GetFirstPaperNs(), "written before read")
				}
				assert.LessOrEqual(t, got.GetLastPaperNs(), sent.GetLastPaperNs(), "acknowledged after read")
			}
			assert.Equal(t, total, in.GetTransferDone().GetBytes())
			assert.EqualValues(t, 7, in.GetRequest())
			assert.EqualValues(t, 1, in.GetAttempt())
			assert.Equal(t, total, b.status().GetBytesIn())
			assert.Equal(t, total, a.status().GetBytesOut())
			assert.Zero(t, a.status().GetTransfersOut())
			assert.Zero(t, b.status().GetTransfersIn())
		})
	}
}

func TestHeaderBeforeCommandIsHandled(t *testing.T) {
	t.Parallel()
	_, a, b := pair(t)
	a.send(1, b, bytesOn(0, 200_000))
	a.sent() // the receiver has all bytes but no announcement
	b.expect(1, a, bytesOn(0, 200_000))
	assert.EqualValues(t, 200_000, b.done().GetTransferDone().GetBytes())
}

func TestAnnouncementMustMatch(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name            string
		sent, announced []*control.StreamSpec
		reason          string
	}{
		{"fewer bytes", []*control.StreamSpec{bytesOn(0, 10)}, []*control.StreamSpec{bytesOn(0, 11)}, "brings 10 bytes, 11 were announced"},
		{"more bytes", []*control.StreamSpec{bytesOn(0, 12)}, []*control.StreamSpec{bytesOn(0, 11)}, "brings 12 bytes, 11 were announced"},
		{"more streams", []*control.StreamSpec{bytesOn(0, 1), bytesOn(1, 1)}, []*control.StreamSpec{bytesOn(0, 1)}, "stream 1 came, 1 were announced"},
		{"fewer streams", []*control.StreamSpec{bytesOn(0, 1)}, []*control.StreamSpec{bytesOn(0, 1), bytesOn(1, 1)}, "1 of 2 streams complete"},
	} {
		for _, headerFirst := range []bool{true, false} {
			t.Run(label("%s, header first %v", tc.name, headerFirst), func(t *testing.T) {
				t.Parallel()
				timeout := testTimeout
				if tc.name == "fewer streams" { // only a wait can show this
					timeout = 300 * time.Millisecond
				}
				_, a, b := pair(t, withTimeout(timeout))
				if headerFirst {
					a.send(1, b, tc.sent...)
					a.sent()
					b.expect(1, a, tc.announced...)
				} else {
					b.expect(1, a, tc.announced...)
					until(t, "announced", func() bool { return b.status().GetTransfersIn() == 1 })
					a.send(1, b, tc.sent...)
				}
				e := b.next()
				if e.GetTransferDone() != nil { // the announced stream may be complete before the surplus one comes
					require.Equal(t, "more streams", tc.name)
					return
				}
				assert.Contains(t, e.GetFailed().GetReason(), tc.reason)
			})
		}
	}
}

func TestBytesThatNobodyAnnouncedFail(t *testing.T) {
	t.Parallel()
	_, a, b := pair(t, withTimeout(200*time.Millisecond))
	a.send(3, b, bytesOn(0, 5))
	f := b.failed()
	assert.Contains(t, f.GetReason(), "5 bytes came in 1 streams and were never announced")
	assert.EqualValues(t, 5, f.GetBytes())
}

func TestPoolGrowsAndIsReused(t *testing.T) {
	t.Parallel()
	_, a, b := pair(t)
	n, err := a.Warm(t.Context(), 2)
	require.NoError(t, err)
	assert.Equal(t, 4, n, "two paths, two each")
	ports := func(req uint64, streams ...*control.StreamSpec) []uint32 {
		b.expect(req, a, streams...)
		a.send(req, b, streams...)
		var out []uint32
		for _, s := range b.done().GetTransferDone().GetStreams() {
			out = append(out, s.GetSourcePort())
		}
		a.sent()
		return out
	}
	first := ports(1, bytesOn(0, 10), bytesOn(0, 10), bytesOn(0, 10))
	assert.ElementsMatch(t, []uint32{20000, 20001, 20002}, first, "the third stream takes the path's next port")
	assert.EqualValues(t, 5, a.status().GetConnections())
	second := ports(2, bytesOn(0, 10), bytesOn(1, 10))
	assert.Contains(t, first, second[0])
	assert.Contains(t, []uint32{20004, 20005}, second[1])
	assert.EqualValues(t, 5, a.status().GetConnections(), "nothing new was dialled")
}

func TestPoolOutlivesTrials(t *testing.T) {
	t.Parallel()
	r, a, b := pair(t)
	_, err := a.Warm(t.Context(), 2)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, a.ses.Close())
		require.NoError(t, b.ses.Close())
		r.epoch = Monotonic()
		r.run(b, a)
		assert.EqualValues(t, 4, a.status().GetConnections())
		b.expect(1, a, bytesOn(0, 10)) // the same request number again
		a.send(1, b, bytesOn(0, 10))
		b.done()
		a.sent()
	}
	require.NoError(t, a.ses.Close())
	a.cfg.Transfer.Dscp = 10
	require.NoError(t, a.Configure(t.Context(), a.cfg))
	assert.Zero(t, a.status().GetConnections(), "other marking, other connections")
}

func TestFreshTakesAPortAfterTheOther(t *testing.T) {
	t.Parallel()
	_, a, b := pair(t, func(c *control.ConfigureRequest) { c.Transfer.Fresh = true })
	var got []uint32
	for req := range uint64(6) {
		b.expect(req, a, bytesOn(0, 1000))
		a.send(req, b, bytesOn(0, 1000))
		got = append(got, b.done().GetTransferDone().GetStreams()[0].GetSourcePort())
		a.sent()
	}
	assert.Equal(t, []uint32{20000, 20001, 20002, 20003, 20000, 20001}, got, "and round again: no TIME_WAIT keeps a port")
	until(t, "closed", func() bool { return a.status().GetConnections() == 0 && b.status().GetConnections() == 0 })
}

func TestPortsExhaustedIsAnError(t *testing.T) {
	t.Parallel()
	_, a, b := pair(t)
	streams := slices.Repeat([]*control.StreamSpec{bytesOn(0, 1<<20)}, 5)
	a.send(1, b, streams...)
	f := a.failed()
	assert.Equal(t, "transfer", f.GetStage())
	assert.Contains(t, f.GetReason(), PortsExhausted)
	assert.Contains(t, f.GetReason(), "all 4 of nic 0 path 0 to b are in use")
	until(t, "clean", func() bool { return a.status().GetTransfersOut() == 0 })
}

func TestStickyPortIsUsedInTurn(t *testing.T) {
	t.Parallel()
	_, a, b := pair(t)
	spec := &control.StreamSpec{Path: 1, Bytes: 3 << 20, SourcePort: 23456}
	const n = 8
	for req := range uint64(n) {
		b.expect(req, a, spec)
		a.send(req, b, spec)
	}
	for range n {
		assert.EqualValues(t, 23456, b.done().GetTransferDone().GetStreams()[0].GetSourcePort())
		a.sent()
	}
	assert.EqualValues(t, 1, a.status().GetConnections())
}

func TestEachNICUsesItsOwnAddress(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.start("a", control.Role_ROLE_ENDPOINT, 2)
	b := r.start("b", control.Role_ROLE_ENDPOINT, 2)
	a.knows(b, 1, 2)
	r.run(a, b)
	specs := []*control.StreamSpec{{Nic: 0, Bytes: 1000}, {Nic: 1, Bytes: 2000}}
	b.expect(1, a, specs...)
	a.send(1, b, specs...)
	got := b.done().GetTransferDone().GetStreams()
	assert.EqualValues(t, 20000, got[0].GetSourcePort())
	assert.EqualValues(t, 20002, got[1].GetSourcePort())
}

func TestBadTransfersFailWithAReason(t *testing.T) {
	t.Parallel()
	_, a, b := pair(t)
	for _, tc := range []struct {
		name, stage, reason string
		cmd                 *control.Transfer
	}{
		{"unknown peer", "protocol", `peer "nobody" is not among`, &control.Transfer{Request: 1, Peer: "nobody"}},
		{"unknown path", "transfer", "nic 0 path 9 to b is not in the path table", &control.Transfer{Request: 2, Peer: "b", Streams: []*control.StreamSpec{bytesOn(9, 1)}}},
		{"unknown nic", "transfer", "nic 3 to b", &control.Transfer{Request: 3, Peer: "b", Streams: []*control.StreamSpec{{Nic: 3}}}},
		{"negative size", "protocol", "-1 bytes", &control.Transfer{Request: 4, Peer: "b", Streams: []*control.StreamSpec{bytesOn(0, -1)}}},
	} {
		a.command(tc.cmd)
		f := a.failed()
		assert.Equal(t, tc.stage, f.GetStage(), tc.name)
		assert.Contains(t, f.GetReason(), tc.reason, tc.name)
	}
	_ = b
}

func TestNobodyListensIsAnError(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.start("a", control.Role_ROLE_ENDPOINT, 1)
	b := r.start("b", control.Role_ROLE_ENDPOINT, 1)
	a.knows(b, 1, 1)
	r.run(a)
	a.send(1, b, bytesOn(0, 1))
	assert.Contains(t, a.failed().GetReason(), "connection refused")
	_, err := a.Warm(t.Context(), 1)
	assert.ErrorContains(t, err, "warm nic 0 path 0 to b")
}

func TestPeerKilledMidTransfer(t *testing.T) {
	t.Parallel()
	big := bytesOn(0, 1<<40)
	t.Run("receiver dies", func(t *testing.T) {
		t.Parallel()
		_, a, b := pair(t)
		b.expect(1, a, big, bytesOn(1, 100))
		a.send(1, b, big, bytesOn(1, 100))
		until(t, "moving", func() bool { return b.status().GetBytesIn() > 0 })
		b.kill()
		f := a.failed()
		assert.Equal(t, "transfer", f.GetStage())
		assert.Contains(t, f.GetReason(), "peer b")
		assert.Regexp(t, "reset|closed by the peer|broken pipe", f.GetReason())
		assert.Positive(t, f.GetBytes())
		until(t, "no connection is kept", func() bool { return a.status().GetConnections() == 0 })
	})
	t.Run("sender dies", func(t *testing.T) {
		t.Parallel()
		_, a, b := pair(t)
		b.expect(1, a, big)
		a.send(1, b, big)
		until(t, "moving", func() bool { return b.status().GetBytesIn() > 0 })
		a.kill()
		f := b.failed()
		assert.Contains(t, f.GetReason(), "peer a: stream 0 after")
		assert.Contains(t, f.GetReason(), "reset")
		until(t, "no connection is kept", func() bool { return b.status().GetConnections() == 0 })
	})
	t.Run("the end of a session ends its transfers", func(t *testing.T) {
		t.Parallel()
		_, a, b := pair(t)
		b.expect(1, a, big)
		a.send(1, b, big)
		until(t, "moving", func() bool { return b.status().GetBytesIn() > 0 })
		require.NoError(t, a.ses.Close())
		assert.Contains(t, b.failed().GetReason(), "peer a")
		assert.Zero(t, a.status().GetTransfersOut())
	})
}

func TestCancelIsSilentAndCloses(t *testing.T) {
	t.Parallel()
	_, a, b := pair(t)
	big := bytesOn(0, 1<<40)
	b.expect(1, a, big)
	a.send(1, b, big)
	until(t, "moving", func() bool { return b.status().GetBytesIn() > 0 })
	b.command(&control.Cancel{Request: 1, Attempt: 1})
	a.command(&control.Cancel{Request: 1, Attempt: 1})
	until(t, "gone", func() bool { return a.status().GetTransfersOut() == 0 && b.status().GetTransfersIn() == 0 })
	// The next events are those of another transfer, except one failure at the
	// agent whose cancel came second: its peer has closed the connection.
	b.expect(2, a, bytesOn(0, 10))
	a.send(2, b, bytesOn(0, 10))
	failures := 0
	for _, n := range []*node{a, b} {
		e := n.next()
		if e.GetFailed() != nil {
			assert.EqualValues(t, 1, e.GetRequest())
			failures++
			e = n.next()
		}
		assert.EqualValues(t, 2, e.GetRequest())
		assert.Nil(t, e.GetFailed(), "%v", e)
	}
	assert.LessOrEqual(t, failures, 1)
}

func TestStalledPeerMeetsTheTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.start("a", control.Role_ROLE_ENDPOINT, 1, withTimeout(500*time.Millisecond))
	b := r.start("b", control.Role_ROLE_ENDPOINT, 1)
	a.knows(b, 1, 1)
	r.run(a)
	// A peer that accepts and never reads.
	l, err := net.Listen("tcp4", netip.AddrPortFrom(netip.MustParseAddr(b.cfg.GetAddresses()[0]), testPort).String())
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	a.send(1, b, bytesOn(0, 1<<40))
	f := a.failed()
	assert.Contains(t, f.GetReason(), "peer b")
	assert.Contains(t, f.GetReason(), "not done within 500ms")
	assert.Positive(t, f.GetBytes())
	assert.Less(t, f.GetBytes(), int64(1<<40))
}

func TestSilentSenderMeetsTheTimeout(t *testing.T) {
	t.Parallel()
	_, a, b := pair(t, withTimeout(100*time.Millisecond))
	b.expect(1, a, bytesOn(0, 10))
	assert.Contains(t, b.failed().GetReason(), "peer a: not done within 100ms: 0 of 10 bytes read")
}

func TestPullWaitsForTheReceiver(t *testing.T) {
	t.Parallel()
	r, a, b := pair(t, func(c *control.ConfigureRequest) { c.Transfer.Pull = true })
	a.send(1, b, bytesOn(0, 100_000))
	until(t, "offered", func() bool { return b.status().GetTransfersIn() == 1 })
	assert.Zero(t, a.status().GetBytesOut(), "no payload without a read")
	before := Monotonic() - r.epoch
	b.expect(1, a, bytesOn(0, 100_000))
	e := b.done()
	assert.GreaterOrEqual(t, e.GetTransferDone().GetStreams()[0].GetFirstPaperNs(), before)
	a.sent()
}

func TestReleaseScheduleBoundsCompletionFromBelow(t *testing.T) {
	t.Parallel()
	r, a, b := pair(t, func(c *control.ConfigureRequest) { c.TimeScale = 0.5 })
	from := time.Duration(2 * (Monotonic() - r.epoch)) // paper
	to := from + 400*time.Millisecond
	cmd := func(receive bool) *control.Transfer {
		return &control.Transfer{
			Request: 1, Attempt: 1, Peer: map[bool]string{true: "a", false: "b"}[receive], Receive: receive,
			Streams: []*control.StreamSpec{bytesOn(0, 1<<20), bytesOn(1, 3)},
			Pieces:  4, ReleaseFromPaperNs: int64(from), ReleaseToPaperNs: int64(to),
		}
	}
	b.command(cmd(true))
	a.command(cmd(false))
	done := b.done()
	for _, s := range done.GetTransferDone().GetStreams() {
		assert.GreaterOrEqual(t, s.GetFirstPaperNs(), int64(from+100*time.Millisecond), "the first piece is there after a quarter")
		assert.GreaterOrEqual(t, s.GetLastPaperNs(), int64(to))
	}
	assert.Less(t, done.GetAtPaperNs(), int64(to+time.Second))
	a.sent()
}

func TestSetupDelaysTheFirstByte(t *testing.T) {
	t.Parallel()
	r, a, b := pair(t, func(c *control.ConfigureRequest) { c.Transfer.SetupPaperNs = int64(50 * time.Millisecond) })
	before := Monotonic() - r.epoch
	b.expect(1, a, bytesOn(0, 10))
	a.send(1, b, bytesOn(0, 10))
	assert.GreaterOrEqual(t, b.done().GetAtPaperNs(), before+int64(50*time.Millisecond))
	sent := a.sent().GetTransferSent()
	first := sent.GetStreams()[0].GetFirstPaperNs()
	assert.GreaterOrEqual(t, first, before+int64(50*time.Millisecond))
	assert.Less(t, sent.GetStartPaperNs(), first, "the set-up is part of the transfer")
}

func TestManyTransfersAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.start("a", control.Role_ROLE_ENDPOINT, 1, func(c *control.ConfigureRequest) { c.Transfer.Integrity = true })
	b := r.start("b", control.Role_ROLE_ENDPOINT, 1, func(c *control.ConfigureRequest) { c.Transfer.Integrity = true })
	c := r.start("c", control.Role_ROLE_ENDPOINT, 1, func(c *control.ConfigureRequest) { c.Transfer.Integrity = true })
	a.knows(b, 4, 120)
	a.knows(c, 4, 120)
	r.run(a, b, c)
	const n = 100
	var want int64
	for req := range uint64(n) {
		to := []*node{b, c}[req%2]
		specs := []*control.StreamSpec{bytesOn(uint32(req%4), int64(req*1000)), bytesOn(uint32((req+1)%4), 65_536)}
		want += int64(req*1000) + 65_536
		if req%3 == 0 { // either order
			a.send(req, to, specs...)
			to.expect(req, a, specs...)
		} else {
			to.expect(req, a, specs...)
			a.send(req, to, specs...)
		}
	}
	var got int64
	for range n / 2 {
		got += b.done().GetTransferDone().GetBytes() + c.done().GetTransferDone().GetBytes()
	}
	for range n {
		a.sent()
	}
	assert.Equal(t, want, got)
	assert.Equal(t, want, a.status().GetBytesOut())
	assert.Equal(t, want, b.status().GetBytesIn()+c.status().GetBytesIn())
}

func TestWaitingForABusyPortCanBeGivenUp(t *testing.T) {
	t.Parallel()
	_, a, b := pair(t)
	sticky := func(bytes int64) *control.StreamSpec { return &control.StreamSpec{Bytes: bytes, SourcePort: 23456} }
	b.expect(1, a, sticky(1<<40))
	a.send(1, b, sticky(1<<40))
	until(t, "moving", func() bool { return b.status().GetBytesIn() > 0 })
	a.send(2, b, sticky(10))
	a.send(3, b, sticky(10))
	until(t, "waiting", func() bool { return a.status().GetTransfersOut() == 3 })
	assert.EqualValues(t, 1, a.status().GetConnections())
	a.command(&control.Cancel{Request: 2, Attempt: 1})
	until(t, "given up", func() bool { return a.status().GetTransfersOut() == 2 })
	b.expect(3, a, sticky(10))
	a.command(&control.Cancel{Request: 1, Attempt: 1}) // its connection cannot be used again: the next one dials
	assert.EqualValues(t, 3, a.sent().GetRequest())
	for e := b.next(); e.GetTransferDone() == nil; e = b.next() {
		assert.EqualValues(t, 1, e.GetRequest(), "%v", e)
	}
}
