package packetworld

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/netkvlab/netkvlab/flowsim"
	"github.com/netkvlab/netkvlab/internal/analysis/attribution"
	"github.com/netkvlab/netkvlab/internal/controller"
	"github.com/netkvlab/netkvlab/internal/fidelity"
	"github.com/netkvlab/netkvlab/internal/flowworld"
	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

// Options say what happens around a trial. The zero value is right for a single lab.
type Options struct {
	// Watch makes a watch of this host for one trial.
	Watch func() *host.Watch
	// Begin returns when a trial that is ready may begin; nil means at once. End is called
	// after its last byte has arrived. With them, trials side by side begin and end
	// together.
	Begin func(ctx context.Context) error
	End   func()
	// Note receives what is missing from a trial that is good nevertheless; it may be nil.
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
	// evidence and oracle belong to the current trial.
	evidence *fidelity.Evidence
	oracle   *oracle
	carried  []int64 // bytes of the transfers by port; -1: unknown
}

// New configures a lab's agents for a cluster, which must have the plan of the lab.
func New(ctx context.Context, l *lab.Lab, c *trials.Cluster, opt Options) (*World, error) {
	agents, err := Configure(ctx, l, c)
	if err != nil {
		return nil, err
	}
	return &World{lab: l, cluster: c, agents: agents, opt: opt}, nil
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

// Flow returns the flow world to compare this one with. Its links carry frames, so that a
// rate means the same in both, and have the latency of the emulated links.
func (w *World) Flow() trials.Flow { return FlowBeside(w.lab, w.cluster) }

// FlowBeside is the flow world to compare a lab's packets with.
func FlowBeside(l *lab.Lab, c *trials.Cluster) trials.Flow {
	latency := l.Fabric.Latency()
	return trials.Flow{Cluster: c, Framing: flowsim.FullSegmentFraming, Latency: &latency}
}

// Play plays a trial and gathers its evidence: the host's load and the ports' counters
// while it ran, the agents' status after it, the fabric compared with its plan, and the
// transfers that met no other compared with the fluid model. When the context ends or an
// agent is lost, the outcome holds what was measured, and the error says why.
func (w *World) Play(ctx context.Context, t trials.Trial) (*Outcome, error) {
	w.evidence = &fidelity.Evidence{Faults: slices.Clone(w.faults), Calibration: w.calibration, Asked: asked(w.cluster.Scenario)}
	w.oracle = nil
	before, err := w.prepare(ctx)
	if err != nil {
		return nil, err
	}
	records, err := trials.Play(ctx, w, w.cluster, t)
	w.nameBackPaths(records)
	out := &Outcome{Records: records, Evidence: w.evidence}
	if w.oracle != nil {
		out.Links = w.oracle.links(t)
	}
	if err != nil {
		return out, err
	}
	if err := w.transport(records); err != nil {
		return out, err
	}
	w.evidence.PortFailures = portFailures(records)
	w.audit(ctx, records, before)
	if err := w.verify(ctx); err != nil {
		return out, err
	}
	return out, w.replay(ctx, t, out)
}

// asked returns the share of each tier's links that background traffic must reach. If
// transfers have priority, background gets what they leave, so the share is 0.
func asked(s *scenarios.Scenario) [4]float64 {
	if s.Topology.Buffers.Priority == scenarios.PriorityTransfers {
		return [4]float64{}
	}
	u := s.Background.Utilization
	return [4]float64{2: u.Tier2, 3: u.Tier3}
}

// prepare drops what an earlier trial left, and returns the bytes received so far per agent.
func (w *World) prepare(ctx context.Context) (map[string]int64, error) {
	if err := w.agents.Reset(ctx); err != nil {
		return nil, err
	}
	return w.received(ctx)
}

// Run implements trials.World.
func (w *World) Run(ctx context.Context, t trials.Trial, d controller.Driver) error {
	idle, err := w.counters()
	if err != nil {
		return err
	}
	if w.opt.Begin != nil {
		if err := w.opt.Begin(ctx); err != nil {
			return err
		}
	}
	sessions, err := w.open(ctx, w.instances())
	if err != nil {
		w.end()
		return err
	}
	tr := w.trial(d, sessions)
	w.oracle = w.startOracle(ctx, t, tr)
	runErr := w.watched(func() error { return tr.Run(ctx) })
	w.oracle.cancel() // its series ends with this trial, even if other trials go on
	w.end()
	linkErr := w.oracle.stop()
	lost := sessions.close()
	w.evidence.Oracle = w.oracle.meter.Accuracy()
	if linkErr != nil { // a port that cannot be read differs from the plan
		linkErr = errors.Join(linkErr, w.verify(ctx))
	}
	if err := errors.Join(runErr, linkErr); err != nil {
		return err
	}
	if len(lost) > 0 {
		w.fault("lost %s", strings.Join(lost, ", "))
		return fmt.Errorf("lost %s", strings.Join(lost, ", "))
	}
	over, err := w.counters()
	w.carried = w.own(idle, over)
	return err
}

func (w *World) end() {
	if w.opt.End != nil {
		w.opt.End()
	}
}

// trial is a driver with the agents that carry its actions out.
func (w *World) trial(d controller.Driver, s *sessions) *Trial {
	tr := &Trial{
		Driver: d, Members: s.members, Epoch: s.epoch, TimeScale: w.cluster.Plan.Scale.Time, Background: s.background,
		OnStall: w.stall,
		OnBackgroundLost: func(node, reason string) {
			w.fault("background traffic from %s has ended: %s", node, reason)
		},
	}
	if w.opt.OnProgress != nil {
		tr.OnProgress = w.opt.OnProgress
	}
	return tr
}

// watched samples the host while do runs.
func (w *World) watched(do func() error) error {
	if w.opt.Watch == nil {
		return do()
	}
	host := w.opt.Watch()
	host.Start()
	err := do()
	host.Stop()
	w.evidence.Host = host.Load()
	return err
}

// replay computes a trial's fluid counterpart, and adds its transfers that met no other to
// the evidence.
func (w *World) replay(ctx context.Context, t trials.Trial, out *Outcome) error {
	flow := w.Flow()
	replay, err := flowworld.Replay(ctx, flow.Config(t.Seed), out.Records)
	if err != nil {
		return err
	}
	if out.Transfers, err = attribution.Classify(ctx, flow.Config, out.Records, replay); err != nil {
		return err
	}
	out.Replay = replay
	// With overlap, the bytes left after the prefill may be fewer than a port's burst.
	if w.cluster.Scenario.Transfer.Overlap == scenarios.OverlapNone {
		w.evidence.Alone = attribution.CheckAlone(out.Transfers)
	}
	return nil
}
