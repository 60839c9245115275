// Package packetworld is the packet world: trials on the emulated fabric of a lab, with
// real agents and real TCP.
//
// Configure gives a lab's agents their roles and the source ports of every path. A World
// then plays trials one after the other: it sends a controller's actions to the agents and
// turns their reports into events. It decides nothing. With a trial's records it returns the
// Evidence by which they are judged.
//
// Paper time comes from the host's monotonic clock, which the agents read too: paper = (now
// - epoch) / T. Durations in records come from the agents' own timestamps, so a late
// wake-up here delays a decision but never changes a measurement. Start reading at
// world.go, then attempt.go and trial.go.
package packetworld

import (
	"context"
	"errors"
	"fmt"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/flowsim"
	"github.com/netkvlab/netkvlab/internal/analysis/attribution"
	"github.com/netkvlab/netkvlab/internal/fidelity"
	"github.com/netkvlab/netkvlab/internal/fidelity/telemetry"
	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
)

// Options say what happens around a trial. All are needed.
type Options struct {
	// Watch makes a watch of this host for one trial.
	Watch func() *host.Watch
	// Begin returns when a trial that is ready may begin. End is called after its last byte has
	// arrived. With them, trials side by side begin and end together.
	Begin func(ctx context.Context) error
	End   func()
	// Note receives what is missing from a trial that is good nevertheless.
	Note func(format string, args ...any)
	// OnProgress receives, from time to time, how many of a trial's requests have ended.
	OnProgress func(ended, total int)
}

// World is the packet world of one lab. It plays one trial at a time.
type World struct {
	lab     *lab.Lab
	cluster *trials.Cluster
	agents  *Agents
	opt     Options

	calibration *results.Calibration
	faults      []string // of the fabric, found before the first trial; they apply to every trial
}

// New configures a lab's agents for a cluster, which must have the plan of the lab.
func New(ctx context.Context, l *lab.Lab, c *trials.Cluster, opt Options) (*World, error) {
	w := &World{lab: l, opt: opt}
	return w, w.Use(ctx, c)
}

// Use makes later trials those of another cluster with the same plan.
func (w *World) Use(ctx context.Context, c *trials.Cluster) (err error) {
	if w.cluster == c {
		return nil
	}
	w.cluster = c
	w.agents, err = Configure(ctx, w.lab, c)
	return err
}

// FlowBeside is the flow world to compare a lab's packets with. Its links carry frames, so that a
// rate means the same in both, and have the latency of the emulated links.
func FlowBeside(l *lab.Lab, c *trials.Cluster) trials.Flow {
	latency := l.Fabric.Latency()
	return trials.Flow{Cluster: c, Framing: flowsim.FullSegmentFraming, Latency: &latency}
}

// Outcome is one trial with its evidence. After a cut trial it has the records so far.
type Outcome struct {
	Records []results.Record
	// Replay is the fluid counterpart with the same decisions, starts and paths.
	Replay []results.Record
	// Transfers are the completed transfers by class.
	Transfers []attribution.Transfer
	Links     []results.LinkSample
	Evidence  *fidelity.Evidence
}

// differencesShown bounds how many differences from the plan are named.
const differencesShown = 3

// Verify compares the fabric with its plan before the first trial. A difference makes every
// trial of this world invalid; the error says only that it could not be compared.
func (w *World) Verify(ctx context.Context) error {
	text, err := w.differs(ctx)
	if text != "" {
		w.faults = append(w.faults, text)
	}
	return err
}

// differs describes what differs from the plan: a qdisc, a route or a link that was changed
// while the lab ran. "" means no difference.
func (w *World) differs(ctx context.Context) (string, error) {
	err := w.lab.Fabric.Verify(ctx)
	var differs *kernel.DiffersError
	switch {
	case err == nil:
		return "", nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	case !errors.As(err, &differs):
		return "", fmt.Errorf("compare the fabric with its plan: %w", err)
	}
	return "the fabric is not what was planned: " + differs.First(differencesShown), nil
}

// counters polls every port and returns the counters in the order of telemetry.Ports: for
// each link the direction from A to B, then from B to A.
func (w *World) counters() ([]telemetry.Counters, error) {
	polled, err := w.lab.Fabric.Counters()
	if err != nil {
		return nil, fmt.Errorf("poll the emulated ports: %w", err)
	}
	plan := w.cluster.Plan
	out := make([]telemetry.Counters, 2*len(plan.Links))
	for i := range polled {
		c := &polled[i]
		port := plan.Ports[c.Node][c.Port]
		k := flowsim.HopLink(plan.HopOf(port)) // the order of telemetry.Ports, too
		out[k] = telemetry.Counters{At: c.At, Bytes: c.Bytes, OthersBytes: c.Bytes, Drops: c.Drops, Marks: c.Marks, Backlog: c.BacklogBytes}
		switch {
		case port.Shape.Classes:
			out[k].OthersBytes = c.Background.Bytes + c.Other.Bytes
		case plan.Classes && plan.Nodes[c.Node].Kind == fabric.KindInstance:
			out[k].OthersBytes = 0 // all that an instance sends belongs to transfers; no traffic class is needed
		}
	}
	return out, nil
}

// direction is where the acknowledgements of some streams go.
type direction struct {
	from, to string
	nic      int
}

// nameBackPaths writes the path of each stream's acknowledgements into the records, as the
// lab's switches choose it. Acknowledgements have the stream's addresses and ports,
// swapped. If a switch does not answer, the path stays absent and a note says so.
func (w *World) nameBackPaths(records []results.Record) {
	groups := map[direction][]*results.StreamRecord{}
	for i := range records {
		r := &records[i]
		for j := range r.Streams {
			if s := &r.Streams[j]; s.Bytes > 0 && s.SourcePort > 0 {
				d := direction{r.Decode, r.Prefill, s.NIC}
				groups[d] = append(groups[d], s)
			}
		}
	}
	var failed error
	unknown := 0
	for d, streams := range groups {
		if err := w.nameBack(d, streams); err != nil {
			failed, unknown = err, unknown+len(streams)
		}
	}
	if failed != nil {
		w.opt.Note("the path of the acknowledgements of %d streams is not known: %v", unknown, failed)
	}
}

func (w *World) nameBack(d direction, streams []*results.StreamRecord) error {
	from, ok := w.cluster.Plan.Lookup(d.from)
	to, ok2 := w.cluster.Plan.Lookup(d.to)
	if !ok || !ok2 {
		return fmt.Errorf("%s to %s: no such instances", d.from, d.to)
	}
	ports := make([]uint16, len(streams))
	for i, s := range streams {
		ports[i] = uint16(s.SourcePort)
	}
	slots, err := w.lab.Fabric.Slots(kernel.Flow{Src: from, Dst: to, SrcNIC: d.nic, DstNIC: d.nic, SrcPort: dataPort}, ports)
	if err != nil {
		return err
	}
	var names [][]string
	for _, p := range w.cluster.Plan.NICPaths(from, to, d.nic, d.nic) {
		names = append(names, w.cluster.Plan.PathNodes(p))
	}
	for i, s := range streams {
		s.BackSlot, s.BackPath = &slots[i], names[slots[i]]
	}
	return nil
}
