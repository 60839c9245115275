package kvagent

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netkvlab/netkvlab/kvagent/control"
)

const ms = int64(time.Millisecond)

// withEngine is an engine whose outcome is easily computed: 20 ms per prompt, 30 ms
// per decode step, 100 blocks of 16 tokens.
func withEngine(c *control.ConfigureRequest) {
	c.Engine = &control.EngineConfig{
		PrefillMode: "queue", PrefillBasePaperNs: 20 * ms,
		MaxBatch: 1, MemoryPaperBytes: 1600, KvBytesPerTokenPaper: 1, BlockTokens: 16, DecodeBasePaperNs: 30 * ms,
	}
}

// disaggregated is a prefill and a decode agent at half speed.
func disaggregated(t *testing.T) (*rig, *node, *node) {
	r := newRig(t)
	slow := func(c *control.ConfigureRequest) { c.TimeScale = 2 }
	p := r.start("p0", control.Role_ROLE_PREFILL, 1, withEngine, slow)
	d := r.start("d0", control.Role_ROLE_DECODE, 1, withEngine, slow)
	p.knows(d, 1, 8)
	r.run(p, d)
	return r, p, d
}

// of returns the next event that is not a cache change.
func (n *node) of() *control.Event {
	n.t.Helper()
	for {
		if e := n.next(); e.GetCache() == nil {
			return e
		}
	}
}

func TestFirstTokenAddsUp(t *testing.T) {
	t.Parallel()
	_, p, d := disaggregated(t)
	p.command(&control.Prefill{Request: 9, Tokens: 32})
	started := p.next()
	require.NotNil(t, started.GetPrefillStarted(), "%v", started)
	ready := p.next()
	require.NotNil(t, ready.GetPrefillDone(), "%v", ready)
	assert.Equal(t, 20*ms, ready.GetAtPaperNs()-started.GetAtPaperNs(), "model time is exact, however late the timer")

	d.command(&control.Reserve{Request: 9, Attempt: 1, PromptTokens: 32, OutputTokens: 3, Blocks: []uint64{1, 2}})
	reserved := d.of()
	require.True(t, reserved.GetReserved().GetOk(), "%v", reserved)
	assert.Zero(t, reserved.GetReserved().GetHitTokens())
	d.expect(9, p, bytesOn(0, 50_000))
	p.send(9, d, bytesOn(0, 50_000))
	p.sent()

	got := map[string]*control.Event{}
	for got["finished"] == nil {
		switch e := d.next(); {
		case e.GetTransferDone() != nil:
			got["done"] = e
		case e.GetAdmitted() != nil:
			got["admitted"] = e
		case e.GetFirstToken() != nil:
			got["first"] = e
		case e.GetFinished() != nil:
			got["finished"] = e
		case e.GetCache() != nil && len(e.GetCache().GetStored()) > 0:
			assert.Equal(t, []uint64{1, 2}, e.GetCache().GetStored())
			got["stored"] = e
		}
	}
	require.Len(t, got, 5)
	done := got["done"].GetAtPaperNs()
	assert.GreaterOrEqual(t, done, reserved.GetAtPaperNs())
	assert.Equal(t, done, got["admitted"].GetAtPaperNs(), "an idle instance begins with the last byte")
	assert.Equal(t, done+30*ms, got["first"].GetAtPaperNs())
	assert.Equal(t, done+90*ms, got["finished"].GetAtPaperNs())
	assert.EqualValues(t, 3, got["finished"].GetFinished().GetTokens())
	assert.Equal(t, 30*ms, got["finished"].GetFinished().GetMeanTbtPaperNs())
	assert.EqualValues(t, 1600, got["finished"].GetFinished().GetFreePaperBytes())
	assert.EqualValues(t, 1, got["first"].GetAttempt())

	d.command(&control.Reserve{Request: 10, Attempt: 1, PromptTokens: 32, OutputTokens: 1, Blocks: []uint64{1, 2}})
	assert.EqualValues(t, 32, d.of().GetReserved().GetHitTokens(), "the second request finds the prompt cached")
}

