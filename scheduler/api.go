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

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

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

// PolicyOptions are the weights of cla and cla*; other policies ignore them.
type PolicyOptions struct {
	// CacheWeight and LoadWeight are finite and 0 or more. Both 0 means 1 and 1 for cla; cla* then
	// has not been tuned, and New refuses it.
	CacheWeight, LoadWeight float64
}

// pickFunc chooses an instance for a request that is in range; the prompt is matched already.
type pickFunc func(r *Request, s *State) (Decision, bool)

type policy struct {
	name string
	pick pickFunc
}

func (p *policy) Name() string { return p.name }

func (p *policy) Pick(r *Request, s *State) (Decision, bool) {
	if !s.open(r) {
		return Decision{}, false
	}
	return p.pick(r, s)
}

// table lists the policies in the order of the documents: those that ignore the cluster's
// state, those aware of cache and load, the production rules, NetKV.
var table = []policy{
	{"random", cheapest(random)},
	{"rr", nil}, // New makes it: it keeps its turn
	{"least-loaded", cheapest(leastLoaded)},
	{"ca", cheapest(cacheAware)},
	{"cla", nil}, // New makes both: they have weights
	{"cla*", nil},
	{"llmd", llmd{prefix: 2, queue: 1}.pick},
	{"llmd-default", llmd{prefix: 3, queue: 2, memory: 2}.pick},
	{"llmd-topology", llmd{prefix: 2, queue: 1, proximity: 1}.pick},
	{"sglang", sglang},
	{"dynamo", cheapest(decodeBlocks)},
	{"netkv-topo", TierMap.pick},
	{"netkv-static", SelfContention.pick},
	{"netkv-full", Congestion.pick},
}

// Names returns the names of all policies. The slice is the caller's.
func Names() []string {
	names := make([]string, len(table))
	for i, p := range table {
		names[i] = p.name
	}
	return names
}

// New returns a policy by name. All of them choose among the instances that are alive and have
// enough memory (line 1 of Algorithm 1), and draw among equal instances by Request.TieBreak:
//
//	random         any
//	rr             each in turn
//	least-loaded   lowest q + beta
//	ca             longest prefix match (llm-d's prefix scorer alone)
//	cla            highest CacheWeight x lambda/l - LoadWeight x (q + beta)/beta_max
//	cla*           the same with tuned weights
//	llmd           2 x prefix + 1 x queue, llm-d's sample for prefill/decode pools
//	llmd-default   3 x prefix + 2 x queue + 2 x (1 - KV usage), llm-d without a configuration
//	llmd-topology  llmd + 1 x topology affinity (host 1, rack 0.2, pod 0.05, else 0.02)
//	sglang         cache_aware of SGLang's gateway: thresholds 0.3, 64, 1.5
//	dynamo         lowest number of active decode blocks (Dynamo's decode router)
//	netkv-topo     Algorithm 1 with the static tier map only (c = 0, n = 0)
//	netkv-static   the same with self-contention (c = 0)
//	netkv-full     Algorithm 1
//
// Decision.Cost is C(d) in seconds for the last three, the count that least-loaded and dynamo
// minimise, minus the score for those that maximise one, and 0 for random and rr. The error for an
// unknown name lists the known names.
func New(name string, o PolicyOptions) (Policy, error) {
	i := slices.IndexFunc(table, func(p policy) bool { return p.name == name })
	if i < 0 {
		return nil, fmt.Errorf("policy %q is unknown; known are %s", name, strings.Join(Names(), ", "))
	}
	p := table[i]
	switch name {
	case "rr":
		return new(roundRobin), nil
	case "cla", "cla*":
		if err := o.weigh(name); err != nil {
			return nil, err
		}
		p.pick = cheapest(o.cacheLoad)
	}
	return &p, nil
}

// weigh checks the weights, and sets those of cla where there are none.
func (o *PolicyOptions) weigh(policy string) error {
	for _, w := range []struct {
		field string
		v     float64
	}{{"CacheWeight", o.CacheWeight}, {"LoadWeight", o.LoadWeight}} {
		if !nonNegative(w.v) || w.v > math.MaxInt32 {
			return fmt.Errorf("policy %s: %s is %v, want a number, 0 to %d", policy, w.field, w.v, math.MaxInt32)
		}
	}
	if o.CacheWeight == 0 && o.LoadWeight == 0 {
		if policy == "cla*" {
			return fmt.Errorf("policy cla*: no weights: tune it, or set CacheWeight and LoadWeight (cla runs with 1 and 1)")
		}
		o.CacheWeight, o.LoadWeight = 1, 1
	}
	return nil
}
