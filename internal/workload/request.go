package workload

import (
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
	ID       int           // position in start order, 0-based
	Start    time.Duration // paper time since the trial's start
	From, To string        // instance names: p0, d3, i7
	Bytes    scenarios.Bytes
	// Via lists the switches the path crosses, in order; empty leaves the path to PathDraws.
	Via       []string
	TieBreak  uint64
	PathDraws []uint64 // one per stream, as in Request
}
