package kvagent

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/netkvlab/netkvlab/kvagent/control"
)

// LeashEnv names the environment variable that carries the number of the leash descriptor: the read end of a pipe
// whose write end the starter keeps. When the starter dies, the pipe closes and the agent exits.
const LeashEnv = "NETKVLAB_LEASH_FD"

// ErrUsage marks errors of the command line.
var ErrUsage = errors.New("usage: netkvlab kvagent --socket PATH --node NAME [--leash-fd N]")

// Main runs an agent as a process: args are those after the command's name, usage and flag errors go to stderr. It
// returns nil after SIGTERM, SIGINT, the end of ctx or of the leash; flag.ErrHelp after --help; an error that
// matches ErrUsage for a wrong command line.
func Main(ctx context.Context, args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("kvagent", flag.ContinueOnError)
	flags.SetOutput(stderr)
	socket := flags.String("socket", "", "path of the control socket")
	node := flags.String("node", "", "name of the node")
	leash := flags.String("leash-fd", os.Getenv(LeashEnv), "descriptor of a pipe; the agent exits when it closes")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUsage, err)
	case flags.NArg() > 0:
		return fmt.Errorf("%w: unexpected argument %q", ErrUsage, flags.Arg(0))
	case *socket == "" || *node == "":
		return fmt.Errorf("%w: --socket and --node are needed", ErrUsage)
	}
	signals := []os.Signal{syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGINT) { // as of a script's background job
		signals = append(signals, syscall.SIGINT)
	}
	ctx, stop := signal.NotifyContext(ctx, signals...)
	defer stop()
	if *leash != "" {
		if ctx, err = leashed(ctx, *leash); err != nil {
			return err
		}
	}
	o := Options{Socket: *socket, Node: *node}
	if info, ok := debug.ReadBuildInfo(); ok {
		o.Version = info.Main.Version
	}
	return Serve(ctx, o)
}

// leashed returns a context that ends when the pipe does. Only the starter's end ends the goroutine that reads.
func leashed(ctx context.Context, fd string) (context.Context, error) {
	n, err := strconv.ParseUint(fd, 10, 16)
	if err != nil || n < 3 {
		return nil, fmt.Errorf("%w: --leash-fd %q is not a descriptor above 2", ErrUsage, fd)
	}
	syscall.CloseOnExec(int(n))
	pipe := os.NewFile(uintptr(n), "leash")
	if _, err := pipe.Stat(); err != nil {
		return nil, fmt.Errorf("leash: descriptor %d: %w", n, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, pipe) // an error means the end, too
		_ = pipe.Close()
		cancel()
	}()
	return ctx, nil
}

// maxSocketPath is the room for a path in a unix socket address, its closing zero excluded.
const maxSocketPath = 107

// Options are how an agent is started.
type Options struct {
	// Socket is the path of the control socket, at most 107 bytes. Its folder must exist and should be private: a
	// process that can open the socket controls the agent.
	Socket  string
	Node    string // the agent's name in Hello and in messages
	Version string // the program's, for Hello; empty says "unknown"
}

// Serve runs an agent until ctx is done, which is success, or its control socket fails. When it returns, every
// goroutine is joined, every descriptor closed and the socket's file gone.
func Serve(ctx context.Context, o Options) error {
	switch {
	case o.Socket == "":
		return errors.New("agent: socket: is empty")
	case len(o.Socket) > maxSocketPath:
		return fmt.Errorf("agent: socket: %q has %d bytes, a unix socket's path at most %d: use a shorter run folder",
			o.Socket, len(o.Socket), maxSocketPath)
	case o.Node == "":
		return errors.New("agent: node: is empty")
	}
	l, err := listenControl(ctx, o.Socket)
	if err != nil {
		return fmt.Errorf("agent %s: %w", o.Node, err)
	}
	// The sessions end before the server does, so that controllers get the reason.
	life, end := context.WithCancel(ctx)
	defer end()
	s := &service{node: o.Node, version: cmp.Or(o.Version, "unknown"), life: life}
	server := grpc.NewServer(grpc.WaitForHandlers(true), grpc.MaxConcurrentStreams(16))
	control.RegisterAgentServer(server, s)

	failed := make(chan error, 1)
	s.wg.Go(func() { failed <- server.Serve(l) })
	select {
	case <-ctx.Done():
		err = nil
	case err = <-failed:
	}
	end()
	// Calls in progress may end by themselves for a moment.
	defer time.AfterFunc(500*time.Millisecond, server.Stop).Stop()
	server.GracefulStop()
	s.close()
	if err != nil {
		return fmt.Errorf("agent %s: control socket: %w", o.Node, err)
	}
	return nil
}

// listenControl opens the control socket for this user only. It replaces a socket file that a dead agent left.
func listenControl(ctx context.Context, path string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if errors.Is(err, syscall.EADDRINUSE) {
		if err := removeStale(ctx, path); err != nil {
			return nil, fmt.Errorf("control socket: %w", err)
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
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is no socket: remove it or choose another path", path)
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = c.Close()
		return fmt.Errorf("another agent answers on %s", path)
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s is taken and does not answer: %w", path, err)
	}
	return os.Remove(path)
}
