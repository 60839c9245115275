// Package attribution finds the causes of the gap between the flow world and the packet world,
// with measured runs instead of guesses.
//
// # The chain
//
// A chain of runs leads from the NetKV paper's own network to real packets. Each run adds one
// property of the packet world, on the same requests:
//
//	tier       no topology: B_tier shared by a prefill instance's own transfers
//	random     max-min shares on the topology, each stream's path drawn anew
//	framing    the same paths, links carry frames
//	flow       the path that the request's own draw (or the pair, where sticky) names:
//	           the flow world as it is reported
//	decisions  the packet run's decode instances, in the flow world's own time
//	replay     the packet run's starts, payloads and paths too
//	packet     the packet run
//
// The difference between two neighbours is a step, so the steps add up to the whole gap. The
// first three steps are about models. Decisions and starts are about how far the two runs
// drifted apart (a completion that is one per cent later can send the next request elsewhere).
// Transport, from replay to packet, is about packets.
//
// A policy that uses no state decides the same in both worlds. Its decisions step is then
// exactly 0, because the two runs are the same. Round robin assigns instances in the order of
// prefill completions; two completions swap only if they are closer than the accuracy of the
// packet world's timers.
//
// # What is compared
//
// Compared are the requests that completed in every stage, paired by seed and id over the packet
// run's seeds (package analysis). The flow world's stages also run on more seeds, for the wide
// figures. Decisions are averaged differently, since more seeds would add other workloads: the
// packet run's decisions are compared with those of up to twenty flow-world runs with the same
// requests and other tie-break draws. This separates chance from cause.
//
// Transport is also split by class of transfer: see the classes (Classify). A fluid has no acknowledgements,
// so the time that they wait behind others' data is a cost of transport. Transfers that were
// delayed by nothing else have their own class (ack-path). Times are paper milliseconds. Results
// depend only on the records and the scenario. Start reading at Explain.
package attribution

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/scenarios"
	"github.com/netkvlab/netkvlab/scheduler"
)

// The stages. Those that a run has made already have the names of its worlds.
const (
	stageTier      = "tier"
	stageRandom    = "random"
	stageFraming   = "framing"
	stageFlow      = results.WorldFlow
	stageDecisions = "decisions"
	stageReplay    = results.WorldReplay
	stagePacket    = results.WorldPacket
)

// stages lists the chain in order; transport is its last step.
func stages() []string {
	return []string{stageTier, stageRandom, stageFraming, stageFlow, stageDecisions, stageReplay, stagePacket}
}

// steps names the step that ends at a stage.
var steps = map[string]string{
	stageRandom: "topology", stageFraming: "framing", stageFlow: "paths",
	stageDecisions: "decisions", stageReplay: "starts", stagePacket: "transport",
}

const methods = "levels: mean (ms) or gain (%) of each stage over the requests that completed in every stage, over the packet run's seeds, paired by seed and id. " +
	"Stages: tier (the paper's model: no topology), random (max-min on the topology, paths drawn anew), framing (links carry frames), flow (the requests' own paths), " +
	"decisions (the packet run's decode instances in the flow world's time), replay (its starts, payloads and paths too), packet. " +
	"ci95: half width of the 95% interval by Student's t over the paired differences, gains linearised: over the means of 10 batches of each seed, with 10 seeds or more over the seeds' means. " +
	"wide: the step over all seeds of the flow world. " +
	"transport: ratios of packet over replay transfer times of completed transfers; excess_ms adds up to the mean difference of all completed requests. " +
	"alone: no other transfer on any of its links, or on its acknowledgements' way back, while it lasted; " +
	"ack-path: not slowed on its links, but its acknowledgements met the data of others on their way back; " +
	"classes of the transport step: its parts by class, in the step's unit, which add up to it"

const (
	// redraws is the number of further flow runs per packet seed, each with other tie-break draws.
	redraws = 20
	// mostRequests bounds the runs that only narrow intervals: half a minute on two CPUs.
	mostRequests = 800_000
)

// stageAgain names one of the runs with other tie-break draws.
func stageAgain(k int) string { return fmt.Sprint("flow again ", k) }

// job is one run of one stage.
type job struct {
	stage  string
	policy scenarios.Policy
	seed   uint64
	packet []results.Record // the records whose decisions are repeated
	redraw uint64           // number of the set of other tie-break draws; 0 means the requests' own
}

// makeJobs lists the runs of the stages that the experiment has not made itself. packet are the
// packet run's trials, and wide the flow world's seeds. It also returns the seeds that are used:
// all, unless that makes too many requests.
func makeJobs(c *trials.Cluster, packet []trial, wide []uint64) ([]job, []uint64, error) {
	byLabel := map[string]scenarios.Policy{}
	for _, p := range c.Policies() {
		byLabel[trials.Label(p)] = p
	}
	most := 0
	for _, t := range packet {
		if _, known := byLabel[t.policy]; !known {
			return nil, nil, fmt.Errorf("records of policy %s, which the scenario does not have", t.policy)
		}
		most = max(most, len(t.records))
	}
	wide, draws := afford(packet, wide, len(c.Policies()), most)
	var out []job
	for _, p := range c.Policies() {
		for _, seed := range wide {
			for _, stage := range []string{stageTier, stageRandom, stageFraming} {
				out = append(out, job{stage: stage, policy: p, seed: seed})
			}
		}
	}
	for _, t := range packet {
		p := byLabel[t.policy]
		out = append(out, job{stage: stageDecisions, policy: p, seed: t.seed, packet: t.records})
		for k := range draws {
			out = append(out, job{stage: stageAgain(k), policy: p, seed: t.seed, redraw: uint64(k + 1)})
		}
	}
	return out, wide, nil
}

