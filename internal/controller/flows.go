package controller

import (
	"fmt"
	"time"

	"github.com/netkvlab/netkvlab/internal/results"
)

// FlowSpec is one explicit transfer, resolved against the plan.
type FlowSpec struct {
	ID       int
	Start    time.Duration
	From, To int // endpoint indices
	Tier     int
	Bytes    int64 // paper bytes
	// Slots is the equal-cost path of each stream.
	Slots []int
}

// FlowsConfig describes a replay of explicit transfers.
type FlowsConfig struct {
	World     string
	Seed      uint64
	Flows     []FlowSpec // by start
	Endpoints []string   // node names
	RateScale float64
	NICs      int
	Drain     time.Duration
}

type replay struct {
	movement
	spec           *FlowSpec
	finished       time.Duration
	emulated       int64
	status, reason string // no status: not ended
}

// Flows is the Driver that starts each transfer at its time and records when its last byte
// arrived. It decides nothing and retries nothing.
type Flows struct {
	course
	cfg   FlowsConfig
	flows []replay
}

var _ Driver = (*Flows)(nil)

// FlowsPolicy is the policy label of explicit flows in records, where no policy decides.
const FlowsPolicy = "as-given"

// NewFlows checks the configuration and returns the replay at time 0.
func NewFlows(cfg FlowsConfig) (*Flows, error) {
	c := &Flows{course: course{drain: cfg.Drain}, cfg: cfg, flows: make([]replay, len(cfg.Flows))}
	for i := range cfg.Flows {
		f := &cfg.Flows[i]
		if f.ID != i || (i > 0 && f.Start < cfg.Flows[i-1].Start) {
			return nil, fmt.Errorf("controller: flow %d: flows must be numbered in start order", i)
		}
		if len(f.Slots) == 0 || f.Bytes < 1 {
			return nil, fmt.Errorf("controller: flow %d: needs at least one stream and one byte", i)
		}
		c.flows[i] = replay{
			movement: movement{issued: nothing, sent: nothing},
			spec:     f, finished: nothing, emulated: EmulatedBytes(f.Bytes, cfg.RateScale),
		}
		c.arrive(f.Start)
	}
	return c, nil
}

// Wake implements Driver.
func (c *Flows) Wake(now time.Duration) []Action {
	c.actions = c.actions[:0]
	for i, ok := c.due(now); ok; i, ok = c.due(now) {
		f := &c.flows[i]
		f.issued = now
		streams := splitStreams(f.emulated, f.spec.Bytes, len(f.spec.Slots), func(s int) (nic, path int) {
			return s % c.cfg.NICs, f.spec.Slots[s]
		})
		c.act(Action{Kind: DoTransfer, Request: f.spec.ID, Attempt: 1, Prefill: f.spec.From, Decode: f.spec.To, Streams: streams})
	}
	if c.overtime(now) {
		c.endAll(results.Failed, fmt.Sprintf("not finished %v after the last start", c.cfg.Drain))
	}
	return c.actions
}

func (c *Flows) endAll(status, reason string) {
	for i := range c.flows {
		c.end(&c.flows[i], status, reason)
	}
}

func (c *Flows) end(f *replay, status, reason string) {
	if f.status == "" {
		f.status, f.reason = status, reason
		c.ended++
	}
}

// Handle implements Driver.
func (c *Flows) Handle(_ time.Duration, ev Event) []Action {
	c.actions = c.actions[:0]
	switch {
	case ev.Kind == PrefillDown:
		c.endpointDown(ev.Prefill, ev.Reason)
	case ev.Kind == DecodeDown:
		c.endpointDown(ev.Decode, ev.Reason)
	case ev.Request >= 0 && ev.Request < len(c.flows):
		c.onTransfer(&c.flows[ev.Request], ev)
	}
	return c.actions
}

func (c *Flows) onTransfer(f *replay, ev Event) {
	switch ev.Kind {
	case TransferSent:
		f.onSent(ev)
	case TransferDone:
		f.onArrived(ev)
		f.finished = ev.At
		c.end(f, results.Completed, "")
	case Failed:
		f.moved = max(f.moved, ev.BytesEmulated)
		c.end(f, results.Failed, ev.Reason)
	}
}

func (c *Flows) endpointDown(i int, reason string) {
	for k := range c.flows {
		if f := &c.flows[k]; f.spec.From == i || f.spec.To == i {
			c.end(f, results.Failed, reason)
		}
	}
}

// Cut implements Driver.
func (c *Flows) Cut(_ time.Duration, reason string) { c.endAll(results.Incomplete, reason) }

// Records implements Driver.
func (c *Flows) Records() []results.Record {
	out := make([]results.Record, len(c.flows))
	for i := range c.flows {
		f := &c.flows[i]
		r := results.Record{
			World: c.cfg.World, Policy: FlowsPolicy, Seed: c.cfg.Seed, ID: f.spec.ID, Status: f.status, Reason: f.reason,
			ArrivalMS: results.MS(f.spec.Start), Prefill: c.cfg.Endpoints[f.spec.From], Decode: c.cfg.Endpoints[f.spec.To],
			Tier: f.spec.Tier, Attempts: 1, PayloadBytes: f.spec.Bytes, PayloadBytesEmulated: f.emulated,
		}
		if r.Status == "" {
			r.Status, r.Reason = results.Incomplete, "in progress"
		}
		start := f.record(&r)
		if start != nothing && f.finished != nothing {
			finish := results.MS(f.finished)
			r.TransferMS, r.FinishMS = results.MS(f.finished-start), &finish
		}
		out[i] = r
	}
	return out
}
