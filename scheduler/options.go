package scheduler

import (
	"fmt"
	"math"
	"time"
)

// maxInstances bounds each pool, so that indices fit in 32 bits.
const maxInstances = 1 << 20

// Options describe the cluster that a State mirrors. Times and bytes are those of the modelled cluster.
type Options struct {
	// Prefills and Decodes are the sizes of the pools, 1 to 2^20 each.
	Prefills, Decodes int
	// MaxBatch is beta_max, the sequences that one decode iteration serves; 1 or more.
	MaxBatch int
	// BlockTokens is the tokens of a prefix block, 1 or more.
	BlockTokens int
	// KVBytesPerToken is Eq. 1 of the notes for one token, 1 or more; s_r = KVBytesPerToken x PromptTokens.
	KVBytesPerToken int64
	// MinFreeBytes is m_min of Algorithm 1, the memory that must stay free beyond the request; 0 or more.
	MinFreeBytes int64
	// MemoryBytes is the KV memory of a decode instance, 1 or more; all of it is free at first.
	MemoryBytes int64
	// DecodeBase and DecodePerSequence, 0 to an hour each, give t_iter(b) = base + perSequence x b.
	DecodeBase, DecodePerSequence time.Duration
	// DecodePerContextTokenNs, finite and 0 or more, adds the reading of the context to t_iter:
	// nanoseconds per prompt token in the batch. 0 is the paper's t_iter(b).
	DecodePerContextTokenNs float64
	// InFlightCap bounds n in Eq. 4, 1 or more. The paper's default is 16.
	InFlightCap int
	// Separation means that congestion excludes the cluster's own KV traffic (separated by DSCP
	// class). Otherwise congestion contains all traffic; then false makes n = 0 in every cost, as
	// the notes' section 7 asks.
	Separation bool
	// Oracle has the static maps and the first congestion values. NewState copies it.
	Oracle Oracle
}

func (o *Options) validate() error {
	for _, f := range []struct {
		name          string
		v, low, limit int64
	}{
		{"Prefills", int64(o.Prefills), 1, maxInstances},
		{"Decodes", int64(o.Decodes), 1, maxInstances},
		{"MaxBatch", int64(o.MaxBatch), 1, math.MaxInt32},
		{"BlockTokens", int64(o.BlockTokens), 1, math.MaxInt32},
		{"KVBytesPerToken", o.KVBytesPerToken, 1, math.MaxInt32},
		{"MinFreeBytes", o.MinFreeBytes, 0, math.MaxInt64 / 2},
		{"MemoryBytes", o.MemoryBytes, 1, math.MaxInt64 / 2},
		{"DecodeBase", int64(o.DecodeBase), 0, int64(time.Hour)},
		{"DecodePerSequence", int64(o.DecodePerSequence), 0, int64(time.Hour)},
		{"InFlightCap", int64(o.InFlightCap), 1, math.MaxInt32},
	} {
		if f.v < f.low || f.v > f.limit {
			return fmt.Errorf("scheduler options: %s is %d, want %d to %d", f.name, f.v, f.low, f.limit)
		}
	}
	if !nonNegative(o.DecodePerContextTokenNs) {
		return fmt.Errorf("scheduler options: DecodePerContextTokenNs is %v, want a finite number, 0 or more", o.DecodePerContextTokenNs)
	}
	return o.Oracle.validate(o.Prefills, o.Decodes)
}

func (o *Oracle) validate(prefills, decodes int) error {
	if len(o.Tier) != prefills*decodes {
		return fmt.Errorf("scheduler options: Oracle.Tier has %d entries, want Prefills x Decodes = %d", len(o.Tier), prefills*decodes)
	}
	var used [Tiers]bool
	for i, t := range o.Tier {
		if t >= Tiers {
			return fmt.Errorf("scheduler options: Oracle.Tier of prefill %d and decode %d is %d, want 0 to %d", i/decodes, i%decodes, t, Tiers-1)
		}
		used[t] = true
	}
	for t := range Tiers {
		if b := o.BytesPerSecond[t]; used[t] && (!nonNegative(b) || b == 0) {
			return fmt.Errorf("scheduler options: Oracle.BytesPerSecond of tier %d is %v, want a finite number above 0", t, b)
		}
		if l := o.Latency[t]; l < 0 || l > time.Hour {
			return fmt.Errorf("scheduler options: Oracle.Latency of tier %d is %v, want 0 to %v", t, l, time.Hour)
		}
		if c := o.Congestion[t]; !nonNegative(c) {
			return fmt.Errorf("scheduler options: Oracle.Congestion of tier %d is %v, want 0 up to 1", t, c)
		}
	}
	return nil
}

func nonNegative(v float64) bool { return v >= 0 && !math.IsInf(v, 0) }

func (o *Options) hasPrefill(p int) bool { return p >= 0 && p < o.Prefills }

// maxTokens bounds the prompt and the output of a request, so no product of tokens and bytes wraps.
const maxTokens = math.MaxInt32 / 2

func (o *Options) inRange(r *Request) bool {
	return o.hasPrefill(r.Prefill) && r.PromptTokens >= 1 && r.PromptTokens <= maxTokens && r.OutputTokens <= maxTokens
}

func (o *Options) tier(prefill, decode int) int { return int(o.Oracle.Tier[prefill*o.Decodes+decode]) }

// tokens is how many tokens of a prompt are in a number of its leading blocks.
func (o *Options) tokens(r *Request, blocks int) int {
	return min(r.PromptTokens, blocks*o.BlockTokens)
}

// need is the memory that a request takes: s_eff, and the KV cache of its output.
func (o *Options) need(r *Request, hitTokens int) int64 {
	return int64(max(r.PromptTokens-hitTokens, 0)+max(r.OutputTokens, 0)) * o.KVBytesPerToken
}

// blocks returns ceil(tokens / BlockTokens).
func (o *Options) blocks(tokens int) int64 {
	return (int64(max(tokens, 0)) + int64(o.BlockTokens) - 1) / int64(o.BlockTokens)
}

func (o *Options) blockBytes() int64 { return int64(o.BlockTokens) * o.KVBytesPerToken }

// iteration is t_iter in seconds.
func (o *Options) iteration(batch int, context int64) float64 {
	ns := float64(o.DecodeBase) + float64(o.DecodePerSequence)*float64(batch) + o.DecodePerContextTokenNs*float64(context)
	return ns / 1e9
}
