package nodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Exec runs a command in a node's namespace, with this process's environment
// and the namespace's network. Only the network is the node's: files, processes
// and /sys are the host's, so look at links with ip, not in /sys/class/net.
func (p *Process) Exec(ctx context.Context, s ExecSpec) (int, error) { return Exec(ctx, s) }

// Exec is the Exec of every runtime: a container's node is a network namespace
// like any other, and its image need not contain any command.
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
	if cmd.ProcessState == nil {
		return 0, fmt.Errorf("exec in %s: %w", s.Node, err)
	}
	code := exitCode(cmd.ProcessState)
	if ctx.Err() != nil {
		return code, fmt.Errorf("exec in %s: %w", s.Node, ctx.Err())
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return code, fmt.Errorf("exec in %s: %w", s.Node, err)
	}
	return code, nil
}

func exitCode(s *os.ProcessState) int {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}

// forward passes signals on until stop, which joins it.
func forward(signals <-chan os.Signal, to *os.Process) (stop func()) {
	if signals == nil {
		return func() {}
	}
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
