package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/scenarios"
)

// The exit codes of the command-line contract.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2 // usage or invalid scenario
	exitNotGood     = 3 // ran, but the fidelity verdict is not good under --strict
	exitInterrupted = 130
)

// errNotGood means that a run's verdict does not satisfy --strict.
var errNotGood = errors.New("the fidelity verdict is not good")

// usageError is a mistake in how the command was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exitCode maps an error to an exit code. An interruption comes before the errors that it
// caused.
func exitCode(err error) int {
	status, exited := errors.AsType[exitStatus](err)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, errNotGood):
		return exitNotGood
	case exited:
		return int(status)
	case invalid(err):
		return exitUsage
	}
	return exitFailed
}

// invalid reports a fault in the user's input: the command line, the scenario, or a file of it.
func invalid(err error) bool {
	return errors.As(err, new(usageError)) || errors.As(err, new(*scenarios.Error)) ||
		errors.As(err, new(*workload.InputError)) || errors.As(err, new(trials.InvalidError))
}

// printError prints an error once, with one line per joined error.
func printError(w io.Writer, err error) {
	shown := map[string]bool{}
	for _, e := range flat(err) {
		text := e.Error()
		if errors.As(e, new(exitStatus)) || text == context.Canceled.Error() || unread(e) || shown[text] {
			continue // the command itself has printed its message
		}
		shown[text] = true
		fmt.Fprintln(w, "netkvlab:", text)
	}
}

// unread reports whether the reader of our output has closed it, as head(1) does.
func unread(err error) bool {
	at, ok := errors.AsType[*fs.PathError](err)
	return ok && at.Path == os.Stdout.Name() && errors.Is(at, unix.EPIPE)
}

// flat splits joined errors. It does not split errors that contain others in their text.
func flat(err error) []error {
	var list interface{ Unwrap() []error }
	if !errors.As(err, &list) || err.Error() != errors.Join(list.Unwrap()...).Error() {
		return []error{err}
	}
	var out []error
	for _, e := range list.Unwrap() {
		out = append(out, flat(e)...)
	}
	return out
}
