package kvagent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/netkvlab/netkvlab/kvagent/control"
)

// maxSocketPath is the room for a path in a unix socket address, its closing zero excluded.
const maxSocketPath = 107

// Options are how an agent is started.
type Options struct {
	// Socket is the path of the control socket, at most 107 bytes. Its
	// folder must exist and should be private: a process that can open the socket controls
	// the agent.
	Socket string
	// Node is the agent's name in Hello and in messages. Configure may name another for the trial.
	Node string
	// Version is the program's, for Hello; empty says "unknown".
	Version string
}

func (o *Options) check() error {
	switch {
	case o.Socket == "":
		return errors.New("socket: is empty")
	case len(o.Socket) > maxSocketPath:
		return fmt.Errorf("socket: %q has %d bytes, a unix socket's path at most %d: use a shorter run folder", o.Socket, len(o.Socket), maxSocketPath)
	case o.Node == "":
		return errors.New("node: is empty")
	}
	if o.Version == "" {
		o.Version = "unknown"
	}
	return nil
}

// Serve runs an agent until ctx is done, which is success, or its control
// socket fails. When it returns, every goroutine is joined, every descriptor
// closed and the socket's file gone.
func Serve(ctx context.Context, o Options) error {
	if err := o.check(); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	l, err := listenControl(ctx, o.Socket)
	if err != nil {
		return fmt.Errorf("agent %s: %w", o.Node, err)
	}
	// The sessions end before the server does, so that controllers
	// get the reason.
	life, end := context.WithCancel(ctx)
	defer end()
	s := &service{node: o.Node, version: o.Version, life: life}
	server := grpc.NewServer(
		grpc.WaitForHandlers(true),
		grpc.MaxConcurrentStreams(16),
	)
	control.RegisterAgentServer(server, s)

	failed := make(chan error, 1)
	s.wg.Go(func() { failed <- server.Serve(l) })
	select {
	case <-ctx.Done():
		err = nil
	case err = <-failed:
	}
	end()
	stopServer(server)
	s.close()
	if err != nil {
		return fmt.Errorf("agent %s: control socket: %w", o.Node, err)
	}
	return nil
}

// stopServer lets calls in progress end by themselves for a moment, then ends them.
func stopServer(server *grpc.Server) {
	hurry := time.AfterFunc(500*time.Millisecond, server.Stop)
	defer hurry.Stop()
	server.GracefulStop()
}

// listenControl opens the control socket for this user only. It replaces a socket file on
// which no agent answers: a dead agent left it.
func listenControl(ctx context.Context, path string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if errors.Is(err, syscall.EADDRINUSE) {
		if err := removeStale(ctx, path); err != nil {
			return nil, err
		}
		l, err = lc.Listen(ctx, "unix", path)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for control on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("restrict control socket: %w", err)
	}
	return l, nil
}

func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("control socket: %s exists and is no socket: remove it or choose another path", path)
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		_ = c.Close()
		return fmt.Errorf("control socket: another agent answers on %s", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("control socket: %s is taken and does not answer: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	return nil
}
