package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/internal/packetworld"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/scaling"
	"github.com/netkvlab/netkvlab/internal/trials"
)

// Options say what of a cluster's scenario to run and where to write it.
type Options struct {
	// Worlds are results.WorldPacket, results.WorldFlow or both; none means both.
	Worlds []string
	// Cluster has the lab's plan; its scenario may have fewer policies or other seeds.
	Cluster  *trials.Cluster
	Out      string // run folder, made by Run; must be absent or empty
	Version  string
	Notes    []string          // about the setup, for the readers of the results
	Runtimes map[string]string // container runtime versions for host.json
	Progress Progress
}

// Outcome is the result of a run, in addition to its folder.
type Outcome struct {
	Summary *results.Summary
	Records []results.Record
	Folder  string
}

// run is one experiment in progress.
type run struct {
	opt     Options
	cluster *trials.Cluster
	labs    []*lab.Lab // of one plan, for trials side by side; empty without a packet world
	out     *results.Writer
	records []results.Record
	packet  *orderedWriter // collects the packet world's trials
	// scaling lists what the scale does not preserve.
	scaling     []results.ScalingFigure
	attribution *results.Attribution // of the gap; nil where only one world ran
	// workload holds notes about the workload, for the readers of the results.
	workload []string
}

// Run runs every policy on every seed, in the packet world on the labs and then in the flow
// world, and writes the run folder. When the context ends or an agent is lost, it writes what
// has been measured, marks it as interrupted, and returns the error with the outcome.
//
// Several labs of the same plan run trials side by side. The folder has the same contents in the
// same order as with one lab.
func Run(ctx context.Context, labs []*lab.Lab, opt Options) (*Outcome, error) {
	return start(ctx, &run{opt: opt, cluster: opt.Cluster, labs: labs})
}

// Simulate runs a scenario in the flow world alone: no root, no kernel, no clock.
func Simulate(ctx context.Context, opt Options) (*Outcome, error) {
	opt.Worlds = []string{results.WorldFlow}
	return start(ctx, &run{opt: opt, cluster: opt.Cluster})
}

func start(ctx context.Context, r *run) (*Outcome, error) {
	w, err := results.Create(r.opt.Out)
	if err != nil {
		return nil, err
	}
	r.out, r.packet = w, newOrderedWriter(w)
	if err := r.describe(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	runErr := r.worlds(ctx)
	if runErr != nil && len(r.records) == 0 {
		return nil, errors.Join(runErr, w.Discard())
	}
	if err := r.scaled(); err != nil {
		runErr = errors.Join(runErr, err)
	}
	summary := analysis.Summarize(r.records, r.meta(runErr != nil))
	summary.Attribution = r.attribution
	if err := w.Finish(summary); err != nil {
		return nil, errors.Join(runErr, err)
	}
	return &Outcome{Summary: summary, Records: r.records, Folder: w.Dir()}, runErr
}

// worlds runs the chosen worlds. The flow world comes second, because it uses all CPUs.
func (r *run) worlds(ctx context.Context) error {
	if r.emulated() {
		if err := r.packetTrials(ctx); err != nil {
			return err
		}
	}
	if !r.runs(results.WorldFlow) {
		return nil
	}
	if err := r.keep(r.packet.replays()); err != nil {
		return err
	}
	if err := r.flowTrials(ctx); err != nil {
		return err
	}
	return r.attribute(ctx)
}

// emulated reports whether there is a packet world.
func (r *run) emulated() bool { return len(r.labs) > 0 }

func (r *run) runs(world string) bool {
	return len(r.opt.Worlds) == 0 || slices.Contains(r.opt.Worlds, world)
}

// packetTrials plays all trials on all labs.
func (r *run) packetTrials(ctx context.Context) error {
	for _, seed := range r.cluster.Scenario.Seeds {
		if err := r.load(seed); err != nil {
			return err
		}
	}
	var work []Work
	for _, t := range r.cluster.Trials(results.WorldPacket, r.cluster.Scenario.Seeds) {
		t.Stopwatch = packetworld.Stopwatch
		work = append(work, Work{Trial: t, Cluster: r.cluster, Name: fmt.Sprintf("%s, seed %d", trials.Label(t.Policy), t.Seed)})
	}
	r.packet.work = work
	lanes := Lanes{Labs: r.labs, Progress: r.opt.Progress}
	err := lanes.Play(ctx, work, r.packet)
	err = errors.Join(err, r.packet.flush())
	r.records = r.packet.records()
	return err
}

// load makes the load of a seed, and keeps its remarks for the readers of the results.
func (r *run) load(seed uint64) error {
	l, err := r.cluster.Load(seed)
	if err != nil {
		return err
	}
	if r.workload == nil { // the same for all seeds
		for _, text := range l.Remarks {
			r.opt.Progress.Note("%s", text)
			r.workload = append(r.workload, text)
		}
	}
	return nil
}

// describe writes the files whose contents are known before the first request.
func (r *run) describe() error {
	text, err := r.cluster.Scenario.Marshal()
	if err != nil {
		return err
	}
	machine, err := host.Describe(host.Proc, r.opt.Version, r.opt.Runtimes)
	if err != nil {
		return err
	}
	return errors.Join(r.out.WriteScenario(text), r.out.WriteHost(machine))
}

// scaled computes what the scale changed for the measured transfers.
func (r *run) scaled() (err error) {
	if !r.emulated() {
		return nil
	}
	var bytes, n float64
	for i := range r.records {
		if rec := &r.records[i]; rec.World == results.WorldPacket && rec.PayloadBytes > 0 {
			bytes, n = bytes+float64(rec.PayloadBytes), n+1
		}
	}
	r.scaling, err = scaling.Changes(r.cluster, bytes/max(1, n))
	return err
}

func (r *run) meta(interrupted bool) results.Meta {
	s := r.cluster.Scenario
	return results.Meta{
		Version: r.opt.Version, Scenario: s.Name, Seeds: s.Seeds,
		Scale:    results.Scale{Rate: r.cluster.Plan.Scale.Rate, Time: r.cluster.Plan.Scale.Time},
		Scaling:  r.scaling,
		SLO:      results.SLO{TTFT: s.SLO.TTFT, TBT: s.SLO.TBT},
		Fidelity: r.fidelity(interrupted), Trials: r.packet.judged(), Interrupted: interrupted,
		Policies: r.cluster.Labels(), Worlds: r.opt.Worlds,
	}
}
