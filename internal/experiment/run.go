package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/netkvlab/netkvlab/internal/controller"
	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/internal/packet"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/scenarios"
)

// Options say what of a scenario to run and where to write it.
type Options struct {
	Scenario *scenarios.Scenario // the lab's, perhaps with fewer policies or other seeds
	Out      string              // run folder, made by Run; must be absent or empty
	Version  string
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
	lab     *lab.Lab
	out     *results.Writer
	records []results.Record
	watch   *watch
	notes   []string
	// workload is what a reader must know of what arrived.
	workload []string
}

// Run runs every policy on every seed and writes the run folder. When the context
// ends or an agent is lost, what has been measured is written, marked as interrupted,
// and the error is returned with the outcome.
func Run(ctx context.Context, l *lab.Lab, opt Options) (*Outcome, error) {
	w, err := results.Create(opt.Out)
	if err != nil {
		return nil, err
	}
	r := &run{opt: opt, lab: l, out: w, watch: newWatch()}
	if err := r.describe(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	runErr := r.trials(ctx)
	if runErr != nil && len(r.records) == 0 {
		return nil, errors.Join(runErr, w.Discard())
	}
	summary := results.Summarize(r.records, r.meta(runErr != nil))
	if err := w.Finish(summary); err != nil {
		return nil, errors.Join(runErr, err)
	}
	return &Outcome{Summary: summary, Records: r.records, Folder: w.Dir()}, runErr
}

// describe writes what is known before the first request.
func (r *run) describe() error {
	text, err := r.opt.Scenario.Marshal()
	if err != nil {
		return err
	}
	host, err := results.ReadHost(os.DirFS("/"), r.opt.Version, r.opt.Runtimes)
	if err != nil {
		return err
	}
	return errors.Join(r.out.WriteScenario(text), r.out.WriteHost(host))
}

// policies are the scenario's, or the one pseudo-policy of explicit flows.
func (r *run) policies() []scenarios.Policy {
	if r.flows() {
		return []scenarios.Policy{{Name: controller.FlowsPolicy}}
	}
	return r.opt.Scenario.Policies
}

func (r *run) flows() bool { return r.opt.Scenario.Workload.Kind == scenarios.WorkloadFlows }

func (r *run) trials(ctx context.Context) error {
	s := r.opt.Scenario
	policies := r.policies()
	total := len(s.Seeds) * len(policies)
	n := 0
	for _, seed := range s.Seeds {
		load, err := r.load(seed)
		if err != nil {
			return err
		}
		for _, p := range policies {
			n++
			name := fmt.Sprintf("%s, seed %d (trial %d of %d)", trials.Label(p), seed, n, total)
			if err := r.trial(ctx, name, trials.Trial{World: results.WorldPacket, Policy: p, Seed: seed}, load); err != nil {
				return err
			}
		}
	}
	return nil
}

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

func (r *run) driver(t trials.Trial, l *load) (controller.Driver, error) {
	if r.flows() {
		return trials.Flows(r.opt.Scenario, r.lab.Plan, t.World, t.Seed, l.flows)
	}
	return trials.Serving(r.opt.Scenario, r.lab.Plan, t, l.requests, packet.Stopwatch)
}

// trial runs one policy on one seed and keeps its records, also when it was cut.
func (r *run) trial(ctx context.Context, name string, t trials.Trial, l *load) error {
	driver, err := r.driver(t, l)
	if err != nil {
		return err
	}
	if err := r.lab.Reset(ctx); err != nil {
		return err
	}
	before, err := r.received(ctx)
	if err != nil {
		return err
	}
	sessions, err := r.open(ctx)
	if err != nil {
		return err
	}
	started := time.Now()
	tr := &packet.Trial{
		Driver: driver, Members: sessions.members, Epoch: sessions.epoch, TimeScale: r.lab.Plan.Scale.Time, Background: sessions.background,
		OnProgress: func(ended, total int, _ time.Duration) {
			r.opt.Progress.Step(name, ended, total, left(time.Since(started), ended, total))
		},
	}
	r.opt.Progress.Phase("%s", name)
	oracle := r.startOracle(ctx, t, tr)
	r.watch.start()
	runErr := tr.Run(ctx)
	r.watch.stop()
	linkErr := oracle.stop()
	lost := sessions.close()
	records := driver.Records()
	trials.NamePaths(r.lab.Plan, records)
	r.records = append(r.records, records...)
	for i := range records {
		if err := r.out.Append(&records[i]); err != nil {
			return errors.Join(runErr, err)
		}
	}
	if err := errors.Join(runErr, linkErr, r.out.Flush()); err != nil {
		return err
	}
	if len(lost) > 0 {
		r.notes = append(r.notes, fmt.Sprintf("%s: lost %s", name, strings.Join(lost, ", ")))
		return fmt.Errorf("%s: lost %s; the trials after it were not run", name, strings.Join(lost, ", "))
	}
	return r.audit(ctx, name, records, before)
}

// left estimates the time to the end from the pace so far.
func left(spent time.Duration, ended, total int) time.Duration {
	if ended == 0 || total <= ended {
		return 0
	}
	return time.Duration(float64(spent) * float64(total-ended) / float64(ended))
}

func (r *run) meta(interrupted bool) results.Meta {
	s := r.opt.Scenario
	labels := make([]string, 0, len(s.Policies))
	for _, p := range r.policies() {
		labels = append(labels, trials.Label(p))
	}
	return results.Meta{
		Version: r.opt.Version, Scenario: s.Name, Seeds: s.Seeds,
		Scale:    results.Scale{Rate: r.lab.Plan.Scale.Rate, Time: r.lab.Plan.Scale.Time},
		SLO:      results.SLO{TTFT: s.SLO.TTFT, TBT: s.SLO.TBT},
		Fidelity: r.fidelity(), Interrupted: interrupted, Policies: labels, Worlds: []string{results.WorldPacket},
	}
}
