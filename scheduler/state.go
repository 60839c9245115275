package scheduler

import "time"

// Options describe the cluster that a State mirrors.
type Options struct {
	Prefills, Decodes int // 1 or more each
	MaxBatch          int // beta_max, 1 or more
	BlockTokens       int // tokens a prefix block, 1 or more
	KVBytesPerToken   int64
	MinFreeBytes      int64 // m_min of Algorithm 1, 0 or more
	MemoryBytes       int64 // KV memory of a decode instance, 1 or more
	DecodeBase        time.Duration
	DecodePerSequence time.Duration
	// DecodePerContextTokenNs prices the context in t_iter; 0 leaves the paper's t_iter(batch).
	DecodePerContextTokenNs float64
	InFlightCap             int  // cap of n, 1 or more; the paper's default is 16
	Separation              bool // false: n = 0 and congestion holds everything
	Oracle                  Oracle
}

// State mirrors the cluster for the policies.
type State struct{}

// NewState checks the options and returns the state of an idle, empty cluster.
func NewState(Options) (*State, error) { return &State{}, nil }

// SetCongestion replaces the oracle's congestion map.
func (s *State) SetCongestion([Tiers]float64) {}

// Begin books a decision: in-flight transfer, queue place and memory. False: out of range.
func (s *State) Begin(r *Request, d Decision) bool { return true }

// TransferEnded releases the in-flight counter; false when there was none to release.
func (s *State) TransferEnded(prefill, decode, tier int) bool { return true }

// Admitted moves a request from queue to batch.
func (s *State) Admitted(decode, promptTokens int) bool { return true }

// Finished takes a request out of the batch.
func (s *State) Finished(decode, promptTokens int) bool { return true }

// Abandoned takes a request that was never admitted out of the queue.
func (s *State) Abandoned(decode, promptTokens int) bool { return true }

// SetFree mirrors the engine's report of its free memory.
func (s *State) SetFree(decode int, bytes int64) bool { return true }

// SetAlive excludes a lost decode instance from every choice, or takes it back with an empty cache.
func (s *State) SetAlive(decode int, alive bool) bool { return true }

// Stored adds blocks to the prefix index.
func (s *State) Stored(decode int, blocks []uint64) bool { return true }

// Evicted removes blocks from the prefix index.
func (s *State) Evicted(decode int, blocks []uint64) bool { return true }

// Queued returns q_d.
func (s *State) Queued(decode int) int { return 0 }

// Batch returns beta_d.
func (s *State) Batch(decode int) int { return 0 }

// Free returns m_d in bytes.
func (s *State) Free(decode int) int64 { return 0 }

// InFlight returns the transfers of a prefill on a tier, not capped.
func (s *State) InFlight(tier, prefill int) int { return 0 }

// HitTokens returns lambda of a request on one instance.
func (s *State) HitTokens(r *Request, decode int) int { return 0 }
