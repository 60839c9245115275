package attribution

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/flowworld"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/scenarios"
	"github.com/netkvlab/netkvlab/scheduler"
)

// Experiment is what the chain's own runs need to know.
type Experiment struct {
	Scenario *scenarios.Scenario
	Plan     *fabric.Plan
	Policies []scenarios.Policy
	// Flow configures the flow world as it ran beside the packet run.
	Flow func(seed uint64) flowworld.Config
	// Requests gives a seed's requests, the same at each call.
	Requests func(seed uint64) ([]workload.Request, error)
}

// job is one run of one stage.
type job struct {
	stage    Stage
	policy   scenarios.Policy
	seed     uint64
	requests []workload.Request
	packet   []results.Record // whose decisions to repeat
	luck     uint64           // other tie-break draws; 0: the requests' own
}

// jobs lists the runs of the stages that the experiment has not made itself.
func (e *Experiment) jobs(packet []trial, wide []uint64) ([]job, error) {
	requests := map[uint64][]workload.Request{}
	load := func(seed uint64) (_ []workload.Request, err error) {
		if requests[seed] == nil {
			requests[seed], err = e.Requests(seed)
		}
		return requests[seed], err
	}
	byLabel := map[string]scenarios.Policy{}
	var out []job
	for _, p := range e.Policies {
		byLabel[trials.Label(p)] = p
		for _, seed := range wide {
			reqs, err := load(seed)
			if err != nil {
				return nil, err
			}
			for _, stage := range []Stage{StageTier, StageRandom, StageFraming} {
				out = append(out, job{stage: stage, policy: p, seed: seed, requests: reqs})
			}
		}
	}
	for _, t := range packet {
		p, known := byLabel[t.policy]
		if !known {
			return nil, fmt.Errorf("records of policy %s, which the scenario does not have", t.policy)
		}
		reqs, err := load(t.seed)
		if err != nil {
			return nil, err
		}
		out = append(out, job{stage: StageDecisions, policy: p, seed: t.seed, requests: reqs, packet: t.records})
		for k := range redraws {
			out = append(out, job{stage: stageAgain(k), policy: p, seed: t.seed, requests: reqs, luck: uint64(k + 1)})
		}
	}
	return out, nil
}

// run makes the runs on all CPUs and adds them to the table.
func (e *Experiment) run(ctx context.Context, jobs []job, t *Table) error {
	out := make([][]results.Record, len(jobs))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range jobs {
		g.Go(func() (err error) {
			out[i], err = e.play(ctx, &jobs[i])
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, records := range out {
		t.Add(jobs[i].stage, records)
	}
	return nil
}

// play makes one run. The records keep only what a Table reads: hundreds of runs are
// in memory at once.
func (e *Experiment) play(ctx context.Context, j *job) ([]results.Record, error) {
	s, cfg, requests := e.Scenario, e.Flow(j.seed), j.requests
	t := trials.Trial{World: results.WorldFlow, Policy: j.policy, Seed: j.seed}
	if j.luck > 0 {
		t.Wrap = func(own scheduler.Policy) scheduler.Policy { return &otherLuck{own, j.luck} }
	}
	switch j.stage {
	case StageTier:
		cfg.Paths, cfg.Framing = flowworld.PathTier, 0
	case StageRandom, StageFraming:
		drawn := *s
		drawn.Transfer.Paths = scenarios.PathsRandom
		s, requests = &drawn, drawAgain(requests, j.seed)
		if j.stage == StageRandom {
			cfg.Framing = 0
		}
	case StageDecisions:
		t.Wrap = func(own scheduler.Policy) scheduler.Policy {
			return newScript(e.Plan, own, requests, j.packet)
		}
	}
	d, err := trials.Serving(s, e.Plan, t, requests, nil)
	if err != nil {
		return nil, err
	}
	w, err := flowworld.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("stage %s: %w", j.stage, err)
	}
	if err := w.Run(ctx, d); err != nil {
		return nil, fmt.Errorf("stage %s, %s, seed %d: %w", j.stage, trials.Label(j.policy), j.seed, err)
	}
	records := d.Records()
	for i := range records {
		records[i].Streams = nil
	}
	return records, nil
}

// pathSeed keeps the stages' path draws apart from those of the requests.
const pathSeed = 0x6e65746b766c6162

// drawAgain gives the requests other path draws, independent of their own; the same
// ones for every policy and stage.
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
