package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
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
