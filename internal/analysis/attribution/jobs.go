package attribution

import (
	"fmt"
	"slices"

	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

const (
	// redraws is the number of further flow runs per packet seed, each with other tie-break draws.
	redraws = 20
	// mostRequests bounds the runs that only narrow intervals: half a minute on two CPUs.
	mostRequests = 800_000
)

// job is one run of one stage.
type job struct {
	stage  Stage
	policy scenarios.Policy
	seed   uint64
	load   *trials.Load
	packet []results.Record // the records whose decisions are repeated
	redraw uint64           // number of the set of other tie-break draws; 0 means the requests' own
}

// jobs lists the runs of the stages that the experiment has not made itself. packet are the
// packet run's trials, and wide the flow world's seeds. It also returns the seeds that are used:
// all, unless that makes too many requests.
func (e *Experiment) jobs(packet []trial, wide []uint64) ([]job, []uint64, error) {
	byLabel := map[string]scenarios.Policy{}
	for _, p := range e.Cluster.Policies() {
		byLabel[trials.Label(p)] = p
	}
	most := 0
	for _, t := range packet {
		if _, known := byLabel[t.policy]; !known {
			return nil, nil, fmt.Errorf("records of policy %s, which the scenario does not have", t.policy)
		}
		most = max(most, len(t.records))
	}
	wide, draws := afford(packet, wide, len(e.Cluster.Policies()), most)
	var out []job
	for _, p := range e.Cluster.Policies() {
		for _, seed := range wide {
			load, err := e.Cluster.Load(seed)
			if err != nil {
				return nil, nil, err
			}
			for _, stage := range []Stage{StageTier, StageRandom, StageFraming} {
				out = append(out, job{stage: stage, policy: p, seed: seed, load: load})
			}
		}
	}
	for _, t := range packet {
		load, err := e.Cluster.Load(t.seed)
		if err != nil {
			return nil, nil, err
		}
		p := byLabel[t.policy]
		out = append(out, job{stage: StageDecisions, policy: p, seed: t.seed, load: load, packet: t.records})
		for k := range draws {
			out = append(out, job{stage: stageAgain(k), policy: p, seed: t.seed, load: load, redraw: uint64(k + 1)})
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
