package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric/kernel/ktest"
)

const patience = 10 * time.Second

// TestMain doubles as the agent that the tests start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		os.Exit(beAgent())
	}
	goleak.VerifyTestMain(m)
}

// seen is what an agent finds when it starts.
type seen struct {
	Args, Env []string
	Cwd       string
	FDs       map[int]string
	Netns     uint64
	Session   int
	Comm      string
}

// beAgent records what it sees, reports on its socket that it is up, and runs
// until a signal or the end of its starter. With STUBBORN set it ignores SIGTERM.
func beAgent() int {
	if os.Getenv("STUBBORN") != "" {
		signal.Ignore(unix.SIGTERM)
	}
	s := seen{Args: os.Args, Env: os.Environ(), FDs: map[int]string{}, Netns: inode("/proc/self/ns/net")}
	s.Cwd, _ = os.Getwd()
	s.Session, _ = unix.Getsid(0)
	comm, _ := os.ReadFile("/proc/self/comm")
	s.Comm = string(comm)
	dir, _ := os.Open("/proc/self/fd")
	names, _ := dir.Readdirnames(0)
	for _, n := range names {
		fd, _ := strconv.Atoi(n)
		if to, err := os.Readlink("/proc/self/fd/" + n); err == nil && fd != int(dir.Fd()) {
			s.FDs[fd] = to
		}
	}
	b, _ := json.Marshal(s)
	if os.WriteFile("seen.tmp", b, 0o600) != nil || os.Rename("seen.tmp", "seen.json") != nil {
		return 1
	}
	fmt.Println("up")
	if os.Getenv(leashEnv) != "" {
		_, _ = os.NewFile(3, "leash").Read(make([]byte, 1))
		return 0
	}
	select {}
}

func inode(path string) uint64 {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0
	}
	return st.Ino
}

// scratchNetns makes a namespace that exists as long as the test holds it open.
func scratchNetns(t *testing.T) string {
	t.Helper()
	ktest.Need(t, "root", "netns")
	scratch, err := ns.TempNetNS()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, scratch.Close()) })
	return fmt.Sprintf("/proc/self/fd/%d", scratch.Fd())
}

func newProcess(t *testing.T) *Process {
	t.Helper()
	p, err := NewProcess()
	require.NoError(t, err)
	return p
}

func spec(t *testing.T, ns string, env ...string) Spec {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	return Spec{Lab: "lab", Node: "p0", Netns: ns, Dir: filepath.Join(t.TempDir(), "run"), Executable: exe, Args: []string{"agent"}, Env: env}
}

// start brings up an agent and returns what it saw.
func start(t *testing.T, p *Process, s Spec) (Agent, seen) {
	t.Helper()
	a, err := p.Start(t.Context(), s)
	require.NoError(t, err)
	t.Cleanup(func() { stop(t, a) })
	return a, await(t, s.Dir)
}

// stop ends an agent of this process and waits until it is reaped.
func stop(t *testing.T, a Agent) {
	t.Helper()
	require.NoError(t, Terminate(context.Background(), []Proc{{PID: a.PID, StartTime: a.StartTime}}))
	require.Eventually(t, func() bool {
		start, err := StartTime(a.PID)
		return errors.Is(err, fs.ErrNotExist) || err == nil && start != a.StartTime
	}, patience, time.Millisecond, "reaped")
}

func await(t *testing.T, dir string) seen {
	t.Helper()
	var out seen
	require.Eventually(t, func() bool {
		b, err := os.ReadFile(filepath.Join(dir, "seen.json"))
		return err == nil && json.Unmarshal(b, &out) == nil
	}, patience, 2*time.Millisecond, "the agent does not come up")
	return out
}

// hostAddrs is what this process sees of its own network.
func hostAddrs(t *testing.T) string {
	t.Helper()
	a, err := net.InterfaceAddrs()
	require.NoError(t, err)
	return fmt.Sprint(a)
}
