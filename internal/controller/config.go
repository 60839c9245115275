package controller

import (
	"fmt"
	"math"
	"time"

	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/kvagent/engine"
)

// Config describes one serving trial.
type Config struct {
	World, Policy string // labels for the records
	Seed          uint64
	Requests      []workload.Request // by arrival

	PrefillNames, DecodeNames []string
	Prefill                   engine.PrefillConfig
	// Tenants are the schedulers; Request.Tenant is the index of a request's own.
	Tenants []Tenant

	KVBytesPerToken int64
	MemoryBytes     int64
	RateScale       float64 // S: emulated bytes = paper bytes / S
	Streams         int     // TCP connections per transfer
	NICs            int     // per instance
	// Paths is the number of equal-cost paths of a pair, for one NIC.
	Paths func(prefill, decode int) int
	// Sticky keeps one path per pair and stream, instead of one draw per request.
	Sticky bool

	// OverlapPieces lets the transfer start with the prefill: for a prompt of n tokens it leaves in
	// OverlapPieces(n) > 0 pieces. nil: the transfer follows the prefill.
	OverlapPieces func(promptTokens int) int

	Retries int           // further attempts of a transfer that failed
	Drain   time.Duration // after the last arrival; requests still open then fail

	// TransferTimeout is the time after which the agents themselves give up a transfer.
	TransferTimeout time.Duration
	// AnswerTimeout is how much later than expected an instance may answer before it is taken out
	// of service; 0 means no limit.
	AnswerTimeout time.Duration

	// Stopwatch reads a monotonic clock in nanoseconds to time decisions; nil: not timed.
	Stopwatch func() int64
}

func (c *Config) check() error {
	switch {
	case len(c.PrefillNames) == 0:
		return fmt.Errorf("controller: no prefill instance")
	case len(c.DecodeNames) == 0:
		return fmt.Errorf("controller: no decode instance")
	case len(c.Tenants) == 0:
		return fmt.Errorf("controller: needs a policy and its state")
	case c.Streams < 1 || c.NICs < 1:
		return fmt.Errorf("controller: streams and NICs must be at least 1, got %d and %d", c.Streams, c.NICs)
	case !(c.RateScale > 0) || math.IsInf(c.RateScale, 0):
		return fmt.Errorf("controller: rate scale must be positive, got %g", c.RateScale)
	}
	for i, r := range c.Requests {
		switch {
		case r.ID != i:
			return fmt.Errorf("controller: request %d has id %d; requests must be numbered in arrival order", i, r.ID)
		case i > 0 && r.Arrival < c.Requests[i-1].Arrival:
			return fmt.Errorf("controller: request %d arrives before request %d", i, i-1)
		case r.Tenant < 0 || r.Tenant >= len(c.Tenants):
			return fmt.Errorf("controller: request %d is of tenant %d, and there are %d, counted from 0", i, r.Tenant, len(c.Tenants))
		case len(r.PathDraws) < c.Streams:
			return fmt.Errorf("controller: request %d has %d path draws for %d streams", i, len(r.PathDraws), c.Streams)
		}
	}
	return nil
}

// EmulatedBytes is the size of a payload of paper bytes in the emulated fabric: payload / S,
// rounded up so that no payload becomes 0.
func EmulatedBytes(paper int64, rateScale float64) int64 {
	return int64(math.Ceil(float64(paper) / rateScale))
}

// need is the memory that the scheduler's state subtracts from an instance's free memory for a
// reservation.
func (c *Config) need(f *flight) int64 {
	return int64(f.req.PromptTokens-f.decision.HitTokens+f.req.OutputTokens) * c.KVBytesPerToken
}

// transfer returns the action that moves a payload; with overlap its pieces leave as they are
// computed.
func (c *Config) transfer(f *flight) Action {
	a := Action{Kind: DoTransfer, Request: f.req.ID, Attempt: f.attempt, Prefill: f.prefill, Decode: f.decode, Streams: c.streams(f)}
	if c.OverlapPieces != nil && !f.computed {
		a.Pieces = c.OverlapPieces(f.req.PromptTokens)
		a.ReleaseFrom, a.ReleaseTo = f.started, f.started+c.Prefill.Model.Prefill(f.req.PromptTokens)
	}
	return a
}

// streams splits the payload; a full prefix hit needs no streams.
func (c *Config) streams(f *flight) []Stream {
	if f.emulated == 0 {
		return nil
	}
	paths := uint64(max(1, c.Paths(f.prefill, f.decode)))
	return splitStreams(f.emulated, f.payload, c.Streams, func(s int) (nic, path int) {
		draw := f.req.PathDraws[s]
		if c.Sticky {
			draw = uint64(f.prefill*len(c.DecodeNames)+f.decode) + uint64(s)
		}
		return s % c.NICs, int(draw % paths)
	})
}

// splitStreams splits a payload evenly into whole bytes over n connections, in both units.
func splitStreams(emulated, paper int64, n int, slot func(stream int) (nic, path int)) []Stream {
	out := make([]Stream, n)
	for s := range out {
		part := func(whole int64) int64 { return (whole + int64(n-1-s)) / int64(n) } // the first get the remainder
		nic, path := slot(s)
		out[s] = Stream{NIC: nic, Path: path, BytesEmulated: part(emulated), Bytes: part(paper)}
	}
	return out
}
