package nodes

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

func TestAgentIsBornAloneInItsNamespace(t *testing.T) {
	// A descriptor that this process inherited, as from a careless shell.
	stray, err := unix.Dup(1)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(stray)) }()
	ns := scratchNetns(t)
	p := newProcess(t)
	s := spec(t, ns, "EXTRA=1")
	a, saw := start(t, p, s)

	assert.Equal(t, inode(ns), saw.Netns)
	assert.NotEqual(t, inode("/proc/self/ns/net"), saw.Netns)
	assert.Equal(t, []string{"kvagent", "agent", "--socket", a.Socket, "--node", "p0"}, saw.Args)
	assert.Equal(t, "kvagent\n", saw.Comm)
	assert.Equal(t, s.Dir, saw.Cwd)
	assert.Equal(t, a.PID, saw.Session, "a session of its own")
	assert.ElementsMatch(t, []string{
		"PATH=" + defaultPath, "HOME=" + s.Dir, "GOMAXPROCS=2", "NETKVLAB_LAB=lab", "NETKVLAB_NODE=p0", "EXTRA=1",
	}, saw.Env)
	log := filepath.Join(s.Dir, "agent.log")
	for fd, to := range saw.FDs {
		switch {
		case fd == 0:
			assert.Equal(t, "/dev/null", to)
		case fd <= 2:
			assert.Equal(t, log, to)
		default: // what the agent's Go runtime opened itself
			assert.Regexp(t, `^(anon_inode:\[(eventpoll|eventfd|pidfd)\]|/sys/fs/cgroup/.*)$`, to, "descriptor %d", fd)
		}
	}
	info, err := os.Stat(s.Dir)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	assert.Equal(t, "up\n", string(text))
	assert.Positive(t, a.StartTime)
}

func TestStopEndsExactlyTheAgent(t *testing.T) {
	ns := scratchNetns(t)
	p := newProcess(t)
	for _, tc := range []struct {
		name     string
		env      []string
		min, max time.Duration
	}{
		{"one that listens to SIGTERM", nil, 0, termGrace},
		{"one that does not", []string{"STUBBORN=1"}, termGrace, 3 * time.Second},
	} {
		a, _ := start(t, p, spec(t, ns, tc.env...))
		alive, err := Alive(a)
		require.NoError(t, err)
		assert.True(t, alive, tc.name)

		other := a
		other.StartTime++ // as if the number had been taken over by another process
		alive, err = Alive(other)
		require.NoError(t, err)
		assert.False(t, alive, tc.name)
		require.NoError(t, Terminate(t.Context(), []Proc{{PID: other.PID, StartTime: other.StartTime}}))
		alive, err = Alive(a)
		require.NoError(t, err)
		assert.True(t, alive, "stopping another agent of the same number does nothing")

		begun := time.Now()
		stop(t, a)
		assert.GreaterOrEqual(t, time.Since(begun), tc.min, tc.name)
		assert.Less(t, time.Since(begun), tc.max, tc.name)
		_, err = StartTime(a.PID)
		require.ErrorIs(t, err, fs.ErrNotExist, "reaped")
		alive, err = Alive(a)
		require.NoError(t, err)
		assert.False(t, alive, tc.name)
		stop(t, a) // stopping twice is no error
	}
}

func TestLeashedAgentEndsWithItsStarter(t *testing.T) {
	ns := scratchNetns(t)
	p := newProcess(t)
	s := spec(t, ns)
	s.Leash = true
	a, saw := start(t, p, s)
	assert.Regexp(t, `^pipe:`, saw.FDs[3])
	assert.Contains(t, saw.Env, leashEnv+"=3")
	require.NoError(t, p.leashWrite.Close()) // as the kernel does when the starter dies
	assert.Eventually(t, func() bool {
		alive, err := Alive(a)
		return err == nil && !alive
	}, patience, time.Millisecond)
}

