package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/internal/results"
)

// TestSabotageIsCaughtWithItsReason damages a running lab or its host in ten ways. Each of them
// leaves every transfer complete and every figure plausible.
func TestSabotageIsCaughtWithItsReason(t *testing.T) {
	// in runs a shell command in a node's namespace after the first trial has begun, since `run`
	// refuses a lab that is damaged before.
	in := func(script string, nodes ...string) func(t *testing.T, errs *buffer) func() {
		return func(t *testing.T, errs *buffer) func() {
			begun(t, errs)
			for _, node := range nodes {
				mustRun(t, "exec", "e2e-sabotage", node, "--", "sh", "-ec", script)
			}
			return func() {}
		}
	}
	for _, tt := range []struct {
		name   string
		reason string
		harm   func(t *testing.T, errs *buffer) (end func())
	}{
		{name: "a CPU hog", reason: "under 10% idle in", harm: func(t *testing.T, _ *buffer) func() {
			return hog(t, unix.SCHED_NORMAL, func() { spin(50 * time.Millisecond) })
		}},
		{name: "a timer that hogs the clock", reason: "a timer of agent", harm: func(t *testing.T, _ *buffer) func() {
			return hog(t, unix.SCHED_FIFO, func() { // too short to make a window busy
				spin(150 * time.Millisecond)
				time.Sleep(750 * time.Millisecond)
			})
		}},
		{name: "a qdisc removed", reason: "agg0-0 port d1: root qdisc", harm: in("tc qdisc del dev d1 root", "agg0-0")},
		{name: "a rate changed", reason: "agg0-0 port up0: tbf rate", harm: in("tc qdisc change dev up0 root handle 1: tbf rate 20mbit burst 12109 limit 65536", "agg0-0")},
		{name: "a deep buffer", reason: "tor0-0 port up1: tbf limit 8388608 bytes, want 65536", harm: in("tc qdisc change dev up1 root handle 1: tbf rate 62500kbit burst 12109 limit 8388608", "tor0-0")},
		{name: "a route deleted", reason: "agg0-0 route 10.0.0.0/24: next hops via 10.128.0.24", harm: in("ip route del 10.0.0.0/24; ip route add 10.0.0.0/24 via 10.128.0.24", "agg0-0")},
		{name: "an ECMP leg down", reason: "tor1-0 port up0: interface is down, want up", harm: in("ip link set up0 down", "tor1-0")},
		{name: "a leg that loses packets", reason: "although no shaped queue dropped them", harm: in(
			"nft add table inet loss; nft 'add chain inet loss f { type filter hook forward priority 0; }'; nft 'add rule inet loss f numgen random mod 100 < 8 drop'", "tor0-0", "tor0-1")},
		{name: "an agent paused", reason: "a timer of agent d0 was", harm: func(t *testing.T, errs *buffer) func() {
			begun(t, errs)
			stallAgent(t, "e2e-sabotage", "d0", 700*time.Millisecond)
			return func() {}
		}},
		{name: "too little socket memory", reason: "waited for socket buffers", harm: func(t *testing.T, errs *buffer) func() {
			begun(t, errs)
			occupySocketMemory(t)
			limits := sh(t, "cat /proc/sys/net/ipv4/tcp_mem")
			restore := func() { sh(t, "echo '"+strings.TrimSpace(limits)+"' > /proc/sys/net/ipv4/tcp_mem") }
			t.Cleanup(restore) // it applies to the whole host, so restore it in any case
			sh(t, "echo 20 40 80 > /proc/sys/net/ipv4/tcp_mem")
			return restore
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			absent(t, "e2e-sabotage")
			edits := []string{"requests: 8", "requests: 24", "[rr, netkv-full]", "[rr]", "timeout: 20s", "timeout: 3s", "output: {mean: 8, sigma: 0, min: 1, max: 8}", "output: {mean: 2, sigma: 0, min: 1, max: 2}",
				"scale: {rate: 400, time: 1}", "scale: {rate: 400, time: 1}\nlimits: {repeats: 0}"} // a repetition would have the verdict good
			mustRun(t, "up", "-d", scenario(t, "e2e-sabotage", edits...))
			out := filepath.Join(t.TempDir(), "run")
			cmd, _, errs := command(t.Context(), t.TempDir(), "run", "e2e-sabotage", "--worlds", "packet", "--strict", "--out", out)
			require.NoError(t, cmd.Start())
			end := tt.harm(t, errs)
			_ = cmd.Wait()
			end()
			assert.Contains(t, []int{1, 3}, cmd.ProcessState.ExitCode(), errs) // 1: a port that cannot be read ends the run
			f := summary(t, out).Fidelity
			assert.NotEqual(t, results.VerdictGood, f.Verdict)
			assert.Contains(t, strings.Join(f.Reasons, "\n"), tt.reason)
			mustRun(t, "down", "e2e-sabotage")
		})
	}
}

