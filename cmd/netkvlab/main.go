// Command netkvlab builds an emulated datacenter network on this host, moves KV caches through
// it under competing scheduling policies, and measures each policy's time to first token. Under
// the name kvagent the same static binary is the agent that runs on every emulated instance.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/kvagent"
)

// version is set by the build (-ldflags -X main.version=...).
var version = "devel"

func main() {
	if args, ok := agentArgs(os.Args); ok {
		os.Exit(agentMain(args))
	}
	// If the reader of our output goes away, SIGPIPE must not end us with a partly built lab. With
	// a handler only the write fails. Commands that we start get the default back.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	ctx, stop := interruptible(os.Stderr)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// agentCommand is this program's name, or its first argument, when it is an agent.
const agentCommand = "kvagent"

// agentArgs returns the agent's arguments if the program was started as an agent.
func agentArgs(argv []string) ([]string, bool) {
	named := len(argv) > 0 && filepath.Base(argv[0]) == agentCommand
	rest := argv[min(1, len(argv)):]
	if len(rest) > 0 && rest[0] == agentCommand {
		return rest[1:], true
	}
	return rest, named
}

func agentMain(args []string) int {
	ctx, err := leashedByFile(context.Background(), os.Getenv(leashFileEnv))
	if err == nil {
		err = kvagent.Main(ctx, args, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kvagent:", err)
		return exitFailed
	}
	return exitOK
}

// leashFileEnv names a file that the process that started an agent keeps locked until it ends.
const leashFileEnv = "NETKVLAB_LEASH_FILE"

// leashedByFile returns a context that ends when the lock on a file is released. An agent in a
// container inherits no descriptor that would show the end of the process that started it. The
// goroutine lives as long as the process, since its wait cannot be cancelled.
func leashedByFile(ctx context.Context, path string) (context.Context, error) {
	if path == "" {
		return ctx, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("leash: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		for errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH), unix.EINTR) {
		}
		_ = f.Close()
	}()
	return ctx, nil
}

// oneRequest is the time within which several interruptions count as one: timeout(1) signals the
// process and then its group. A user cannot press Ctrl-C twice as fast.
const oneRequest = 250 * time.Millisecond

// notify forwards signals to a channel. Signals that were already ignored when this process
// started, as under nohup or in a script's background job, stay ignored. (This does not work for
// SIGTERM: Go installs its handler first.)
func notify(c chan<- os.Signal, signals ...os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}

// interruptible returns a context that the first interruption ends, so that the command cleans
// up. A second interruption ends the process at once.
func interruptible(stderr io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, ok := <-signals; !ok {
			return
		}
		fmt.Fprintln(stderr, "\nnetkvlab: interrupted; cleaning up (again to stop at once)")
		cancel()
		first := time.Now()
		for range signals {
			if time.Since(first) < oneRequest {
				continue
			}
			fmt.Fprintln(stderr, "netkvlab: stopped at once; remove what is left with `netkvlab down --all`")
			os.Exit(exitInterrupted)
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		<-done
		cancel()
	}
}
