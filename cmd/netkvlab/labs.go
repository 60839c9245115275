package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

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

func (l *labs) with(engine *docker.Engine, runtime string, leash bool) (opt lab.Options, err error) {
	if err := lab.NeedRoot(); err != nil {
		return opt, err
	}
	self, err := os.Executable()
	if err != nil {
		return opt, fmt.Errorf("find this program's own file: %w", err)
	}
	opt = lab.Options{Store: l.store, Engine: engine, Progress: lab.NewProgress(l.stderr), Version: version, Executable: self, Leash: leash}
	switch runtime {
	case "", scenarios.RuntimeProcess:
		opt.Runtime, err = nodes.NewProcess()
	case scenarios.RuntimeDocker:
		opt.Runtime = docker.New(engine, version)
	default:
		err = usagef("runtime: must be process or docker, got %q", runtime)
	}
	return opt, err
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

func psCommand(p *printer, l *labs) *cobra.Command {
	return &cobra.Command{
		Use:   "ps [LAB]",
		Short: "List the labs on this host, or the agents of one",
		Long: `Lists the labs on this host with what their agents use, or the agents of one lab.
Memory is resident, CPU time since the agent began; of a container it is the first process's.`,
		Args: cobra.MaximumNArgs(1),
		RunE: l.command(func(ctx context.Context, args []string, opt lab.Options) error {
			if len(args) == 1 {
				info, err := lab.Look(ctx, args[0], opt)
				if err != nil {
					return err
				}
				return show(p, info, agentTable)
			}
			infos, err := lab.List(ctx, opt)
			if err != nil {
				return err
			}
			return show(p, infos, labTable)
		}),
	}
}

func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 8, 2, ' ', 0) }

func labTable(out io.Writer, infos []lab.Info) error {
	w := newTable(out)
	fmt.Fprintln(w, "LAB\tSTATUS\tRUNTIME\tNAMESPACES\tAGENTS\tMEMORY\tCPU\tSINCE")
	for _, i := range infos {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n",
			i.Lab, i.Status, i.Runtime, i.Namespaces, i.Agents, mib(i.MemoryBytes), seconds(i.CPUSeconds), i.Since())
		for _, d := range i.Damage {
			fmt.Fprintf(w, "\t  %s\n", d)
		}
	}
	return w.Flush()
}

