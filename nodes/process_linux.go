package nodes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netns"
)

const (
	agentName  = "kvagent" // the process's name, as pgrep -x finds it
	socketName = "control.sock"
	logName    = "agent.log"
	cleanPath  = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// leashFD is where an agent on a leash finds the pipe that closes with us.
	leashFD = 3
	// stopPatience is how long an agent may take to end by itself.
	stopPatience = time.Second
)

// Process runs agents as processes.
//
// An agent is born in its namespace with a session of its own, a clean
// environment, /dev/null as input, a log file as output, and no other descriptor
// of ours except, on a leash, the read end of a pipe.
type Process struct {
	mu       sync.Mutex
	children map[int]chan struct{} // closed when the child has been reaped
	leash    *os.File              // read end, given to agents
	hold     *os.File              // write end: closes when this process ends
}

var _ Runtime = (*Process)(nil)

// NewProcess returns the process runtime.
func NewProcess() (*Process, error) {
	return &Process{children: map[int]chan struct{}{}}, nil
}

// Name implements Runtime.
func (*Process) Name() string { return "process" }

// Start implements Runtime. The agent's command line is Executable Args --socket
// PATH --node NODE [--leash-fd N]; its socket and log lie in Dir.
func (p *Process) Start(ctx context.Context, s Spec) (Agent, error) {
	if err := ctx.Err(); err != nil {
		return Agent{}, err
	}
	cmd, log, err := p.command(s)
	if err != nil {
		return Agent{}, err
	}
	defer func() { _ = log.Close() }() // the agent has its own
	if err := startIn(s.Netns, cmd); err != nil {
		return Agent{}, fmt.Errorf("start %s in %s: %w", s.Executable, s.Netns, err)
	}
	p.reap(cmd)
	start, err := StartTime(cmd.Process.Pid)
	if err != nil {
		return Agent{}, fmt.Errorf("agent of %s ended at once, see %s: %w", s.Node, filepath.Join(s.Dir, logName), err)
	}
	return Agent{Node: s.Node, PID: cmd.Process.Pid, StartTime: start, Socket: filepath.Join(s.Dir, socketName)}, nil
}

// command prepares the agent's run directory and process.
func (p *Process) command(s Spec) (*exec.Cmd, *os.File, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make the run directory of %s: %w", s.Node, err)
	}
	// The kernel names a process after the file it executes: through a link of
	// this name every agent is called kvagent, whatever the program's file is called.
	link := filepath.Join(s.Dir, agentName)
	if err := os.Symlink(s.Executable, link); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, nil, fmt.Errorf("link the agent of %s: %w", s.Node, err)
	}
	log, err := os.OpenFile(filepath.Join(s.Dir, logName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open the log of %s: %w", s.Node, err)
	}
	args := append(append([]string{agentName}, s.Args...), "--socket", filepath.Join(s.Dir, socketName), "--node", s.Node)
	cmd := &exec.Cmd{
		Path: link, Args: args, Dir: s.Dir, Stdout: log, Stderr: log,
		Env: append([]string{
			cleanPath, "HOME=" + s.Dir, "LANG=C.UTF-8", "GOMAXPROCS=2", labEnv + "=" + s.Lab, nodeEnv + "=" + s.Node,
		}, s.Env...),
		// A session of its own: the terminal's Ctrl-C is for the lab to handle, in order.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if s.Leash {
		end, err := p.leashEnd()
		if err != nil {
			return nil, nil, errors.Join(err, log.Close())
		}
		cmd.ExtraFiles = []*os.File{end}
		cmd.Args = append(cmd.Args, "--leash-fd", strconv.Itoa(leashFD))
	}
	return cmd, log, nil
}

// leashEnd is the read end of a pipe that nobody writes to: it reports its end
// when this process, which alone holds the other end, is gone.
func (p *Process) leashEnd() (*os.File, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leash == nil {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, fmt.Errorf("make the leash: %w", err)
		}
		p.leash, p.hold = r, w
	}
	return p.leash, nil
}

// startIn starts a command whose network namespace is the given one. A child
// inherits the namespace of the thread that forks it; that thread is never
// unlocked, so it dies with its goroutine instead of serving others from there.
func startIn(path string, cmd *exec.Cmd) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		result <- func() error {
			ns, err := netns.GetFromPath(path)
			if err != nil {
				return fmt.Errorf("open network namespace: %w", err)
			}
			defer func() { _ = ns.Close() }() // only read from
			if err := netns.Set(ns); err != nil {
				return fmt.Errorf("enter network namespace: %w", err)
			}
			return cmd.Start()
		}()
	}()
	return <-result
}

// reap waits for a child, so that it does not stay a zombie.
func (p *Process) reap(cmd *exec.Cmd) {
	done := make(chan struct{})
	p.mu.Lock()
	p.children[cmd.Process.Pid] = done
	p.mu.Unlock()
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		p.mu.Lock()
		delete(p.children, cmd.Process.Pid)
		p.mu.Unlock()
		close(done)
	}()
}

// Alive implements Runtime.
func (*Process) Alive(a Agent) (bool, error) {
	stat, err := readStat(a.PID)
	if errors.Is(err, errNoProcess) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return stat.start == a.StartTime && !stat.dead(), nil
}

// Stop implements Runtime: it asks, waits a second, and kills.
func (p *Process) Stop(ctx context.Context, a Agent) error {
	p.mu.Lock()
	done := p.children[a.PID]
	p.mu.Unlock()
	if err := Terminate(ctx, []Proc{{PID: a.PID, StartTime: a.StartTime, Comm: agentName}}); err != nil {
		return fmt.Errorf("stop the agent of %s: %w", a.Node, err)
	}
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Exec implements Runtime. An interrupted context sends SIGTERM and then, after a
// second, SIGKILL.
func (*Process) Exec(ctx context.Context, s ExecSpec) (int, error) {
	if len(s.Command) == 0 {
		return 0, errors.New("exec: no command")
	}
	path, err := exec.LookPath(s.Command[0])
	if err != nil {
		return 0, fmt.Errorf("exec in %s: %w", s.Node, err)
	}
	cmd := exec.CommandContext(ctx, path)
	cmd.Args = s.Command
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.In, s.Out, s.Err
	cmd.Env = append(os.Environ(), labEnv+"="+s.Lab, nodeEnv+"="+s.Node)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopPatience
	if err := startIn(s.Netns, cmd); err != nil {
		return 0, fmt.Errorf("exec in %s: %w", s.Node, err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode(), nil
	case errors.As(err, &exit):
		// The shell's convention for a command that a signal ended.
		return 128 + int(exit.Sys().(syscall.WaitStatus).Signal()), nil
	}
	return 0, fmt.Errorf("exec in %s: %w", s.Node, err)
}
