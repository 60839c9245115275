// Package experiment runs trials and writes their results. Run plays every policy on every seed
// of a scenario, in the packet world on labs side by side and then in the flow world, and fills
// a run folder. Simulate runs the flow world only.
//
// The trial is the unit: each has its own evidence, is judged separately, and is repeated
// separately when something outside of the experiment spoiled it. Play plays packet trials on
// labs; a sweep uses it too. Start reading at run.go, then lanes.go.
package experiment

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/analysis/attribution"
	"github.com/netkvlab/netkvlab/internal/fidelity"
	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/internal/packetworld"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/scaling"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

// flowSeedsBesidePacket is the number of flow-world seeds when a packet run is made too. Decisions
// that diverge average out only over many seeds, which are cheap in the flow world.
const flowSeedsBesidePacket = 20

// Options say what of a cluster's scenario to run and where to write it.
type Options struct {
	Worlds   []string        // results.WorldPacket, results.WorldFlow or both; none means both
	Cluster  *trials.Cluster // has the lab's plan; its scenario may have fewer policies or other seeds
	Out      string          // run folder, made by Run; must be absent or empty
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
	Options
	labs        []*lab.Lab // of one plan, for trials side by side; empty without a packet world
	folder      *results.Writer
	records     []results.Record
	packet      *orderedWriter          // collects the packet world's trials
	scaling     []results.ScalingFigure // what the scale does not preserve
	attribution *results.Attribution    // of the gap; nil where only one world ran
	workload    []string                // notes about the workload, for the readers of the results
}