func agentTable(out io.Writer, info lab.Info) error {
	w := newTable(out)
	fmt.Fprintln(w, "NODE\tRUNTIME\tID\tPID\tMEMORY\tCPU")
	for _, m := range info.Members {
		id, used := "-", mib(m.MemoryBytes)
		if m.ID != "" {
			id = m.ID[:min(12, len(m.ID))]
		}
		if !m.Alive {
			used = "dead"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", m.Node, info.Runtime, id, m.PID, used, seconds(m.CPUSeconds))
	}
	for _, d := range info.Damage {
		fmt.Fprintf(w, "damaged: %s\n", d)
	}
	return w.Flush()
}

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

func seconds(s float64) string { return fmt.Sprintf("%.2f s", s) }

func inspectCommand(p *printer, l *labs) *cobra.Command {
	return &cobra.Command{
		Use:   "inspect LAB",
		Short: "Show a lab's nodes, links and agents",
		Args:  cobra.ExactArgs(1),
		RunE: l.command(func(ctx context.Context, args []string, opt lab.Options) error {
			d, err := lab.Inspect(ctx, args[0], opt)
			if err != nil {
				return err
			}
			return show(p, d, detailTables)
		}),
	}
}

func detailTables(out io.Writer, d *lab.Detail) error {
	w := newTable(out)
	fmt.Fprintf(w, "%s: %s, rate scale %g, time scale %g\n", d.Lab, d.Status, d.Scale.Rate, d.Scale.Time)
	for _, part := range d.Damage {
		fmt.Fprintf(w, "damaged: %s\n", part)
	}
	fmt.Fprintln(w, "\nNODE\tNAMESPACE\tADDRESSES\tAGENT\tIN FLIGHT\tRESERVED\tKV FREE\tCACHED\tCONNECTIONS")
	for _, n := range d.Nodes {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", n.Node, n.Namespace, strings.Join(n.Addresses, " "), n.AgentText())
	}
	fmt.Fprintln(w, "\nLINK\tTIER\tRATE\tEMULATED\tQUEUE UP\tQUEUE DOWN")
	for _, l := range d.Links {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", l.Link, l.Tier, l.Rate, l.RateEmulated, l.Up.Text(), l.Down.Text())
	}
	return w.Flush()
}

func downCommand(p *printer, l *labs) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "down LAB | --all",
		Short: "Remove a lab, whatever state it is in",
		Long: `Removes a lab's agents, namespaces and state. It works from the kernel's own state,
so it also removes labs whose folder is lost or damaged, and it touches nothing
that is not marked as the lab's. What up --parallel made beside a lab goes with it.

Agents, and commands that exec started, get SIGTERM and two seconds. Programs that
something else started in a node's network (nsenter, ip netns exec) are named and left
alone, and so is the shell that down is called from: the network around them loses its
name and its links, and ends with them.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) == 1) {
				return usagef("name one lab, or --all (see `netkvlab ps`)")
			}
			opt, err := l.options("", false)
			if err != nil {
				return err
			}
			defer opt.Progress.Close()
			names := args
			if all {
				if names, err = lab.All(cmd.Context(), opt); err != nil {
					return err
				}
			}
			engines := opt.Engines(names) // before the removal, which also removes the labs' engine addresses
			removed, err := lab.DownAll(cmd.Context(), names, opt)
			if all {
				err = errors.Join(err, dropImages(cmd.Context(), opt, engines))
			}
			opt.Progress.Close()
			if len(removed) > 0 || err == nil {
				err = errors.Join(err, show(p, removed, removedText))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "remove every lab on this host, and the agent images")
	return cmd
}

// dropImages removes the agent images: --all leaves nothing of any lab on the host. The
// calibration belongs to the host and stays.
func dropImages(ctx context.Context, opt lab.Options, engines []*docker.Engine) error {
	var errs []error
	for _, engine := range engines {
		images, err := engine.RemoveImages(ctx)
		for _, ref := range images {
			opt.Progress.Note("removed image %s", ref)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func removedText(w io.Writer, removed []lab.Removed) error {
	for _, r := range removed {
		containers := ""
		if r.Containers > 0 {
			containers = fmt.Sprintf("%d containers, ", r.Containers)
		}
		if r.Nothing {
			fmt.Fprintf(w, "%s: nothing to remove\n", r.Lab)
		} else {
			fmt.Fprintf(w, "%s: removed %d namespaces, %sended %d processes\n", r.Lab, r.Namespaces, containers, r.Processes)
		}
		for _, n := range r.Notes {
			fmt.Fprintf(w, "  %s\n", n)
		}
	}
	if len(removed) == 0 {
		fmt.Fprintln(w, "no labs")
	}
	return nil
}

// exitStatus is the exit code of the command that was run.
type exitStatus int

func (e exitStatus) Error() string { return "" }

func execCommand(p *printer, l *labs) *cobra.Command {
	return &cobra.Command{
		Use:   "exec LAB NODE -- CMD [ARG...]",
		Short: "Run a command inside a node's network namespace",
		Example: `  netkvlab exec quickstart p0 -- ip route
  netkvlab exec quickstart tor0-0 -- tc -s qdisc`,
		Args: cobra.MinimumNArgs(3),
		// The command inherits none of our descriptors: making the options closes them to it.
		RunE: l.command(func(ctx context.Context, args []string, _ lab.Options) error {
			signals, stop := commandsSignals()
			defer stop()
			code, err := lab.Exec(ctx, nodes.ExecSpec{
				Lab: args[0], Node: args[1], Command: args[2:], Signals: signals,
				In: os.Stdin, Out: p.stdout, Err: p.stderr,
			})
			if err == nil && code != 0 {
				err = exitStatus(code)
			}
			return err
		}),
	}
}

// commandsSignals receives the signals that would end netkvlab, so that they are forwarded to
// the command: a shell continues after Ctrl-C, and tcpdump prints its counts. On a terminal the
// command is in our foreground process group and gets Ctrl-C directly.
func commandsSignals() (<-chan os.Signal, func()) {
	signal.Reset(unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	passed, dropped := make(chan os.Signal, 4), make(chan os.Signal, 1)
	notify(passed, unix.SIGTERM, unix.SIGHUP)
	if term.IsTerminal(int(os.Stdin.Fd())) {
		notify(dropped, unix.SIGINT, unix.SIGQUIT)
	} else {
		notify(passed, unix.SIGINT)
	}
	return passed, func() {
		signal.Stop(passed)
		signal.Stop(dropped)
	}
}
