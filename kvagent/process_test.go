package kvagent

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/kvagent/control"
)

// agentEnv makes the test binary run Main with its arguments.
const agentEnv = "KVAGENT_TEST_MAIN"

func runAsAgent() {
	if err := Main(context.Background(), os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// spawn replaces start's in-process agent by a separate process.
func (r *rig) spawn(name string, edit ...func(*control.ConfigureRequest)) (*node, *exec.Cmd) {
	r.t.Helper()
	path := socketPath(r.t)
	cmd := exec.Command(os.Args[0], "--socket", path, "--node", name)
	cmd.Env = append(os.Environ(), agentEnv+"=1")
	cmd.Stderr = os.Stderr
	require.NoError(r.t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	n := &node{t: r.t, name: name}
	n.kill = func() {
		_ = cmd.Process.Signal(unix.SIGCONT)
		_ = cmd.Process.Signal(unix.SIGTERM) // may have ended before
		<-ended
		ended <- nil
	}
	r.t.Cleanup(n.kill)
	var err error
	n.Client, err = Dial(r.t.Context(), path)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, n.Close()) })
	n.cfg = &control.ConfigureRequest{
		Role: control.Role_ROLE_ENDPOINT, Node: name, Addresses: []string{r.addr()}, DataPort: testPort, TimeScale: 1,
		Transfer: &control.TransferConfig{},
	}
	for _, e := range edit {
		e(n.cfg)
	}
	return n, cmd
}

func TestProcessesThatDieOrStall(t *testing.T) {
	t.Parallel()
	const patience = 500 * time.Millisecond
	begin := func(t *testing.T) (a, b *node, pa, pb *exec.Cmd) {
		r := newRig(t)
		a, pa = r.spawn("a", withTimeout(patience))
		b, pb = r.spawn("b", withTimeout(patience))
		a.knows(b, 2, 4)
		r.run(a, b)
		b.expect(1, a, bytesOn(0, 1<<40))
		a.send(1, b, bytesOn(0, 1<<40))
		until(t, "moving", func() bool { return b.status().GetBytesIn() > 0 })
		return a, b, pa, pb
	}
	t.Run("a killed sender", func(t *testing.T) {
		t.Parallel()
		a, b, pa, _ := begin(t)
		require.NoError(t, pa.Process.Kill())
		assert.Regexp(t, "peer a: stream 0 after .* reset", b.failed().GetReason())
		for range a.ses.Events() {
		}
		assert.Error(t, a.ses.Err(), "the controller sees it too")
	})
	t.Run("a killed receiver", func(t *testing.T) {
		t.Parallel()
		a, _, _, pb := begin(t)
		require.NoError(t, pb.Process.Kill())
		assert.Regexp(t, "peer b .*(reset|closed by the peer|broken pipe)", a.failed().GetReason())
	})
	t.Run("a stopped receiver", func(t *testing.T) {
		t.Parallel()
		a, _, _, pb := begin(t)
		require.NoError(t, pb.Process.Signal(unix.SIGSTOP))
		assert.Contains(t, a.failed().GetReason(), "peer b: not done within 500ms")
		require.NoError(t, pb.Process.Signal(unix.SIGCONT)) // its session must end with the others
	})
	t.Run("a stopped sender", func(t *testing.T) {
		t.Parallel()
		_, b, pa, _ := begin(t)
		require.NoError(t, pa.Process.Signal(unix.SIGSTOP))
		assert.Contains(t, b.failed().GetReason(), "peer a: not done within 500ms")
		require.NoError(t, pa.Process.Signal(unix.SIGCONT))
	})
	t.Run("a terminated agent ends well and soon", func(t *testing.T) {
		t.Parallel()
		_, b, pa, _ := begin(t)
		begun := time.Now()
		require.NoError(t, pa.Process.Signal(unix.SIGTERM))
		assert.Contains(t, b.failed().GetReason(), "peer a")
		assert.Less(t, time.Since(begun), time.Second)
	})
}

func TestBothEndsAreMarked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	name := anyCongestionControl(t)
	n := networkConfig{options: socketOptions{dscp: 10, congestion: name}, port: testPort}
	c := &control.ConfigureRequest{Role: control.Role_ROLE_ENDPOINT, DataPort: testPort, TimeScale: 1, Addresses: []string{r.addr()}}
	cfg, err := parseConfig(c)
	require.NoError(t, err)
	n.addrs = cfg.net.addrs
	n.peers = map[string]*peer{"self": {node: "self", addrs: n.addrs, port: testPort, paths: [][][]uint16{{{21000}}}}}
	p, err := newPlane(t.Context(), n)
	require.NoError(t, err)
	defer p.close()
	_, err = p.pool.warm(t.Context(), 1)
	require.NoError(t, err)
	s := p.pool.takeIdle(pathKey{"self", 0, 0})
	require.NotNil(t, s)
	p.inlet.mu.Lock()
	defer p.inlet.mu.Unlock()
	require.Len(t, p.inlet.conns, 1)
	for accepted := range p.inlet.conns {
		raw, err := accepted.SyscallConn()
		require.NoError(t, err)
		for end, rc := range map[string]interface{ Control(func(uintptr)) error }{"dialled": s.link.conn.raw, "accepted": raw} {
			require.NoError(t, rc.Control(func(fd uintptr) {
				tos, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS)
				assert.NoError(t, err)
				assert.Equal(t, 10<<2, tos, end)
				cc, err := unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
				assert.NoError(t, err)
				assert.Equal(t, name, cc, end)
				nodelay, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY)
				assert.NoError(t, err)
				assert.NotZero(t, nodelay, end)
				linger, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_LINGER)
				assert.NoError(t, err)
				assert.Equal(t, 1, linger, "%s: close resets", end)
			}))
		}
	}
}