func TestManyAgentsComeUpQuickly(t *testing.T) {
	p := newProcess(t)
	var specs []Spec
	for i := range 16 {
		s := spec(t, scratchNetns(t))
		s.Node = fmt.Sprintf("p%d", i)
		specs = append(specs, s)
	}
	before := hostAddrs(t)
	begun := time.Now()
	var g errgroup.Group
	g.SetLimit(4)
	agents := make([]Agent, len(specs))
	for i, s := range specs {
		g.Go(func() (err error) {
			agents[i], err = p.Start(t.Context(), s)
			return err
		})
	}
	require.NoError(t, g.Wait())
	spawned := time.Since(begun)
	inodes := map[uint64]bool{}
	for _, s := range specs {
		await(t, s.Dir)
		inodes[inode(s.Netns)] = true
	}
	t.Logf("16 agents: started in %v, up in %v", spawned, time.Since(begun))

	found, err := inNamespaces(inodes)
	require.NoError(t, err)
	require.Len(t, found, 16)
	for _, f := range found {
		assert.Equal(t, "kvagent", f.Comm)
		assert.Equal(t, "lab", f.Lab)
	}
	require.NoError(t, Terminate(t.Context(), found))
	found, err = inNamespaces(inodes)
	require.NoError(t, err)
	assert.Empty(t, found)
	for _, a := range agents {
		stop(t, a)
	}
	assert.Equal(t, before, hostAddrs(t))
	threads, err := filepath.Glob("/proc/self/task/*/ns/net")
	require.NoError(t, err)
	require.NotEmpty(t, threads)
	for _, th := range threads {
		assert.Equal(t, inode("/proc/self/ns/net"), inode(th), "no thread stays behind in a node")
	}
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	ns := scratchNetns(t)
	p := newProcess(t)
	for _, tc := range []struct {
		name, want string
		edit       func(*Spec)
	}{
		{"no such namespace", "enter network namespace /run/netns/no-such-namespace", func(s *Spec) { s.Netns = "/run/netns/no-such-namespace" }},
		{"a file that is no namespace", "enter network namespace /dev/null", func(s *Spec) { s.Netns = "/dev/null" }},
		{"no such binary", "no such file or directory", func(s *Spec) { s.Executable = "/nonexistent" }},
		{"a relative folder", `Dir: "x" is not an absolute path`, func(s *Spec) { s.Dir = "x" }},
		{"no name", `Node: "" cannot be a name`, func(s *Spec) { s.Node = "" }},
	} {
		s := spec(t, ns)
		tc.edit(&s)
		_, err := p.Start(t.Context(), s)
		assert.ErrorContains(t, err, tc.want, tc.name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.Start(ctx, spec(t, ns))
	assert.ErrorIs(t, err, context.Canceled)
}

func TestExecRunsInTheNodesNamespace(t *testing.T) {
	ns := scratchNetns(t)
	run := func(ctx context.Context, in string, cmd ...string) (int, string, error) {
		var out bytes.Buffer
		code, err := Exec(ctx, ExecSpec{Lab: "lab", Node: "p0", Netns: ns, Command: cmd, In: strings.NewReader(in), Out: &out, Err: &out})
		return code, out.String(), err
	}
	for _, tc := range []struct {
		name, in, out string
		cmd           []string
		code          int
	}{
		{"standard input and output", "hello", "hello", []string{"cat"}, 0},
		{"an exit code", "", "", []string{"sh", "-c", "exit 7"}, 7},
		{"a signal", "", "", []string{"sh", "-c", "kill -9 $$"}, 128 + 9},
		{"its environment", "", "lab p0\n", []string{"sh", "-c", "echo $NETKVLAB_LAB $NETKVLAB_NODE"}, 0},
		{"its namespace", "", fmt.Sprintf("net:[%d]\n", inode(ns)), []string{"readlink", "/proc/self/ns/net"}, 0},
	} {
		code, out, err := run(t.Context(), tc.in, tc.cmd...)
		require.NoError(t, err, tc.name)
		assert.Equal(t, tc.code, code, tc.name)
		assert.Equal(t, tc.out, out, tc.name)
	}
	_, _, err := run(t.Context(), "", "no-such-command-at-all")
	assert.ErrorIs(t, err, exec.ErrNotFound)
	_, _, err = run(t.Context(), "")
	assert.ErrorContains(t, err, "no command")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	code, _, err := run(ctx, "", "sleep", "100")
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, 128+15, code, "terminated, not killed")
}

func TestExecPassesSignalsOn(t *testing.T) {
	ns := scratchNetns(t)
	signals := make(chan os.Signal, 1)
	out := &signalOnWrite{ch: signals, sig: unix.SIGUSR1}
	code, err := Exec(t.Context(), ExecSpec{
		Lab: "lab", Node: "p0", Netns: ns, Out: out, Signals: signals,
		Command: []string{"sh", "-c", `trap "exit 42" USR1; echo ready; while :; do sleep 0.01; done`},
	})
	require.NoError(t, err)
	assert.Equal(t, 42, code)
}

// signalOnWrite sends a signal when the command has written something.
type signalOnWrite struct {
	ch  chan<- os.Signal
	sig os.Signal
}

func (s *signalOnWrite) Write(b []byte) (int, error) {
	s.ch <- s.sig
	return len(b), nil
}

func TestFindAndTerminateAreExact(t *testing.T) {
	ns := scratchNetns(t)
	p := newProcess(t)
	a, _ := start(t, p, spec(t, ns))
	mine, err := StartTime(os.Getpid())
	require.NoError(t, err)
	assert.Positive(t, mine)
	_, err = StartTime(1 << 30)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, Terminate(t.Context(), []Proc{
		{PID: os.Getpid(), StartTime: mine + 1}, // another process with our number: not us
		{PID: a.PID, StartTime: a.StartTime - 1},
		{PID: 1 << 30},
	}))
	found, err := inNamespaces(map[uint64]bool{inode(ns): true})
	require.NoError(t, err)
	require.Len(t, found, 1)
	assert.Equal(t, Proc{PID: a.PID, StartTime: a.StartTime, Comm: "kvagent", Lab: "lab", Netns: inode(ns), Agent: true}, found[0])
	agents, err := OfLab("lab", nil)
	require.NoError(t, err)
	assert.Contains(t, agents, found[0], "by what it is, whatever its namespace is called")
	agents, err = OfLab("la", nil)
	require.NoError(t, err)
	assert.NotContains(t, agents, found[0], "of that lab only")
	none, err := inNamespaces(nil)
	require.NoError(t, err)
	assert.Empty(t, none)
	own, err := inNamespaces(map[uint64]bool{inode("/proc/self/ns/net"): true})
	require.NoError(t, err)
	assert.Contains(t, pids(own), os.Getpid())
}