func TestFullHitNeedsNoStream(t *testing.T) {
	t.Parallel()
	_, p, d := disaggregated(t)
	d.command(&control.Reserve{Request: 1, Attempt: 1, PromptTokens: 16, OutputTokens: 1})
	require.True(t, d.of().GetReserved().GetOk())
	d.expect(1, p)
	p.send(1, d)
	p.sent()
	assert.Zero(t, d.of().GetTransferDone().GetBytes())
	require.NotNil(t, d.of().GetAdmitted())
	require.NotNil(t, d.of().GetFirstToken())
	require.NotNil(t, d.of().GetFinished())
}

func TestReservationsComeAndGo(t *testing.T) {
	t.Parallel()
	_, p, d := disaggregated(t)
	reserve := func(req uint64, attempt uint32) *control.Reserved {
		d.command(&control.Reserve{Request: req, Attempt: attempt, PromptTokens: 1200, OutputTokens: 100})
		e := d.of()
		require.NotNil(t, e.GetReserved(), "%v", e)
		assert.Equal(t, attempt, e.GetAttempt())
		return e.GetReserved()
	}
	free := func() int64 { return d.status().GetFreePaperBytes() }
	assert.True(t, reserve(1, 1).GetOk())
	assert.EqualValues(t, 1, d.status().GetReservations())
	no := reserve(2, 1)
	assert.False(t, no.GetOk())
	assert.Contains(t, no.GetReason(), "not enough KV memory")
	assert.EqualValues(t, free(), no.GetFreePaperBytes())

	d.command(&control.Cancel{Request: 1, Attempt: 7})
	assert.EqualValues(t, 1, d.status().GetReservations(), "another attempt's cancel changes nothing")
	assert.True(t, reserve(1, 2).GetOk(), "a new attempt replaces the old one's reservation")
	d.command(&control.Cancel{Request: 1, Attempt: 2})
	until(t, "released", func() bool { return d.status().GetReservations() == 0 && free() == 1600 })

	assert.True(t, reserve(3, 1).GetOk())
	d.expect(3, p, bytesOn(0, 1<<40))
	p.send(3, d, bytesOn(0, 1<<40))
	until(t, "moving", func() bool { return d.status().GetBytesIn() > 0 })
	p.kill()
	e := d.of()
	assert.Equal(t, "transfer", e.GetFailed().GetStage(), "%v", e)
	until(t, "a failed transfer gives its memory back", func() bool { return free() == 1600 })
	assert.True(t, reserve(4, 1).GetOk())
	require.NoError(t, d.ses.Close())
	assert.EqualValues(t, 1600, free(), "between trials everything is free")
	assert.EqualValues(t, 1600, d.status().GetMemoryPaperBytes())
}

func TestPrefillCancelLetsTheNextIn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.start("p0", control.Role_ROLE_PREFILL, 1, withEngine, func(c *control.ConfigureRequest) { c.TimeScale = 100 })
	r.run(p)
	p.command(&control.Prefill{Request: 1, Tokens: 1})
	require.EqualValues(t, 1, p.next().GetRequest())
	p.command(&control.Prefill{Request: 2, Tokens: 1})
	until(t, "waiting", func() bool { return p.status().GetPrefillWaiting() == 1 })
	p.command(&control.Cancel{Request: 1})
	e := p.next()
	assert.EqualValues(t, 2, e.GetRequest())
	assert.NotNil(t, e.GetPrefillStarted())
}

func TestCommandsForAnotherRoleFail(t *testing.T) {
	t.Parallel()
	_, a, _ := pair(t)
	a.command(&control.Prefill{Request: 1})
	assert.Equal(t, "prefill: this agent's role is ROLE_ENDPOINT", a.failed().GetReason())
	a.command(&control.Reserve{Request: 1})
	assert.Equal(t, "protocol", a.failed().GetStage())
}

func TestSessionRules(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.start("a", control.Role_ROLE_ENDPOINT, 1)
	_, err := a.Session(t.Context(), 0)
	assert.Equal(t, codes.FailedPrecondition, status.Code(err))
	assert.ErrorContains(t, err, "agent a is not configured")
	_, err = a.Warm(t.Context(), 1)
	assert.ErrorContains(t, err, "not configured")
	assert.Equal(t, control.Role_ROLE_UNSPECIFIED, a.status().GetRole())

	r.run(a)
	_, err = a.Session(t.Context(), 0)
	assert.ErrorContains(t, err, "session with another controller")
	assert.ErrorContains(t, a.Configure(t.Context(), a.cfg), "a session is open")

	require.NoError(t, a.ses.Send(&control.Command{Command: &control.Command_Start{Start: &control.Start{}}}))
	_, open := <-a.ses.Events()
	assert.False(t, open)
	assert.ErrorContains(t, a.ses.Err(), "a new trial needs a new session")
	until(t, "over", func() bool { return errors.Is(a.ses.Send(&control.Command{}), ErrSessionOver) })
	r.open(a)
	require.NoError(t, a.ses.Send(&control.Command{}))
	<-a.ses.Events()
	assert.ErrorContains(t, a.ses.Err(), "unknown command")
}

func TestFirstCommandMustBeStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.start("a", control.Role_ROLE_ENDPOINT, 1)
	require.NoError(t, a.Configure(t.Context(), a.cfg))
	s, err := a.rpc.Session(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Send(&control.Command{Command: &control.Command_Prefill{Prefill: &control.Prefill{}}}))
	_, err = s.Recv()
	assert.ErrorContains(t, err, errNotStarted.Error())
}

func TestOtherProtocolIsRefusedWithBothNumbers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.start("a", control.Role_ROLE_ENDPOINT, 0)
	_, err := a.rpc.Hello(t.Context(), &control.HelloRequest{Protocol: 99})
	assert.Equal(t, codes.FailedPrecondition, status.Code(err))
	assert.ErrorContains(t, err, "agent a (version test) speaks protocol 1, the controller 99")
	assert.Equal(t, "a", a.hello.GetNode())
}

func TestControllerThatVanishesLeavesAnIdleAgent(t *testing.T) {
	t.Parallel()
	_, a, b := pair(t)
	b.expect(1, a, bytesOn(0, 1<<40))
	a.send(1, b, bytesOn(0, 1<<40))
	until(t, "moving", func() bool { return b.status().GetBytesIn() > 0 })
	a.ses.cancel() // as a killed controller would
	until(t, "idle", func() bool { return a.status().GetTransfersOut() == 0 })
	assert.Contains(t, b.failed().GetReason(), "peer a")
}

func TestServeStopsWithinASecond(t *testing.T) {
	t.Parallel()
	_, a, b := pair(t)
	b.expect(1, a, bytesOn(0, 1<<40))
	a.send(1, b, bytesOn(0, 1<<40))
	until(t, "moving", func() bool { return b.status().GetBytesIn() > 0 })
	begun := time.Now()
	a.kill()
	assert.Less(t, time.Since(begun), time.Second)
	for range a.ses.Events() {
	}
	assert.ErrorContains(t, a.ses.Err(), "agent a is shutting down")
}

func TestSocketRules(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	stop := serve(t, Options{Socket: path, Node: "a"})
	c, err := Dial(t.Context(), path)
	require.NoError(t, err)
	assert.Equal(t, "unknown", c.hello.GetVersion())
	require.NoError(t, c.Close())
	assert.ErrorContains(t, Serve(t.Context(), Options{Socket: path, Node: "b"}), "another agent answers")
	stop()
	assert.NoFileExists(t, path)

	assert.ErrorContains(t, Serve(t.Context(), Options{Node: "a"}), "socket: is empty")
	assert.ErrorContains(t, Serve(t.Context(), Options{Socket: path}), "node: is empty")
	long := filepath.Join(path, string(make([]byte, maxSocketPath)))
	assert.ErrorContains(t, Serve(t.Context(), Options{Socket: long, Node: "a"}), "use a shorter run folder")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = Dial(ctx, path)
	assert.Error(t, err, "nobody there")
}

func TestCongestionControlIsAskedForAndReadBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.start("a", control.Role_ROLE_ENDPOINT, 1)
	a.cfg.Transfer.CongestionControl = "no-such"
	err := a.Configure(t.Context(), a.cfg)
	assert.ErrorContains(t, err, `congestion control "no-such" (available: `+availableCongestionControl())
	name := anyCongestionControl(t)
	a.cfg.Transfer.CongestionControl = name
	b := r.start("b", control.Role_ROLE_ENDPOINT, 1, func(c *control.ConfigureRequest) { c.Transfer.CongestionControl = name })
	a.knows(b, 1, 1)
	r.run(b, a)
	assert.Equal(t, name, a.status().GetCongestionControl())
	_, err = a.Warm(t.Context(), 1)
	require.NoError(t, err)
}

