package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/scenarios"
)

func TestExitCodesTellWhoCanMendIt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
		want int
	}{
		{"nothing", nil, 0},
		{"the host", errors.New("out of memory"), 1},
		{"the command line", usagef("no"), 2},
		{"the scenario", fmt.Errorf("x: %w", &scenarios.Error{Msg: "no"}), 2},
		{"one fault of several", errors.Join(errors.New("a"), &scenarios.Error{Msg: "no"}), 2},
		{"the trace", &workload.InputError{File: "t.jsonl", Line: 3, Err: fs.ErrInvalid}, 2},
		{"a plan that cannot be", trials.InvalidError{}, 2},
		{"the verdict", fmt.Errorf("%w: degraded", errNotGood), 3},
		{"a command of exec", exitStatus(7), 7},
		{"an interruption, whatever it broke", errors.Join(usagef("no"), context.Canceled), 130},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, exitCode(tt.err))
		})
	}
}

func TestErrorsAreSaidOnceEach(t *testing.T) {
	t.Parallel()
	a, b := errors.New("a"), errors.New("b")
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"one", a, "netkvlab: a\n"},
		{"joined", errors.Join(a, errors.Join(b, a)), "netkvlab: a\nnetkvlab: b\n"},
		{"wrapped whole", fmt.Errorf("x: %w, %w", a, b), "netkvlab: x: a, b\n"},
		{"exit status of a command", exitStatus(3), ""},
		{"interruption alone", context.Canceled, ""},
		{"a reader that has enough", fmt.Errorf("print: %w", &fs.PathError{Op: "write", Path: "/dev/stdout", Err: unix.EPIPE}), ""},
		{"any other pipe", &fs.PathError{Op: "write", Path: "x", Err: unix.EPIPE}, "netkvlab: write x: broken pipe\n"},
		{"interruption with its consequences", errors.Join(fmt.Errorf("c: %w", context.Canceled), context.Canceled), "netkvlab: c: context canceled\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			printError(&out, tt.err)
			assert.Equal(t, tt.want, out.String())
		})
	}
}
