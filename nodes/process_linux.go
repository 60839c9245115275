package nodes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	agentName   = "kvagent"      // the process's name, as pgrep -x finds it
	socketName  = "control.sock" // in Spec.Dir
	logName     = "agent.log"    // in Spec.Dir: what the agent writes to stdout and stderr
	leashEnv    = "NETKVLAB_LEASH_FD"
	leashFD     = "3"
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Process runs agents as processes of this host. Each starts in its node's
// namespace, in its own session, with a clean environment. It is safe for
// concurrent use. Make it with NewProcess.
type Process struct {
	// leashRead goes to agents with Spec.Leash; leashWrite remains here, unused, until this
	// process ends.
	leashRead, leashWrite *os.File

	mu       sync.Mutex
	children map[int]chan struct{} // closed once the child is reaped
}

var _ Runtime = (*Process)(nil)

// NewProcess returns the process runtime. It marks all descriptors of this process
// beyond the standard three close-on-exec, also those that it was itself started with.
// So no agent keeps a descriptor of its starter open.
func NewProcess() (*Process, error) {
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, fmt.Errorf("process runtime: mark descriptors close-on-exec (needs Linux 5.11): %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("process runtime: make the leash: %w", err)
	}
	return &Process{leashRead: r, leashWrite: w, children: map[int]chan struct{}{}}, nil
}

// Name is "process".
func (p *Process) Name() string { return "process" }

// Start starts an agent. Its run directory then holds the socket, the log and a link
// named kvagent to the binary, which gives the process its name.
func (p *Process) Start(ctx context.Context, s Spec) (Agent, error) {
	if err := ctx.Err(); err != nil {
		return Agent{}, err
	}
	a, err := p.start(s)
	if err != nil {
		return Agent{}, fmt.Errorf("start agent %s of lab %s: %w", s.Node, s.Lab, err)
	}
	return a, nil
}

func (p *Process) start(s Spec) (Agent, error) {
	link, err := prepareDir(s)
	if err != nil {
		return Agent{}, err
	}
	log, err := os.OpenFile(filepath.Join(s.Dir, logName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return Agent{}, fmt.Errorf("open log: %w", err)
	}
	socket := filepath.Join(s.Dir, socketName)
	cmd := &exec.Cmd{
		Path: link,
		Args: slices.Concat([]string{agentName}, s.Args, []string{"--socket", socket, "--node", s.Node}),
		Env:  environment(s), Dir: s.Dir,
		Stdout: log, Stderr: log, // stdin is /dev/null
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if s.Leash {
		cmd.ExtraFiles = []*os.File{p.leashRead}
	}
	err = inNetns(s.Netns, cmd.Start)
	if cmd.Process == nil {
		return Agent{}, errors.Join(err, log.Close())
	}
	a := Agent{Node: s.Node, PID: cmd.Process.Pid, Socket: socket}
	// Before any code may reap it: then the entry exists even if the child died at once.
	start, errStat := StartTime(a.PID)
	a.StartTime = start
	p.adopt(cmd)
	if err = errors.Join(err, errStat, log.Close()); err != nil {
		return a, errors.Join(err, p.Stop(context.Background(), a))
	}
	return a, nil
}

// adopt reaps a child when it ends. The goroutine lives as long as the child.
func (p *Process) adopt(cmd *exec.Cmd) {
	reaped := make(chan struct{})
	p.mu.Lock()
	p.children[cmd.Process.Pid] = reaped
	p.mu.Unlock()
	go func() {
		_ = cmd.Wait() // how an agent ended is in its log
		p.mu.Lock()
		if p.children[cmd.Process.Pid] == reaped {
			delete(p.children, cmd.Process.Pid)
		}
		p.mu.Unlock()
		close(reaped)
	}()
}

// prepareDir makes the run directory private and returns the link to run.
func prepareDir(s Spec) (string, error) {
	for _, f := range []struct{ name, value string }{{"Lab", s.Lab}, {"Node", s.Node}} {
		if f.value == "" || strings.ContainsAny(f.value, "/\x00\n") {
			return "", fmt.Errorf("%s: %q cannot be a name", f.name, f.value)
		}
	}
	for _, f := range []struct{ name, value string }{{"Dir", s.Dir}, {"Executable", s.Executable}, {"Netns", s.Netns}} {
		if !filepath.IsAbs(f.value) {
			return "", fmt.Errorf("%s: %q is not an absolute path", f.name, f.value)
		}
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return "", fmt.Errorf("make run directory: %w", err)
	}
	if err := os.Chmod(s.Dir, 0o700); err != nil {
		return "", fmt.Errorf("make run directory private: %w", err)
	}
	link := filepath.Join(s.Dir, agentName)
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("replace link to the binary: %w", err)
	}
	if err := os.Symlink(s.Executable, link); err != nil {
		return "", fmt.Errorf("link to the binary: %w", err)
	}
	return link, nil
}

// environment is an agent's whole environment: nothing of the starter's.
func environment(s Spec) []string {
	env := []string{
		"PATH=" + defaultPath,
		"HOME=" + s.Dir,
		s.GOMAXPROCS(),
		labEnv + "=" + s.Lab,
		nodeEnv + "=" + s.Node,
	}
	if s.Leash {
		env = append(env, leashEnv+"="+leashFD)
	}
	return append(env, s.Env...)
}

// Alive reports whether that very agent still runs.
func (p *Process) Alive(a Agent) (bool, error) { return Alive(a) }

// Alive is the Alive of every runtime. It asks the kernel, which knows a
// container's first process like any other, at once and without an engine.
func Alive(a Agent) (bool, error) {
	s, err := readStat(a.PID)
	if vanished(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("agent %s: %w", a.Node, err)
	}
	return s.Starttime == a.StartTime && !ended(s), nil
}

// Stop ends an agent: SIGTERM, after two seconds SIGKILL. It returns when the process
// is gone and, if it is this process's child, reaped.
func (p *Process) Stop(ctx context.Context, a Agent) error {
	if err := Terminate(ctx, []Proc{{PID: a.PID, StartTime: a.StartTime, Comm: agentName}}); err != nil {
		return fmt.Errorf("stop agent %s: %w", a.Node, err)
	}
	p.mu.Lock()
	reaped := p.children[a.PID]
	p.mu.Unlock()
	if reaped == nil {
		return nil
	}
	// A child with this number and another start time is another agent.
	if s, err := readStat(a.PID); err == nil && s.Starttime != a.StartTime {
		return nil
	}
	select {
	case <-reaped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop agent %s: %w", a.Node, ctx.Err())
	}
}
