package nodes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/renameio/v2"
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
	return &Process{leashRead: r, leashWrite: w}, nil
}

// Name is "process".
func (p *Process) Name() string { return "process" }

// Start starts an agent. Its run directory then holds the socket, the log and a link
// named kvagent to the binary, which gives the process its name.
func (p *Process) Start(ctx context.Context, s Spec) (_ Agent, err error) {
	if err := ctx.Err(); err != nil {
		return Agent{}, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("start agent %s of lab %s: %w", s.Node, s.Lab, err)
		}
	}()
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
	// The start time first: an agent that has ended at once is still there until it is reaped.
	start, errStat := StartTime(cmd.Process.Pid)
	if err = errors.Join(err, errStat, log.Close()); err != nil {
		_ = cmd.Process.Kill() // it may have ended by itself
	}
	go func() { _ = cmd.Wait() }() // reaps the agent; how it ended is in its log
	return Agent{Node: s.Node, PID: cmd.Process.Pid, StartTime: start, Socket: socket}, err
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
	if err := s.MakeDir(); err != nil {
		return "", err
	}
	link := filepath.Join(s.Dir, agentName)
	if err := renameio.Symlink(s.Executable, link); err != nil {
		return "", fmt.Errorf("link to the binary: %w", err)
	}
	return link, nil
}

// environment is an agent's whole environment: nothing of the starter's.
func environment(s Spec) []string {
	env := []string{"PATH=" + defaultPath, "HOME=" + s.Dir, s.GOMAXPROCS(), labEnv + "=" + s.Lab, nodeEnv + "=" + s.Node}
	if s.Leash {
		env = append(env, leashEnv+"="+leashFD)
	}
	return append(env, s.Env...)
}

// LogTail is the end of what an agent has written.
func (p *Process) LogTail(_ context.Context, a Agent) string {
	log, err := os.ReadFile(filepath.Join(filepath.Dir(a.Socket), logName))
	if err != nil {
		return err.Error()
	}
	return Tail(string(log))
}

// inNetns runs f on a thread that is in the network namespace at path, in the
// way a process forked by f starts there. The thread comes back afterwards. If it
// cannot, it ends with its goroutine, so no other work ever runs in the wrong
// namespace. (It does not end each time, because the process's first thread
// cannot end and would stay in the lab.)
func inNetns(path string, f func() error) error {
	var result error
	if err := ns.WithNetNSPath(path, func(ns.NetNS) error { result = f(); return nil }); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", path, err)
	}
	return result
}

// Exec runs a command in a node's namespace to its end and returns its exit code, 128 + n if
// signal n ended it. When ctx ends first the command is terminated and the error is ctx's.
//
// The command has this process's environment and the namespace's network. Only the network is
// the node's: files, processes and /sys are the host's, so look at links with ip, not in
// /sys/class/net. A container's node is a network namespace like any other, and its image need
// not contain any command.
func Exec(ctx context.Context, s ExecSpec) (int, error) {
	if len(s.Command) == 0 || s.Command[0] == "" {
		return 0, fmt.Errorf("exec in %s: no command", s.Node)
	}
	cmd := exec.CommandContext(ctx, s.Command[0], s.Command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.In, s.Out, s.Err
	cmd.Env = append(os.Environ(), labEnv+"="+s.Lab, nodeEnv+"="+s.Node)
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	// Applies after SIGTERM, and to a reader that still blocks when the command has ended.
	cmd.WaitDelay = time.Second
	err := inNetns(s.Netns, cmd.Start)
	if err == nil {
		stop := forward(s.Signals, cmd.Process)
		err = cmd.Wait()
		stop()
	}
	code := 0
	if state := cmd.ProcessState; state != nil {
		code = state.ExitCode()
		if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			code = 128 + int(ws.Signal())
		}
		_, exited := errors.AsType[*exec.ExitError](err)
		if exited || errors.Is(err, exec.ErrWaitDelay) || ctx.Err() != nil {
			err = ctx.Err()
		}
	}
	if err != nil {
		return code, fmt.Errorf("exec in %s: %w", s.Node, err)
	}
	return code, nil
}

// forward passes signals on until stop, which joins it.
func forward(signals <-chan os.Signal, to *os.Process) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case sig, ok := <-signals:
				if !ok {
					return
				}
				_ = to.Signal(sig) // it may have ended in this instant
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}