func TestConfigureNamesTheField(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.start("a", control.Role_ROLE_ENDPOINT, 1)
	for _, tc := range []struct {
		want string
		edit func(*control.ConfigureRequest)
	}{
		{"role: ", func(c *control.ConfigureRequest) { c.Role = 0 }},
		{"time_scale: 0", func(c *control.ConfigureRequest) { c.TimeScale = 0 }},
		{`addresses[0]: "x" is not an IPv4 address`, func(c *control.ConfigureRequest) { c.Addresses = []string{"x"} }},
		{"data_port: 0", func(c *control.ConfigureRequest) { c.DataPort = 0 }},
		{"transfer.chunk_bytes: 5", func(c *control.ConfigureRequest) { c.Transfer = &control.TransferConfig{ChunkBytes: 5} }},
		{"transfer.dscp: 64", func(c *control.ConfigureRequest) { c.Transfer = &control.TransferConfig{Dscp: 64} }},
		{"transfer.timeout_ns: -1", func(c *control.ConfigureRequest) { c.Transfer = &control.TransferConfig{TimeoutNs: -1} }},
		{"transfer.setup_paper_ns: -1", func(c *control.ConfigureRequest) { c.Transfer = &control.TransferConfig{SetupPaperNs: -1} }},
		{"peers[0].node: is empty", func(c *control.ConfigureRequest) { c.Peers = []*control.Peer{{}} }},
		{"peers[0].nics: 2 entries", func(c *control.ConfigureRequest) {
			c.Peers = []*control.Peer{{Node: "b", DataPort: 1, Nics: []*control.NICPaths{{}, {}}}}
		}},
		{"peers[0].nics[0].paths[0]: 70000", func(c *control.ConfigureRequest) {
			c.Addresses = []string{"127.0.0.1"}
			c.Peers = []*control.Peer{{Node: "b", Addresses: []string{"127.0.0.1"}, DataPort: 1, Nics: []*control.NICPaths{{Paths: []*control.PathPorts{{Ports: []uint32{70000}}}}}}}
		}},
		{`background[0].kind: "x" is none of udp, tcp, tcp-onoff`, func(c *control.ConfigureRequest) {
			c.Background = []*control.BackgroundFlow{{PeerAddress: "127.0.0.1", PeerPort: 1, BitsPerSecond: 1, Kind: "x"}}
		}},
		{"background[0].bits_per_second: 0", func(c *control.ConfigureRequest) {
			c.Background = []*control.BackgroundFlow{{PeerAddress: "127.0.0.1", PeerPort: 1, Kind: "udp"}}
		}},
		{"engine: ", func(c *control.ConfigureRequest) { c.Role = control.Role_ROLE_DECODE }},
	} {
		c := &control.ConfigureRequest{Role: control.Role_ROLE_ENDPOINT, DataPort: testPort, TimeScale: 1}
		tc.edit(c)
		err := a.Configure(t.Context(), c)
		assert.Equal(t, codes.InvalidArgument, status.Code(err), tc.want)
		assert.ErrorContains(t, err, tc.want)
	}
	a.cfg.Addresses = []string{"203.0.113.1"}
	assert.ErrorContains(t, a.Configure(t.Context(), a.cfg), "listen for data on 203.0.113.1:7400")
}

func TestBytesWithoutReservationFailAtTheEngine(t *testing.T) {
	t.Parallel()
	_, p, d := disaggregated(t)
	d.expect(1, p, bytesOn(0, 10))
	p.send(1, d, bytesOn(0, 10))
	require.NotNil(t, d.of().GetTransferDone())
	f := d.of().GetFailed()
	assert.Equal(t, "decode", f.GetStage())
	assert.Equal(t, errNoReservation.Error(), f.GetReason())
}

func TestSocketLeftByADeadAgentIsReplaced(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	l.SetUnlinkOnClose(false) // as when its owner is killed
	require.NoError(t, l.Close())
	require.FileExists(t, path)
	serve(t, Options{Socket: path, Node: "a"})
	c, err := Dial(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, c.Close())

	file := socketPath(t)
	require.NoError(t, os.WriteFile(file, []byte("mine"), 0o600))
	assert.ErrorContains(t, Serve(t.Context(), Options{Socket: file, Node: "a"}), "exists and is no socket")
	assert.FileExists(t, file, "what is not ours stays")
}
