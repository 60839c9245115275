package workload

import "time"

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
