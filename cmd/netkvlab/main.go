// Command netkvlab builds an emulated datacenter network on this host, moves KV
// caches through it under competing scheduling policies, and says what each
// policy's time to first token is. It is also, under the name kvagent, the agent
// that runs on every emulated instance: one static binary does both.
package main

import (
	"context"
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
	// A reader that goes away must not end us where we stand, with a lab half built:
	// taken as a signal, it makes the write fail and nothing else. Commands that are
	// started get the default back.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	ctx, stop := interruptible(os.Stderr)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// agentCommand is this program's name, or its first argument, when it is an agent.
const agentCommand = "kvagent"

// agentArgs gives the agent's arguments if that is what the program was started as.
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
	if err != nil {
		fmt.Fprintln(os.Stderr, "kvagent:", err)
		return exitFailed
	}
	if err := kvagent.Main(ctx, args, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "kvagent:", err)
		return exitFailed
	}
	return exitOK
}

// oneRequest is how long interruptions are taken for one: timeout(1) signals the process
// and then its group, and nobody who is impatient is as quick.
const oneRequest = 250 * time.Millisecond

// notify passes signals on to a channel, but for those that this process was started to
// ignore, as under nohup or as a script's background job: they stay ignored. (SIGTERM
// cannot be: Go takes it before anybody can ask.)
func notify(c chan<- os.Signal, signals ...os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}

// interruptible gives a context that the first interruption ends, so that the
// command cleans up, and a second one ends the process at once.
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
