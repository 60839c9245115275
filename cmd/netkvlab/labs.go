package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/netkvlab/netkvlab/internal/experiment"
	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/nodes"
	"github.com/netkvlab/netkvlab/nodes/docker"
	"github.com/netkvlab/netkvlab/scenarios"
)

// labs makes the options for work on this host's labs.
type labs struct {
	store       lab.Store
	calibration string    // folder of the host's calibration
	stderr      io.Writer // for progress
}

// options are the options for new labs, and for all labs of the host.
func (l *labs) options(runtime string, leash bool) (lab.Options, error) {
	return l.with(docker.NewEngine(os.Getenv), runtime, leash)
}

// standing are the options for using an existing lab, with the runtime and the engine that it
// was made with.
func (l *labs) standing(name string) (lab.Options, error) {
	engine, runtime := docker.NewEngine(os.Getenv), ""
	if host := l.store.Engine(name); host != "" {
		engine = docker.EngineAt(host)
	}
	if st, err := l.store.Load(name); err == nil { // otherwise lab.Attach reports the error
		runtime = st.Runtime
	}
	return l.with(engine, runtime, false)
}

func (l *labs) with(engine *docker.Engine, runtime string, leash bool) (lab.Options, error) {
	if err := lab.NeedRoot(); err != nil {
		return lab.Options{}, err
	}
	rt, err := newRuntime(runtime, engine)
	if err != nil {
		return lab.Options{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return lab.Options{}, fmt.Errorf("find this program's own file: %w", err)
	}
	return lab.Options{
		Store: l.store, Runtime: rt, Progress: lab.NewProgress(l.stderr), Version: version, Executable: self, Leash: leash,
		Containers: engine,
	}, nil
}

func newRuntime(name string, engine *docker.Engine) (nodes.Runtime, error) {
	switch name {
	case "", scenarios.RuntimeProcess:
		return nodes.NewProcess()
	case scenarios.RuntimeDocker:
		return docker.New(engine, version), nil
	}
	return nil, usagef("runtime: must be process or docker, got %q", name)
}

// command is a command's work with the options for all labs of the host.
func (l *labs) command(work func(ctx context.Context, args []string, opt lab.Options) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		opt, err := l.options("", false)
		if err != nil {
			return err
		}
		return work(cmd.Context(), args, opt)
	}
}

// carries returns what this host carries, by its calibration or by cautious constants. It
// reports to progress why it uses the constants.
func (l *labs) carries(progress *lab.Progress) host.Capacity {
	c, why := host.Carries(l.calibration, host.Proc, time.Now())
	if why != nil {
		progress.Note("%v", why)
	}
	return c
}

// fabrics returns the Fabrics of a command for its --parallel flag.
func (l *labs) fabrics(parallel string, opt lab.Options) *experiment.Fabrics {
	n, _ := strconv.Atoi(parallel) // auto: 0
	return &experiment.Fabrics{Lab: opt, Parallel: n, Carries: sync.OnceValue(func() host.Capacity { return l.carries(opt.Progress) })}
}

// parallelAuto lets the host decide how many fabrics run side by side.
const parallelAuto = "auto"

// checkParallel refuses an invalid number of fabrics.
func checkParallel(parallel string) error {
	if n, err := strconv.Atoi(parallel); parallel != parallelAuto && (err != nil || n < 1) {
		return usagef("--parallel: must be %s or 1 and more, got %q", parallelAuto, parallel)
	}
	return nil
}