// begun waits until a run is in the middle of its first trial.
func begun(t *testing.T, errs *buffer) {
	t.Helper()
	waitFor(t, 20*time.Second, "the trial to begin", func() bool { return strings.Contains(errs.String(), "trial 1 of") })
	time.Sleep(500 * time.Millisecond)
}

// occupySocketMemory keeps 16 MB of TCP data in sockets that nobody reads. The kernel hides up to
// 1 MB per CPU from its limits (net.core.mem_pcpu_rsv), which is more than a small lab needs.
func occupySocketMemory(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	for range 16 {
		sender, err := net.Dial("tcp", listener.Addr().String())
		require.NoError(t, err)
		receiver, err := listener.Accept()
		require.NoError(t, err)
		t.Cleanup(func() { _, _ = sender.Close(), receiver.Close() })
		require.NoError(t, sender.(*net.TCPConn).SetWriteBuffer(2<<20))
		require.NoError(t, sender.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
		_, err = sender.Write(make([]byte, 64<<20))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	}
	t.Logf("TCP holds %s", strings.TrimSpace(sh(t, "grep TCP: /proc/net/sockstat")))
}

func spin(d time.Duration) {
	for begun := time.Now(); time.Since(begun) < d; {
		continue // an intentional busy loop
	}
}

// hog runs a loop on every CPU until end is called. With SCHED_FIFO it has priority over other
// programs.
func hog(t *testing.T, policy uint32, loop func()) (end func()) {
	t.Helper()
	quit, done := make(chan struct{}), make(chan error)
	n := runtime.NumCPU()
	for cpu := range n {
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			var set unix.CPUSet
			set.Set(cpu)
			err := unix.SchedSetaffinity(0, &set)
			if err == nil && policy != unix.SCHED_NORMAL {
				err = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy, Priority: 10}, 0)
			}
			for err == nil {
				select {
				case <-quit:
					done <- nil
					return
				default:
					loop()
				}
			}
			done <- fmt.Errorf("on CPU %d: %w", cpu, err)
		}()
	}
	return func() {
		close(quit)
		for range n {
			require.NoError(t, <-done)
		}
	}
}

// TestCleanRunsAreGood: without this, the test above would prove nothing.
func TestCleanRunsAreGood(t *testing.T) {
	clean(t)
	_, err := exec.LookPath("nft")
	require.NoError(t, err, "the tests need nftables to lose packets: make deps")
	out := filepath.Join(t.TempDir(), "run")
	o := mustRun(t, "up", scenario(t, "e2e-clean", "requests: 8", "requests: 24"), "--strict", "--out", out)
	f := summary(t, out).Fidelity
	assert.Equal(t, results.VerdictGood, f.Verdict, o.stdout)
	require.NotNil(t, f.Figures)
	assert.Positive(t, f.Figures.Windows)
	assert.Positive(t, f.Figures.TimerLateMS, "no timer is never late")
	require.Len(t, f.Figures.Calibration.Lone, 2, "tiers 2 and 3")
	for _, l := range f.Figures.Calibration.Lone {
		assert.InDelta(t, 0, l.OffPct, 2)
	}
}
