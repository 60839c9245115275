package kvagent

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/netkvlab/netkvlab/kvagent/control"
)

func TestMain(m *testing.M) {
	if os.Getenv(agentEnv) != "" {
		runAsAgent()
	}
	goleak.VerifyTestMain(m)
}

const (
	testPort    = 7400
	testTimeout = 20 * time.Second
)

// subnets gives every test its own loopback addresses, so all tests, and other runs
// of these tests, may use the same ports at the same time.
var subnets atomic.Uint32

// rig is some agents on loopback, each served in this process and reached
// through its control socket.
type rig struct {
	t      testing.TB
	net    [2]byte
	nextIP byte
	epoch  int64
}

func newRig(t testing.TB) *rig {
	n := subnets.Add(1)
	return &rig{t: t, net: [2]byte{byte(1 + (os.Getpid()+int(n/250))%250), byte(n % 250)}, epoch: Monotonic()}
}

func (r *rig) addr() string {
	r.nextIP++
	return netip.AddrFrom4([4]byte{127, r.net[0], r.net[1], r.nextIP}).String()
}

// node is one agent under test.
type node struct {
	*Client
	t    testing.TB
	name string
	cfg  *control.ConfigureRequest
	ses  *Session
	kill func() // stops Serve and joins it
}

func serve(t testing.TB, o Options) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, o) }()
	var stopped bool
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(testTimeout):
			require.Fail(t, "Serve did not return")
		}
	}
	t.Cleanup(stop)
	return stop
}

func socketPath(t testing.TB) string {
	dir, err := os.MkdirTemp("", "kv") // t.TempDir is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return filepath.Join(dir, "s")
}

// start brings up an agent with nics addresses; edit changes its configuration.
func (r *rig) start(name string, role control.Role, nics int, edit ...func(*control.ConfigureRequest)) *node {
	r.t.Helper()
	path := socketPath(r.t)
	n := &node{t: r.t, name: name, kill: serve(r.t, Options{Socket: path, Node: name, Version: "test"})}
	var err error
	n.Client, err = Dial(r.t.Context(), path)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, n.Close()) })
	n.cfg = &control.ConfigureRequest{Role: role, Node: name, DataPort: testPort, TimeScale: 1, Transfer: &control.TransferConfig{}}
	for range nics {
		n.cfg.Addresses = append(n.cfg.Addresses, r.addr())
	}
	for _, e := range edit {
		e(n.cfg)
	}
	return n
}

// knows gives n a path table to a peer: paths paths per NIC, with ports source ports each.
func (n *node) knows(p *node, paths, ports int) {
	entry := &control.Peer{Node: p.name, Addresses: p.cfg.GetAddresses(), DataPort: testPort}
	port := uint32(20000)
	for range min(len(n.cfg.GetAddresses()), len(p.cfg.GetAddresses())) {
		nic := &control.NICPaths{}
		for range paths {
			pp := &control.PathPorts{}
			for range ports {
				pp.Ports = append(pp.Ports, port)
				port++
			}
			nic.Paths = append(nic.Paths, pp)
		}
		entry.Nics = append(entry.Nics, nic)
	}
	n.cfg.Peers = append(n.cfg.Peers, entry)
}

// run configures agents and opens their sessions.
func (r *rig) run(nodes ...*node) {
	r.t.Helper()
	for _, n := range nodes {
		require.NoError(r.t, n.Configure(r.t.Context(), n.cfg))
	}
	for _, n := range nodes {
		r.open(n)
	}
}

func (r *rig) open(n *node) {
	r.t.Helper()
	var err error
	n.ses, err = n.Session(context.Background(), r.epoch)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = n.ses.Close() }) // a test may have killed the agent
}

func (n *node) status() *control.StatusResponse {
	n.t.Helper()
	s, err := n.Status(n.t.Context())
	require.NoError(n.t, err)
	return s
}

func (n *node) send(req uint64, peer *node, streams ...*control.StreamSpec) {
	n.t.Helper()
	n.command(&control.Transfer{Request: req, Attempt: 1, Peer: peer.name, Streams: streams})
}

func (n *node) expect(req uint64, peer *node, streams ...*control.StreamSpec) {
	n.t.Helper()
	n.command(&control.Transfer{Request: req, Attempt: 1, Peer: peer.name, Receive: true, Streams: streams})
}

// command sends a command given as its message.
func (n *node) command(m any) {
	n.t.Helper()
	c := &control.Command{}
	switch m := m.(type) {
	case *control.Transfer:
		c.Command = &control.Command_Transfer{Transfer: m}
	case *control.Prefill:
		c.Command = &control.Command_Prefill{Prefill: m}
	case *control.Reserve:
		c.Command = &control.Command_Reserve{Reserve: m}
	case *control.Cancel:
		c.Command = &control.Command_Cancel{Cancel: m}
	case *control.BackgroundSwitch:
		c.Command = &control.Command_Background{Background: m}
	default:
		require.Failf(n.t, "command", "%T", m)
	}
	require.NoError(n.t, n.ses.Send(c))
}

// next returns the next event of any kind.
func (n *node) next() *control.Event {
	n.t.Helper()
	select {
	case e, ok := <-n.ses.Events():
		require.True(n.t, ok, "%s: session ended: %v", n.name, n.ses.Err())
		return e
	case <-time.After(testTimeout):
		require.Failf(n.t, "no event", "%s", n.name)
		return nil
	}
}

func (n *node) sent() *control.Event {
	n.t.Helper()
	e := n.next()
	require.NotNil(n.t, e.GetTransferSent(), "%s: %v", n.name, e)
	return e
}

func (n *node) done() *control.Event {
	n.t.Helper()
	e := n.next()
	require.NotNil(n.t, e.GetTransferDone(), "%s: %v", n.name, e)
	return e
}

func (n *node) failed() *control.Failed {
	n.t.Helper()
	e := n.next()
	require.NotNil(n.t, e.GetFailed(), "%s: %v", n.name, e)
	return e.GetFailed()
}

// until polls a condition for which there is no event.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, testTimeout, 2*time.Millisecond, what)
}

func bytesOn(path uint32, bytes int64) *control.StreamSpec {
	return &control.StreamSpec{Path: path, Bytes: bytes}
}

// pair is a sender and a receiver that are running.
func pair(t testing.TB, edit ...func(*control.ConfigureRequest)) (*rig, *node, *node) {
	t.Helper()
	r := newRig(t)
	a := r.start("a", control.Role_ROLE_ENDPOINT, 1, edit...)
	b := r.start("b", control.Role_ROLE_ENDPOINT, 1, edit...)
	a.knows(b, 2, 4)
	r.run(a, b)
	return r, a, b
}

func withTimeout(d time.Duration) func(*control.ConfigureRequest) {
	return func(c *control.ConfigureRequest) { c.Transfer.TimeoutNs = int64(d) }
}

func anyCongestionControl(t testing.TB) string {
	// Of those available, a user who is not root may choose among these.
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
	require.NoError(t, err)
	names := strings.Fields(string(text))
	require.NotEmpty(t, names)
	return names[len(names)-1]
}

func label(format string, args ...any) string { return fmt.Sprintf(format, args...) }