// inNamespaces finds every process in these namespaces, whoever started it.
func inNamespaces(inodes map[uint64]bool) ([]Proc, error) {
	return find(func(_ int, inode uint64) bool { return inodes[inode] })
}

func pids(ps []Proc) (out []int) {
	for _, p := range ps {
		out = append(out, p.PID)
	}
	return out
}

func TestLineageLeadsFromThisProcessToTheFirst(t *testing.T) {
	t.Parallel()
	all := lineage()
	assert.True(t, all[os.Getpid()])
	assert.True(t, all[os.Getppid()])
	assert.True(t, all[1])
	assert.False(t, all[0])
	assert.NotEmpty(t, NameOf(os.Getpid()))
	assert.Empty(t, NameOf(1<<30))
}

func TestAskKillsNobody(t *testing.T) {
	ns := scratchNetns(t)
	p := newProcess(t)
	polite, _ := start(t, p, spec(t, ns))
	stubborn, _ := start(t, p, spec(t, ns, "STUBBORN=1"))
	require.NoError(t, Ask(t.Context(), []Proc{{PID: polite.PID, StartTime: polite.StartTime}, {PID: stubborn.PID, StartTime: stubborn.StartTime}}))
	for a, want := range map[Agent]bool{polite: false, stubborn: true} {
		alive, err := Alive(a)
		require.NoError(t, err)
		assert.Equal(t, want, alive)
	}
}

func TestOnlyTheLabsOwnProcessesAreEnded(t *testing.T) {
	t.Parallel()
	const lab, here, p0, d0 = "lab", 1, 10, 11
	for _, tt := range []struct {
		name string
		proc Proc
		here uint64 // where `down` runs
		want bool
	}{
		{"an agent", Proc{PID: 5, Lab: lab, Netns: p0, Agent: true}, here, true},
		{"a command of exec", Proc{PID: 5, Lab: lab, Netns: p0}, here, true},
		{"a shell that nsenter started", Proc{PID: 5, Netns: p0}, here, false},
		{"a command of another lab's exec", Proc{PID: 5, Lab: "other", Netns: p0}, here, false},
		{"somebody's program of the agent's name", Proc{PID: 5, Netns: p0, Agent: true}, here, false},
		{"the shell of exec that asks", Proc{PID: 2, Lab: lab, Netns: d0}, d0, false},
		{"a shell of exec in which that one was started", Proc{PID: 3, Lab: lab, Netns: p0}, d0, false},
		{"what its answer is piped into", Proc{PID: 6, Lab: lab, Netns: d0}, d0, false},
		{"the agent beside who asks", Proc{PID: 5, Lab: lab, Netns: d0, Agent: true}, d0, true},
		{"a command of exec elsewhere", Proc{PID: 5, Lab: lab, Netns: p0}, d0, true},
	} {
		got := pick([]Proc{tt.proc}, lab, map[int]bool{1: true, 2: true, 3: true}, tt.here)
		assert.Equal(t, tt.want, len(got) == 1, tt.name)
	}
}
