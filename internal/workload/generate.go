package workload

import (
	"cmp"
	"slices"
	"time"

	"github.com/netkvlab/netkvlab/scenarios"
)

// Request is one prompt, with everything random about it fixed in advance, so that every policy
// and both worlds have the same draws.
type Request struct {
	ID      int           // position in arrival order, 0-based
	Arrival time.Duration // paper time since the trial's start
	// PromptTokens >= 1; OutputTokens >= 1.
	PromptTokens, OutputTokens int
	// Blocks identify the prompt's prefix blocks, in order; equal id means equal
	// block and equal prefix. ceil(PromptTokens / blockTokens) entries, or none.
	Blocks []uint64
	// Tenant is the index of the tenant whose scheduler decides for it, from 0.
	Tenant int
	// TieBreak decides between equal scores; PathDraws has one draw per stream. The path slot of
	// stream s is PathDraws[s] mod (number of equal-cost paths).
	TieBreak  uint64
	PathDraws []uint64
}

// FlowRequest is one explicit transfer, with its draws fixed in advance as in a Request.
type FlowRequest struct {
	ID int // position in start order, 0-based
	// Flow's Start is paper time since the trial's start; without Via, PathDraws choose the path.
	scenarios.Flow
	TieBreak  uint64
	PathDraws []uint64 // one per stream, as in Request
}

// Generate makes the requests of one trial, in arrival order, for a valid scenario of kind synthetic
// or trace. Any seed is possible; a paired comparison needs one of the scenario's. Trace files
// are opened by their names in the scenario. A bad line gives an error that begins with
// "file:line:".
func Generate(s *scenarios.Scenario, seed uint64) ([]Request, Report, error) {
	draw := synthesize
	if s.Workload.Kind == scenarios.WorkloadTrace {
		draw = replay
	}
	reqs, report, err := draw(s, seed)
	if err != nil {
		return nil, Report{}, err
	}
	finish(reqs, s.Transfer.Streams, s.Workload.Tenants, seed)
	report.Requests, report.DistinctInstants = len(reqs), instants(reqs)
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

// instants counts the different arrival times of ordered requests.
func instants(reqs []Request) int {
	n := 0
	for i := range reqs {
		if i == 0 || reqs[i].Arrival != reqs[i-1].Arrival {
			n++
		}
	}
	return n
}
