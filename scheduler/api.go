// Package scheduler chooses decode instances: Algorithm 1 of the NetKV notes and the rules it is
// compared with.
//
// It is pure and deterministic: no clock, no goroutine, no dependence on map order, and no
// allocation per decision. The caller owns the cluster state (State) and reports changes as they
// happen; a Policy reads it. Nothing here knows whether the cluster is real, emulated or simulated,
// so any Go router can import the package.
//
// Instances are dense indices: prefill instances 0..P-1, decode instances 0..D-1. The request's own
// TieBreak draw breaks ties, uniformly among equal instances, so paired runs of two policies have
// the same draws. (Round robin has no ties.)
//
// Start reading at State, then New for the policies, then netkv.go for the terms of Algorithm 1.
// The line, equation and section numbers in comments are those of the NetKV notes.
package scheduler

import "time"

// Tiers is the number of locality tiers: 0 same server, 1 same rack, 2 same pod, 3 across pods.
const Tiers = 4

// Oracle is the operator-to-scheduler interface of the notes: exactly four maps.
type Oracle struct {
	// Tier[p*D+d] is the locality tier of prefill p and decode d.
	Tier []uint8
	// BytesPerSecond is the static bandwidth of each tier.
	BytesPerSecond [Tiers]float64
	// Latency is the static latency of each tier.
	Latency [Tiers]time.Duration
	// Congestion is the share of each tier's bandwidth that others use, in [0,1).
	Congestion [Tiers]float64
}

// Request is what a decision needs to know of a request.
type Request struct {
	Prefill int // the prefill instance that holds the KV cache
	// PromptTokens is l_r, 1 to 2^30-1; a policy finds no instance for a request out of range.
	PromptTokens int
	// OutputTokens need memory, too; 0 where unknown.
	OutputTokens int
	// Blocks identify the prompt's prefix blocks in order.
	Blocks []uint64
	// TieBreak is the request's own draw for equal scores.
	TieBreak uint64
}

// Decision is a choice and its reasons.
type Decision struct {
	Decode int
	Tier   int
	// HitTokens is lambda: tokens of the prompt that the decode instance holds, as the index knew.
	HitTokens int
	// Cost is C(d) in seconds for policies that compute it, else the policy's own score.
	Cost float64
}

// Policy picks a decode instance. It returns false when no instance is feasible.
// A Policy may keep state (round robin does); it is not safe for concurrent use.
type Policy interface {
	Name() string
	Pick(r *Request, s *State) (Decision, bool)
}
