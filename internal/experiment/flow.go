package experiment

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/netkvlab/netkvlab/flowsim"
	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/analysis/attribution"
	"github.com/netkvlab/netkvlab/internal/flowworld"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/scenarios"
)

// flowSeedsBesidePacket is how many seeds the flow world runs beside a packet
// run: decisions that diverge average out over seeds only, and here they cost little.
const flowSeedsBesidePacket = 20

// keep adds a trial's records to the run and its folder.
func (r *run) keep(records []results.Record) error {
	r.records = append(r.records, records...)
	for i := range records {
		if err := r.out.Append(&records[i]); err != nil {
			return err
		}
	}
	return nil
}

// flowConfig is a scenario's flow world. Beside a packet run its links carry frames,
// so that a rate means the same in both; alone they carry payload.
func (r *run) flowConfig(seed uint64) flowworld.Config {
	cfg := trials.FlowWorld(r.opt.Scenario, r.plan, seed)
	if r.lab != nil {
		cfg.Framing = flowsim.FullSegmentFraming
		cfg.Latency = r.lab.Fabric.Latency() // the emulated links', if they have any
	}
	return cfg
}

// flowTrials runs every policy on every seed in the flow world, on all CPUs. Records
// are kept in the order of seeds and policies, whichever trial ends first.
func (r *run) flowTrials(ctx context.Context) error {
	policies := r.policies()
	seeds := r.flowSeeds()
	loads := make([]*load, len(seeds))
	for i, seed := range seeds {
		var err error
		if loads[i], err = r.load(seed); err != nil {
			return err
		}
	}
	r.opt.Progress.Phase("flow world: %d policies x %d seeds", len(policies), len(seeds))
	out := make([][]results.Record, len(seeds)*len(policies))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range out {
		g.Go(func() (err error) {
			s, p := i/len(policies), i%len(policies)
			out[i], err = r.flowTrial(ctx, policies[p], seeds[s], loads[s])
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

// flowSeeds are the scenario's, and beside a packet run more.
func (r *run) flowSeeds() []uint64 {
	seeds := slices.Clone(r.opt.Scenario.Seeds)
	if r.lab == nil || r.flows() {
		return seeds
	}
	for next := uint64(1); len(seeds) < flowSeedsBesidePacket; next++ {
		if !slices.Contains(seeds, next) {
			seeds = append(seeds, next)
		}
	}
	return seeds
}

func (r *run) flowTrial(ctx context.Context, p scenarios.Policy, seed uint64, l *load) ([]results.Record, error) {
	d, err := r.driver(trials.Trial{World: results.WorldFlow, Policy: p, Seed: seed}, l)
	if err != nil {
		return nil, err
	}
	w, err := flowworld.New(r.flowConfig(seed))
	if err != nil {
		return nil, err
	}
	err = w.Run(ctx, d)
	records := d.Records()
	trials.NamePaths(r.plan, records)
	if err != nil {
		return records, fmt.Errorf("flow world, %s, seed %d: %w", trials.Label(p), seed, err)
	}
	return records, nil
}

// replays gives each packet trial its fluid counterpart with the same decisions, and
// takes the transfers that met no other as evidence.
func (r *run) replays(ctx context.Context) ([]results.Record, error) {
	type trial struct {
		policy string
		seed   uint64
	}
	groups := map[trial][]results.Record{}
	var order []trial
	for i := range r.records {
		k := trial{r.records[i].Policy, r.records[i].Seed}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], r.records[i])
	}
	var out []results.Record
	for _, k := range order {
		again, err := flowworld.Replay(ctx, r.flowConfig(k.seed), groups[k])
		if err != nil {
			return nil, err
		}
		out = append(out, again...)
	}
	if r.opt.Scenario.Transfer.Overlap != scenarios.OverlapNone {
		return out, nil // what is left after the prefill may be less than a port's burst
	}
	_, alone, err := attribution.Transport(ctx, r.flowConfig, nil, r.records, out)
	r.evidence.Alone = alone
	return out, err
}

// attribute takes the gap between the worlds apart. A failure costs the run its
// attribution and nothing else: what it measured stays.
func (r *run) attribute(ctx context.Context) error {
	if r.lab == nil || r.flows() {
		return nil
	}
	r.opt.Progress.Phase("where the gap comes from")
	policies := r.policies()
	e := &attribution.Experiment{
		Scenario: r.opt.Scenario, Plan: r.plan, Policies: policies, Flow: r.flowConfig,
		Requests: func(seed uint64) ([]workload.Request, error) {
			l, err := r.load(seed)
			if err != nil {
				return nil, err
			}
			return l.requests, nil
		},
	}
	labels := make([]string, len(policies))
	for i, p := range policies {
		labels[i] = trials.Label(p)
	}
	a, err := attribution.Explain(ctx, e, r.records, analysis.Comparisons(labels, nil))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		r.workload = append(r.workload, fmt.Sprintf("no attribution of the gap: %v", err))
	}
	r.attribution = a
	return nil
}
