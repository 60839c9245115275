package experiment

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/controller"
	"github.com/netkvlab/netkvlab/internal/fidelity"
	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/internal/packet"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/scaling"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/scenarios"
)

// Options say what of a scenario to run and where to write it.
type Options struct {
	// Worlds are results.WorldPacket, results.WorldFlow or both; none means both.
	Worlds   []string
	Scenario *scenarios.Scenario // the lab's, perhaps with fewer policies or other seeds
	Out      string              // run folder, made by Run; must be absent or empty
	Version  string
	Notes    []string          // what a reader must know of how the run was set up
	Runtimes map[string]string // container runtime versions for host.json
	Progress *lab.Progress
}

// Outcome is what a run gives back beside its folder.
type Outcome struct {
	Summary *results.Summary
	Records []results.Record
	Folder  string
}

// run is one experiment in progress.
type run struct {
	opt     Options
	plan    *fabric.Plan
	lab     *lab.Lab   // the first of labs, or a lane's own; nil where there is no packet world
	labs    []*lab.Lab // same plan, trials side by side
	out     *results.Writer
	records []results.Record
	// host and evidence are what the verdict is made of; host is nil in a lane that
	// others run beside, since there is one host for all.
	host     *host.Watch
	evidence fidelity.Evidence
	// scaling is what the scale does not preserve.
	scaling []results.ScalingFigure
	// attribution of the gap; nil where only one world ran
	attribution *results.Attribution
	// workload is what a reader must know of what arrived.
	workload []string
	// told and page are a lane's: whom to tell of a trial, and where it is written.
	told *told
	page *page
	gate *gate         // keeps it in step with the others; nil where there are none
	lag  time.Duration // after which it begins a trial, once the gate has opened
}

// Run runs every policy on every seed, in the packet world on the lab and in the flow
// world beside it, and writes the run folder. When the context ends or an agent is
// lost, what has been measured is written, marked as interrupted, and the error is
// returned with the outcome.
//
// Several labs of the same scenario run its trials side by side. The folder is the same
// as one lab's, in the same order; the evidence is that of all.
func Run(ctx context.Context, labs []*lab.Lab, opt Options) (*Outcome, error) {
	watch := host.NewWatch(host.Proc, own(labs)...)
	return start(ctx, &run{opt: opt, lab: labs[0], labs: labs, plan: labs[0].Plan, host: watch})
}

// own are this program and the labs' agents.
func own(labs []*lab.Lab) []int {
	pids := []int{os.Getpid()}
	for _, l := range labs {
		for _, a := range l.Agents {
			pids = append(pids, a.PID)
		}
	}
	return pids
}

// Simulate runs a scenario in the flow world alone: no root, no kernel, no clock.
func Simulate(ctx context.Context, opt Options) (*Outcome, error) {
	plan, err := fabric.New(opt.Scenario, opt.Scenario.Scale)
	if err != nil {
		return nil, err
	}
	opt.Worlds = []string{results.WorldFlow}
	return start(ctx, &run{opt: opt, plan: plan})
}

func start(ctx context.Context, r *run) (*Outcome, error) {
	w, err := results.Create(r.opt.Out)
	if err != nil {
		return nil, err
	}
	r.out = w
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
	summary := results.Summarize(r.records, r.meta(runErr != nil))
	summary.Attribution = r.attribution
	if err := w.Finish(summary); err != nil {
		return nil, errors.Join(runErr, err)
	}
	return &Outcome{Summary: summary, Records: r.records, Folder: w.Dir()}, runErr
}

// worlds runs what was asked for. The flow world comes second: it needs all CPUs, and
// replays what the packet world decided.
func (r *run) worlds(ctx context.Context) error {
	if r.runs(results.WorldPacket) {
		if err := r.packetTrials(ctx); err != nil {
			return err
		}
	}
	if r.lab != nil {
		again, err := r.replays(ctx)
		if err != nil {
			return err
		}
		if r.runs(results.WorldFlow) {
			if err := r.keep(again); err != nil {
				return err
			}
		}
	}
	if !r.runs(results.WorldFlow) {
		return nil
	}
	if err := r.flowTrials(ctx); err != nil {
		return err
	}
	return r.attribute(ctx)
}

func (r *run) runs(world string) bool {
	return len(r.opt.Worlds) == 0 || slices.Contains(r.opt.Worlds, world)
}

// describe writes what is known before the first request.
func (r *run) describe() error {
	text, err := r.opt.Scenario.Marshal()
	if err != nil {
		return err
	}
	machine, err := host.Describe(host.Proc, r.opt.Version, r.opt.Runtimes)
	if err != nil {
		return err
	}
	return errors.Join(r.out.WriteScenario(text), r.out.WriteHost(machine))
}

// policies are the scenario's, or the one pseudo-policy of explicit flows.
func (r *run) policies() []scenarios.Policy {
	if r.flows() {
		return []scenarios.Policy{{Name: controller.FlowsPolicy}}
	}
	return r.opt.Scenario.Policies
}

func (r *run) flows() bool { return r.opt.Scenario.Workload.Kind == scenarios.WorkloadFlows }

// load is what arrives in all trials of a seed.
type load struct {
	requests []workload.Request
	flows    []workload.FlowRequest
}

func (r *run) load(seed uint64) (*load, error) {
	s := r.opt.Scenario
	if r.flows() {
		f, err := workload.LoadFlows(s, seed)
		return &load{flows: f}, err
	}
	reqs, rep, err := workload.Generate(s, seed)
	if err != nil {
		return nil, err
	}
	if r.workload == nil { // the same for all seeds
		for _, text := range rep.Remarks() {
			r.opt.Progress.Note("%s", text)
			r.workload = append(r.workload, text)
		}
	}
	return &load{requests: reqs}, nil
}

// driver builds a trial's driver; decisions are timed in the packet world only, so
// that the flow world's records are the same every time.
func (r *run) driver(t trials.Trial, l *load) (controller.Driver, error) {
	if r.flows() {
		return trials.Flows(r.opt.Scenario, r.plan, t.World, t.Seed, l.flows)
	}
	var stopwatch func() int64
	if t.World == results.WorldPacket {
		stopwatch = packet.Stopwatch
	}
	return trials.Serving(r.opt.Scenario, r.plan, t, l.requests, stopwatch)
}

// scaled tells what the scale changed for the transfers that were measured.
func (r *run) scaled() (err error) {
	if r.lab == nil {
		return nil
	}
	var bytes, n float64
	for i := range r.records {
		if rec := &r.records[i]; rec.World == results.WorldPacket && rec.PayloadBytes > 0 {
			bytes, n = bytes+float64(rec.PayloadBytes), n+1
		}
	}
	r.scaling, err = scaling.Changes(r.opt.Scenario, r.plan, bytes/max(1, n))
	return err
}

func (r *run) meta(interrupted bool) results.Meta {
	s := r.opt.Scenario
	labels := make([]string, 0, len(s.Policies))
	for _, p := range r.policies() {
		labels = append(labels, trials.Label(p))
	}
	return results.Meta{
		Version: r.opt.Version, Scenario: s.Name, Seeds: s.Seeds,
		Scale:    results.Scale{Rate: r.plan.Scale.Rate, Time: r.plan.Scale.Time},
		Scaling:  r.scaling,
		SLO:      results.SLO{TTFT: s.SLO.TTFT, TBT: s.SLO.TBT},
		Fidelity: r.fidelity(interrupted), Interrupted: interrupted, Policies: labels, Worlds: r.opt.Worlds,
	}
}
