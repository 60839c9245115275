package attribution

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/scenarios"
	"github.com/netkvlab/netkvlab/scheduler"
)

// Experiment is the input of the runs that the chain adds.
type Experiment struct {
	Cluster *trials.Cluster
	// Flow is the flow world that matches the packet run.
	Flow trials.Flow
}

// run makes the runs on all CPUs and adds them to the table.
func (e *Experiment) run(ctx context.Context, jobs []job, t *Table) error {
	var adding sync.Mutex // the order in which runs are added does not matter
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range jobs {
		g.Go(func() error {
			records, err := e.play(ctx, &jobs[i])
			if err != nil {
				return err
			}
			adding.Lock()
			defer adding.Unlock()
			t.Add(jobs[i].stage, records)
			return nil
		})
	}
	return g.Wait()
}

// play makes one run.
func (e *Experiment) play(ctx context.Context, j *job) ([]results.Record, error) {
	c, flow, load := e.Cluster, e.Flow, j.load
	t := trials.Trial{World: results.WorldFlow, Policy: j.policy, Seed: j.seed}
	if j.redraw > 0 {
		t.Wrap = func(own scheduler.Policy) scheduler.Policy { return &otherDraws{own, j.redraw} }
	}
	switch j.stage {
	case StageTier:
		flow.ByTier, flow.Framing = true, 0
	case StageRandom, StageFraming:
		c = c.Vary(func(s *scenarios.Scenario) { s.Transfer.Paths = scenarios.PathsRandom })
		load = &trials.Load{Requests: drawAgain(load.Requests, j.seed)}
		if j.stage == StageRandom {
			flow.Framing = 0
		}
	case StageDecisions:
		t.Wrap = func(own scheduler.Policy) scheduler.Policy {
			return newRepeated(c.Plan, own, load.Requests, j.packet)
		}
	}
	records, err := trials.PlayLoad(ctx, flow, c, t, load)
	if err != nil {
		return nil, fmt.Errorf("stage %s: %w", j.stage, err)
	}
	return records, nil
}

// pathSeed makes the stages' path draws independent of the requests' own.
const pathSeed = 0x6e65746b766c6162

// drawAgain gives the requests new, independent path draws, equal for every policy and stage.
func drawAgain(requests []workload.Request, seed uint64) []workload.Request {
	out := slices.Clone(requests)
	for i := range out {
		rng := rand.New(rand.NewPCG(seed^pathSeed, uint64(out[i].ID)))
		out[i].PathDraws = make([]uint64, len(requests[i].PathDraws))
		for d := range out[i].PathDraws {
			out[i].PathDraws[d] = rng.Uint64()
		}
	}
	return out
}
