package experiment

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/analysis/attribution"
	"github.com/netkvlab/netkvlab/internal/packetworld"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
)

// flowSeedsBesidePacket is the number of flow-world seeds when a packet run is made too.
// Decisions that diverge average out only over many seeds, and in the flow world seeds are
// cheap.
const flowSeedsBesidePacket = 20

// keep adds a trial's records to the run and its folder.
func (r *run) keep(records []results.Record) error {
	r.records = append(r.records, records...)
	return appendAll(r.out, records)
}

func appendAll(w *results.Writer, records []results.Record) error {
	for i := range records {
		if err := w.Append(&records[i]); err != nil {
			return err
		}
	}
	return nil
}

// flow returns the flow world: the plain one, or the one that matches the labs.
func (r *run) flow() trials.Flow {
	if r.emulated() {
		return packetworld.FlowBeside(r.labs[0], r.cluster)
	}
	return trials.Flow{Cluster: r.cluster}
}

// flowTrials runs every policy on every seed in the flow world, on all CPUs. Records
// are kept in the order of seeds and policies, whichever trial ends first.
func (r *run) flowTrials(ctx context.Context) error {
	seeds := r.flowSeeds()
	for _, seed := range seeds {
		if err := r.load(seed); err != nil {
			return err
		}
	}
	all := r.cluster.Trials(results.WorldFlow, seeds)
	r.opt.Progress.Phase("flow world: %d policies x %d seeds", len(r.cluster.Policies()), len(seeds))
	out := make([][]results.Record, len(all))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	flow := r.flow()
	for i, t := range all {
		g.Go(func() (err error) {
			out[i], err = trials.Play(ctx, flow, r.cluster, t)
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
	seeds := slices.Clone(r.cluster.Scenario.Seeds)
	if !r.emulated() || r.cluster.Flows() {
		return seeds
	}
	for next := uint64(1); len(seeds) < flowSeedsBesidePacket; next++ {
		if !slices.Contains(seeds, next) {
			seeds = append(seeds, next)
		}
	}
	return seeds
}

// attribute splits the gap between the worlds by cause. If it fails, the run only lacks its
// attribution; its measurements stay.
func (r *run) attribute(ctx context.Context) error {
	if !r.emulated() || r.cluster.Flows() {
		return nil
	}
	r.opt.Progress.Phase("where the gap comes from")
	a, err := attribution.Explain(ctx, r.flow(), r.records, r.packet.transfers(), analysis.Comparisons(r.cluster.Labels(), nil))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		r.workload = append(r.workload, fmt.Sprintf("no attribution of the gap: %v", err))
	}
	r.attribution = a
	return nil
}