// afford reduces the runs that only narrow intervals (the seeds beyond the packet run's, and the
// redraws) until they fit into mostRequests. Fewer than five redraws are useless.
func afford(packet []trial, wide []uint64, policies, requests int) (seeds []uint64, draws int) {
	var extra []uint64
	for _, seed := range wide {
		if slices.ContainsFunc(packet, func(t trial) bool { return t.seed == seed }) {
			seeds = append(seeds, seed)
		} else {
			extra = append(extra, seed)
		}
	}
	needed := (3*len(seeds)*policies + len(packet)) * requests
	wanted := (3*len(extra)*policies + redraws*len(packet)) * requests
	share := 1.0
	if wanted > 0 {
		share = min(1, max(0, float64(mostRequests-needed)/float64(wanted)))
	}
	draws = int(share * redraws)
	if draws < 5 {
		draws = 0
	}
	return append(seeds, extra[:int(share*float64(len(extra)))]...), draws
}

// redrawsMethod describes the runs behind the wide figures of decisions.
func redrawsMethod(jobs []job) string {
	var draws uint64
	for i := range jobs {
		draws = max(draws, jobs[i].redraw)
	}
	if draws == 0 {
		return ". wide of decisions: absent, since the run has too many requests to repeat"
	}
	return fmt.Sprintf(". wide of decisions: their stage against the mean of %d flow runs of the same requests with other tie-break draws, "+
		"and its interval is where one more of those would lie in 95%%", draws)
}

// run makes the runs on all CPUs and adds them to the table.
func run(ctx context.Context, flow trials.Flow, jobs []job, t analysis.Table) error {
	var adding sync.Mutex // the order in which runs are added does not matter
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range jobs {
		g.Go(func() error {
			records, err := jobs[i].play(ctx, flow)
			if err != nil {
				return fmt.Errorf("stage %s: %w", jobs[i].stage, err)
			}
			adding.Lock()
			defer adding.Unlock()
			add(t, jobs[i].stage, records)
			return nil
		})
	}
	return g.Wait()
}

// play makes one run.
func (j *job) play(ctx context.Context, flow trials.Flow) ([]results.Record, error) {
	c := flow.Cluster
	load, err := c.Load(j.seed)
	if err != nil {
		return nil, err
	}
	t := trials.Trial{World: results.WorldFlow, Policy: j.policy, Seed: j.seed}
	switch j.stage {
	case stageTier:
		flow.ByTier, flow.Framing = true, 0
	case stageRandom, stageFraming:
		c = c.Vary(func(s *scenarios.Scenario) { s.Transfer.Paths = scenarios.PathsRandom })
		load = &trials.Load{Requests: drawAgain(load.Requests, j.seed)}
		if j.stage == stageRandom {
			flow.Framing = 0
		}
	case stageDecisions:
		t.Wrap = func(own scheduler.Policy) scheduler.Policy { return newRepeated(c.Plan, own, load.Requests, j.packet) }
	default:
		t.Wrap = func(own scheduler.Policy) scheduler.Policy { return &otherDraws{own, j.redraw} }
	}
	return trials.PlayLoad(ctx, flow, c, t, load)
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

// repeated is a policy that repeats the decisions of another run. Requests without a decision
// there are decided by the policy that it replaces.
type repeated struct {
	scheduler.Policy
	plan   *fabric.Plan
	choice map[uint64]int // decode instance by the request's tie-break draw
}

// newRepeated reads the decisions from one trial's records. It identifies a request by its own
// draw, the only part of a decision's input that no other request has.
func newRepeated(plan *fabric.Plan, own scheduler.Policy, requests []workload.Request, records []results.Record) *repeated {
	index := make(map[string]int, len(plan.Decode))
	for i, id := range plan.Decode {
		index[plan.Nodes[id].Name] = i
	}
	s := &repeated{Policy: own, plan: plan, choice: make(map[uint64]int, len(records))}
	for i := range records {
		r := &records[i]
		d, ok := index[r.Decode]
		if ok && r.ID >= 0 && r.ID < len(requests) {
			s.choice[requests[r.ID].TieBreak] = d
		}
	}
	return s
}

// Pick implements scheduler.Policy. Where no instance is feasible none is chosen, as in any run.
// An instance without room refuses the reservation, and the request waits.
func (s *repeated) Pick(r *scheduler.Request, st *scheduler.State) (scheduler.Decision, bool) {
	d, ok := s.Policy.Pick(r, st) // called even if its choice is not used: it may count its decisions
	if !ok {
		return d, false
	}
	chosen, known := s.choice[r.TieBreak]
	if !known || chosen == d.Decode {
		return d, true
	}
	if !st.Alive(chosen) {
		return scheduler.Decision{}, false
	}
	return scheduler.Decision{
		Decode: chosen, Tier: s.plan.Tier(s.plan.Prefill[r.Prefill], s.plan.Decode[chosen]), HitTokens: st.HitTokens(r, chosen),
	}, true
}

// otherDraws is a policy with other tie-break draws than the requests' own. So ties, and all
// that follows from them, are decided differently but equally well. The prefill instance, which
// is chosen by the same draw, does not change.
type otherDraws struct {
	scheduler.Policy
	salt uint64
}

// Pick implements scheduler.Policy.
func (o *otherDraws) Pick(r *scheduler.Request, st *scheduler.State) (scheduler.Decision, bool) {
	other := *r
	other.TieBreak = rand.NewPCG(r.TieBreak, o.salt).Uint64()
	return o.Policy.Pick(&other, st)
}
