package kvagent

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"syscall"
)

// LeashEnv names the environment variable that carries the number of the leash
// descriptor: the read end of a pipe whose write end the starter keeps. When
// the starter dies, the pipe closes and the agent exits.
const LeashEnv = "NETKVLAB_LEASH_FD"

// ErrUsage marks errors of the command line.
var ErrUsage = errors.New("usage: netkvlab kvagent --socket PATH --node NAME [--leash-fd N]")

// Main runs an agent as a process: args are those after the command's name,
// usage and flag errors go to stderr. It returns nil after SIGTERM, SIGINT, the
// end of ctx or of the leash; flag.ErrHelp after --help; an error that
// matches ErrUsage for a wrong command line.
func Main(ctx context.Context, args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("kvagent", flag.ContinueOnError)
	flags.SetOutput(stderr)
	socket := flags.String("socket", "", "path of the control socket")
	node := flags.String("node", "", "name of the node")
	leash := flags.String("leash-fd", os.Getenv(LeashEnv), "descriptor of a pipe; the agent exits when it closes")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	switch {
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
		var err error
		if ctx, err = leashed(ctx, *leash); err != nil {
			return err
		}
	}
	return Serve(ctx, Options{Socket: *socket, Node: *node, Version: buildVersion()})
}

// leashed returns a context that ends when the pipe does. The reading goroutine
// lives as long as the process: only the starter's end ends the read.
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

func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return ""
}