// Run runs every policy on every seed, in the packet world on the labs and then in the flow
// world, and writes the run folder. When the context ends or an agent is lost, it writes what
// has been measured, marks it as interrupted, and returns the error with the outcome.
//
// Several labs of the same plan run trials side by side. The folder has the same contents in the
// same order as with one lab.
func Run(ctx context.Context, labs []*lab.Lab, opt Options) (*Outcome, error) {
	w, err := results.Create(opt.Out)
	if err != nil {
		return nil, err
	}
	r := &run{Options: opt, labs: labs, folder: w, packet: newOrderedWriter(w)}
	if err := r.describe(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	runErr := r.play(ctx)
	if runErr != nil && len(r.records) == 0 {
		return nil, errors.Join(runErr, w.Discard())
	}
	runErr = errors.Join(runErr, r.scaled())
	summary := analysis.Summarize(r.records, r.meta(runErr != nil))
	summary.Attribution = r.attribution
	if err := w.Finish(summary); err != nil {
		return nil, errors.Join(runErr, err)
	}
	return &Outcome{Summary: summary, Records: r.records, Folder: opt.Out}, runErr
}

// Simulate runs a scenario in the flow world alone: no root, no kernel, no clock.
func Simulate(ctx context.Context, opt Options) (*Outcome, error) {
	opt.Worlds = []string{results.WorldFlow}
	return Run(ctx, nil, opt)
}

// play runs the chosen worlds. The flow world comes second, because it uses all CPUs.
func (r *run) play(ctx context.Context) error {
	if r.emulated() {
		if err := r.packetTrials(ctx); err != nil {
			return err
		}
	}
	if len(r.Worlds) > 0 && !slices.Contains(r.Worlds, results.WorldFlow) {
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

// packetTrials plays all trials on all labs.
func (r *run) packetTrials(ctx context.Context) error {
	if err := r.load(r.Cluster.Scenario.Seeds); err != nil {
		return err
	}
	var work []Work
	for _, t := range r.Cluster.Trials(results.WorldPacket, r.Cluster.Scenario.Seeds) {
		t.Stopwatch = packetworld.Stopwatch
		work = append(work, Work{Trial: t, Cluster: r.Cluster, Name: fmt.Sprintf("%s, seed %d", trials.Label(t.Policy), t.Seed)})
	}
	r.packet.work = work
	err := errors.Join(Play(ctx, r.labs, work, r.packet, r.Progress), r.packet.flush())
	r.records = r.packet.records()
	return err
}

// load makes the loads of seeds, and keeps their remarks for the readers of the results.
func (r *run) load(seeds []uint64) error {
	for _, seed := range seeds {
		l, err := r.Cluster.Load(seed)
		if err != nil {
			return err
		}
		if r.workload != nil { // the same for all seeds
			continue
		}
		for _, text := range l.Remarks {
			r.Progress.Note("%s", text)
			r.workload = append(r.workload, text)
		}
	}
	return nil
}

// keep adds records to the run and its folder.
func (r *run) keep(records []results.Record) error {
	r.records = append(r.records, records...)
	return r.folder.Append(records...)
}

// describe writes the files whose contents are known before the first request.
func (r *run) describe() error {
	text, err := r.Cluster.Scenario.Marshal()
	if err != nil {
		return err
	}
	machine, err := host.Describe(host.Proc, r.Version, r.Runtimes)
	if err != nil {
		return err
	}
	return errors.Join(r.folder.WriteFile(results.ScenarioFile, text), r.folder.WriteHost(machine))
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
	r.scaling, err = scaling.Changes(r.Cluster, bytes/max(1, n))
	return err
}

func (r *run) meta(interrupted bool) results.Meta {
	s := r.Cluster.Scenario
	return results.Meta{
		Version: r.Version, Scenario: s.Name, Seeds: s.Seeds, SLO: results.SLO(s.SLO),
		Scale:   results.Scale{Rate: r.Cluster.Plan.Scale.Rate, Time: r.Cluster.Plan.Scale.Time},
		Scaling: r.scaling, Fidelity: r.fidelity(interrupted), Trials: r.packet.judged(), Interrupted: interrupted,
		Policies: r.Cluster.Labels(), Worlds: r.Worlds,
	}
}

// flow returns the flow world: the plain one, or the one that matches the labs.
func (r *run) flow() trials.Flow {
	if r.emulated() {
		return packetworld.FlowBeside(r.labs[0], r.Cluster)
	}
	return trials.Flow{Cluster: r.Cluster}
}

// flowTrials runs the flow world on all CPUs, and keeps records in the order of seeds and policies.
func (r *run) flowTrials(ctx context.Context) error {
	seeds := r.flowSeeds()
	if err := r.load(seeds); err != nil {
		return err
	}
	all := r.Cluster.Trials(results.WorldFlow, seeds)
	r.Progress.Phase("flow world: %d policies x %d seeds", len(r.Cluster.Policies()), len(seeds))
	out := make([][]results.Record, len(all))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	flow := r.flow()
	for i, t := range all {
		g.Go(func() (err error) {
			out[i], err = trials.Play(ctx, flow, r.Cluster, t)
			return err
		})
	}
	err := g.Wait()
	for _, records := range out {
		if err := r.keep(records); err != nil {
			return err
		}
	}
	return err
}

// flowSeeds returns the scenario's seeds, and more of them if a packet run is made too.
func (r *run) flowSeeds() []uint64 {
	seeds := slices.Clone(r.Cluster.Scenario.Seeds)
	if !r.emulated() || r.Cluster.Flows() {
		return seeds
	}
	for next := uint64(1); len(seeds) < flowSeedsBesidePacket; next++ {
		if !slices.Contains(seeds, next) {
			seeds = append(seeds, next)
		}
	}
	return seeds
}

// attribute splits the gap between the worlds by cause. If it fails, only the attribution is lacking.
func (r *run) attribute(ctx context.Context) error {
	if !r.emulated() || r.Cluster.Flows() {
		return nil
	}
	r.Progress.Phase("where the gap comes from")
	a, err := attribution.Explain(ctx, r.flow(), r.records, r.packet.transfers(), analysis.Comparisons(r.Cluster.Labels(), nil))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		r.workload = append(r.workload, fmt.Sprintf("no attribution of the gap: %v", err))
	}
	r.attribution = a
	return nil
}

// fidelity is the verdict on the run so far.
func (r *run) fidelity(interrupted bool) results.Fidelity {
	if !r.emulated() {
		return results.Fidelity{Verdict: results.VerdictGood, Reasons: []string{}, Notes: r.remarks()}
	}
	f := fidelity.JudgeRun(r.packet.trials(), r.alone(), interrupted)
	f.Notes = r.remarks()
	return f
}

// alone checks the transfers that met no other; nil where this is not possible, which is judged elsewhere.
func (r *run) alone() *results.AloneCheck {
	if r.attribution != nil {
		return r.attribution.Alone
	}
	if r.Cluster.Scenario.Transfer.Overlap != scenarios.OverlapNone || len(r.packet.records()) != len(r.packet.replays()) {
		return nil
	}
	return attribution.CheckAlone(r.packet.transfers())
}

// remarks are notes about the emulation for the reader, independent of the verdict.
func (r *run) remarks() []string {
	if !r.emulated() {
		return append([]string{"nothing was emulated: these are the flow world's figures alone"}, r.workload...)
	}
	t := r.Cluster.Scenario.Transfer
	notes := []string{fmt.Sprintf("%d TCP streams per transfer, %s, paths %s; the number of streams moves results more than TCP does",
		t.Streams, t.CongestionControl, t.Paths)}
	fabric := r.labs[0].Fabric
	notes = append(notes, fabric.Remarks()...)
	if f := fabric.Features(); !f.HashSeed {
		notes = append(notes, fmt.Sprintf("this kernel has no hash seed per switch: racks hash fields %#x, the tiers above %#x", f.ToRHashFields, f.AggHashFields))
	}
	notes = append(notes, r.Notes...)
	if text := scaling.Sentence(r.Cluster.Plan.Scale, r.scaling); text != "" {
		notes = append(notes, text)
	}
	return append(notes, r.workload...)
}
