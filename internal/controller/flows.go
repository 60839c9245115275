package controller

import (
	"fmt"
	"slices"
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
	spec            *FlowSpec
	issued, done    bool
	ordered, sent   time.Duration
	finished        time.Duration
	emulated, moved int64
	streams         []results.StreamRecord
	status, reason  string
}

// Flows is the Driver that starts each transfer at its time and records when its last byte
// arrived. It decides nothing and retries nothing.
type Flows struct {
	cfg      FlowsConfig
	flows    []replay
	next     int
	ended    int
	deadline time.Duration
	actions  []Action
}

var _ Driver = (*Flows)(nil)

// FlowsPolicy is the policy label of explicit flows in records, where no policy decides.
const FlowsPolicy = "as-given"

// NewFlows checks the configuration and returns the replay at time 0.
func NewFlows(cfg FlowsConfig) (*Flows, error) {
	c := &Flows{cfg: cfg, flows: make([]replay, len(cfg.Flows))}
	for i := range cfg.Flows {
		f := &cfg.Flows[i]
		if f.ID != i || (i > 0 && f.Start < cfg.Flows[i-1].Start) {
			return nil, fmt.Errorf("controller: flow %d: flows must be numbered in start order", i)
		}
		if len(f.Slots) == 0 || f.Bytes < 1 {
			return nil, fmt.Errorf("controller: flow %d: needs at least one stream and one byte", i)
		}
		c.flows[i] = replay{
			spec: f, sent: nothing, ordered: nothing, finished: nothing,
			emulated: EmulatedBytes(f.Bytes, cfg.RateScale),
		}
		c.deadline = max(c.deadline, f.Start)
	}
	c.deadline += cfg.Drain
	return c, nil
}

// Next implements Driver.
func (c *Flows) Next() (time.Duration, bool) {
	switch {
	case c.next < len(c.flows):
		return c.flows[c.next].spec.Start, true
	case !c.Done() && c.cfg.Drain > 0:
		return c.deadline, true
	}
	return 0, false
}

// Done implements Driver.
func (c *Flows) Done() bool { return c.ended == len(c.flows) }

// Progress implements Driver.
func (c *Flows) Progress() (ended, total int) { return c.ended, len(c.flows) }

// Wake implements Driver.
func (c *Flows) Wake(now time.Duration) []Action {
	c.actions = c.actions[:0]
	for c.next < len(c.flows) && c.flows[c.next].spec.Start <= now {
		f := &c.flows[c.next]
		c.next++
		f.issued, f.ordered = true, now
		streams := splitStreams(f.emulated, f.spec.Bytes, len(f.spec.Slots), func(s int) (nic, path int) {
			return s % c.cfg.NICs, f.spec.Slots[s]
		})
		c.actions = append(c.actions, Action{
			Kind: DoTransfer, Request: f.spec.ID, Attempt: 1, Prefill: f.spec.From, Decode: f.spec.To, Streams: streams,
		})
	}
	if c.next == len(c.flows) && c.cfg.Drain > 0 && now >= c.deadline {
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
	if f.done {
		return
	}
	f.done, f.status, f.reason = true, status, reason
	c.ended++
}

// Postpone moves the drain limit by the time for which the controller did not run.
func (c *Flows) Postpone(by time.Duration) { c.deadline += by }

// Handle implements Driver.
func (c *Flows) Handle(_ time.Duration, ev Event) []Action {
	c.actions = c.actions[:0]
	switch ev.Kind {
	case PrefillDown, DecodeDown:
		c.endpointDown(ev)
		return c.actions
	}
	if ev.Request < 0 || ev.Request >= len(c.flows) {
		return c.actions
	}
	f := &c.flows[ev.Request]
	switch ev.Kind {
	case TransferSent:
		f.sent = ev.Start
		for _, s := range ev.Streams {
			mergeStream(&f.streams, s).Retransmits = s.Retransmits
		}
	case TransferDone:
		f.moved, f.finished = ev.BytesEmulated, ev.At
		for _, s := range ev.Streams {
			r := mergeStream(&f.streams, s)
			r.Bytes, r.FirstMS, r.LastMS = s.BytesEmulated, results.MS(s.First), results.MS(s.Last)
		}
		c.end(f, results.Completed, "")
	case Failed:
		f.moved = max(f.moved, ev.BytesEmulated)
		c.end(f, results.Failed, ev.Reason)
	}
	return c.actions
}

func (c *Flows) endpointDown(ev Event) {
	i := ev.Prefill
	if ev.Kind == DecodeDown {
		i = ev.Decode
	}
	for k := range c.flows {
		if f := &c.flows[k]; f.spec.From == i || f.spec.To == i {
			c.end(f, results.Failed, ev.Reason)
		}
	}
}

// mergeStream finds or adds a stream's row: the two ends may report in any order.
func mergeStream(rows *[]results.StreamRecord, s StreamReport) *results.StreamRecord {
	i := slices.IndexFunc(*rows, func(r results.StreamRecord) bool {
		return r.SourcePort == s.SourcePort && r.NIC == s.NIC
	})
	if i < 0 {
		*rows = append(*rows, results.StreamRecord{SourcePort: s.SourcePort, NIC: s.NIC, Slot: s.Path})
		i = len(*rows) - 1
	}
	return &(*rows)[i]
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
			MovedBytesEmulated: f.moved, Streams: slices.Clone(f.streams),
		}
		if !f.done {
			r.Status, r.Reason = results.Incomplete, "in progress"
		}
		f.times(&r)
		out[i] = r
	}
	return out
}

func (f *replay) times(r *results.Record) {
	start := f.sent
	if start == nothing {
		start = f.ordered
	}
	if start == nothing {
		return
	}
	r.TransferStartMS = results.MS(start)
	for i := range r.Streams {
		r.Streams[i].FirstMS -= r.TransferStartMS
		r.Streams[i].LastMS -= r.TransferStartMS
		r.Retransmits += r.Streams[i].Retransmits
	}
	if f.finished != nothing {
		r.TransferMS = results.MS(f.finished - start)
		finish := results.MS(f.finished)
		r.FinishMS = &finish
	}
}
