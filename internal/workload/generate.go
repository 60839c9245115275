package workload

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/netkvlab/netkvlab/scenarios"
)

// Generate makes the requests of one trial, in arrival order, for workloads of kind synthetic
// and trace. Any seed is possible; a paired comparison needs one of the scenario's. Trace files
// are opened by their names in the scenario. A bad line gives an error that begins with
// "file:line:".
func Generate(s *scenarios.Scenario, seed uint64) ([]Request, Report, error) {
	if err := checkStreams(s); err != nil {
		return nil, Report{}, err
	}
	var (
		reqs   []Request
		report Report
		err    error
	)
	switch s.Workload.Kind {
	case "synthetic":
		reqs, report, err = synthesize(s, seed)
	case "trace":
		reqs, report, err = replay(s, seed)
	default:
		return nil, Report{}, fmt.Errorf("workload.kind %q: want synthetic or trace (flows are read by LoadFlows)", s.Workload.Kind)
	}
	if err != nil {
		return nil, Report{}, err
	}
	finish(reqs, s.Transfer.Streams, s.Workload.Tenants, seed)
	report.Kind = s.Workload.Kind
	report.describe(reqs)
	return reqs, report, nil
}

// finish orders requests by arrival, keeping the given order of equal ones,
// numbers them, and gives each its draws and its tenant.
func finish(reqs []Request, streams, tenants int, seed uint64) {
	slices.SortStableFunc(reqs, func(a, b Request) int { return cmp.Compare(a.Arrival, b.Arrival) })
	for i := range reqs {
		reqs[i].ID = i
		reqs[i].TieBreak, reqs[i].PathDraws = draws(seed, i, streams)
		reqs[i].Tenant = tenant(seed, i, tenants)
	}
}

// describe fills in the figures that are common to all kinds.
func (r *Report) describe(reqs []Request) {
	r.Requests = len(reqs)
	if len(reqs) == 0 {
		return
	}
	r.FirstArrival, r.LastArrival = reqs[0].Arrival, reqs[len(reqs)-1].Arrival
	var prompt, output float64
	for i := range reqs {
		prompt += float64(reqs[i].PromptTokens)
		output += float64(reqs[i].OutputTokens)
		if i == 0 || reqs[i].Arrival != reqs[i-1].Arrival {
			r.DistinctInstants++
		}
	}
	r.MeanPromptTokens = prompt / float64(len(reqs))
	r.MeanOutputTokens = output / float64(len(reqs))
}
