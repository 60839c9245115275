package packetworld

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/analysis/attribution"
	"github.com/netkvlab/netkvlab/internal/controller"
	"github.com/netkvlab/netkvlab/internal/fidelity"
	"github.com/netkvlab/netkvlab/internal/fidelity/telemetry"
	"github.com/netkvlab/netkvlab/internal/flowworld"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/kvagent"
	"github.com/netkvlab/netkvlab/scenarios"
)

// attempt is one trial while it is played, with its evidence.
type attempt struct {
	*World
	evidence *fidelity.Evidence
	oracle   *oracle
	received map[string]int64 // payload bytes per agent, before the trial
	carried  []int64          // bytes of the transfers by port; -1: unknown
}

// Play plays a trial and gathers its evidence: the host's load and the ports' counters
// while it ran, the agents' status after it, the fabric compared with its plan, and the
// transfers that met no other compared with the fluid model. When the context ends or an
// agent is lost, the outcome holds what was measured, and the error says why.
func (w *World) Play(ctx context.Context, t trials.Trial) (*Outcome, error) {
	a := &attempt{World: w, evidence: &fidelity.Evidence{
		Faults: slices.Clone(w.faults), Calibration: w.calibration, Asked: asked(w.cluster.Scenario),
	}}
	if err := a.prepare(ctx); err != nil {
		return nil, err
	}
	records, err := trials.Play(ctx, a, w.cluster, t)
	w.nameBackPaths(records)
	out := &Outcome{Records: records, Evidence: a.evidence}
	if a.oracle != nil {
		out.Links = a.oracle.links(t)
	}
	if err != nil {
		return out, err
	}
	if err := a.transport(records); err != nil {
		return out, err
	}
	a.audit(ctx, records)
	if err := a.verify(ctx); err != nil {
		return out, err
	}
	return out, a.replay(ctx, t, out)
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

// prepare drops what an earlier trial left, and notes the bytes received so far per agent.
func (a *attempt) prepare(ctx context.Context) error {
	a.received = map[string]int64{}
	if err := a.agents.Reset(ctx); err != nil {
		return err
	}
	for i := range a.lab.Agents {
		agent := &a.lab.Agents[i]
		st, err := agent.Client.Status(ctx)
		if err != nil {
			return fmt.Errorf("ask agent %s for its status: %w", agent.Node, err)
		}
		a.received[agent.Node] = st.GetBytesIn()
	}
	return nil
}

// fault notes what makes records wrong.
func (a *attempt) fault(format string, args ...any) {
	a.evidence.Faults = append(a.evidence.Faults, fmt.Sprintf(format, args...))
}

// Run implements trials.World.
func (a *attempt) Run(ctx context.Context, t trials.Trial, d controller.Driver) error {
	idle, err := a.counters()
	if err != nil {
		return err
	}
	if err := a.opt.Begin(ctx); err != nil {
		return err
	}
	sessions, err := a.agents.open(ctx, a.cluster.Flows())
	if err != nil {
		a.opt.End()
		return err
	}
	tr := &Trial{
		Driver: d, Members: sessions.members, Epoch: sessions.epoch, TimeScale: a.cluster.Plan.Scale.Time, Background: sessions.background,
		OnStall: func(late time.Duration) { a.evidence.StoodStill = max(a.evidence.StoodStill, late) },
		OnBackgroundLost: func(node, reason string) {
			a.fault("background traffic from %s has ended: %s", node, reason)
		},
		OnProgress: a.opt.OnProgress,
	}
	a.oracle = startOracle(ctx, a.World, t, tr)
	watch := a.opt.Watch()
	watch.Start()
	runErr := tr.Run(ctx)
	watch.Stop()
	a.evidence.Host = watch.Load()
	a.oracle.cancel() // its series ends with this trial, even if other trials go on
	a.opt.End()
	<-a.oracle.done
	linkErr := a.oracle.err
	lost := strings.Join(sessions.close(), ", ")
	a.evidence.Oracle = a.oracle.meter.Accuracy()
	if linkErr != nil { // a port that cannot be read differs from the plan
		linkErr = errors.Join(linkErr, a.verify(ctx))
	}
	if err := errors.Join(runErr, linkErr); err != nil {
		return err
	}
	if lost != "" {
		a.fault("lost %s", lost)
		return fmt.Errorf("lost %s", lost)
	}
	over, err := a.counters()
	a.carried = a.own(idle, over)
	return err
}

// own returns the bytes that each port carried for the transfers between two polls; -1
// where other traffic cannot be separated.
func (a *attempt) own(before, after []telemetry.Counters) []int64 {
	ports := telemetry.Ports(a.cluster.Plan)
	out := make([]int64, len(after))
	for i := range after {
		total := int64(after[i].Bytes - before[i].Bytes)
		switch {
		case a.cluster.Plan.Egress(ports[i].Hop).Shape.Classes:
			out[i] = total - int64(after[i].OthersBytes-before[i].OthersBytes)
		case a.cluster.Scenario.Background.Enabled():
			out[i] = -1
		default:
			out[i] = total
		}
	}
	return out
}

// audit compares a finished trial's records with the agents' status: the bytes received
// must be the bytes recorded, and no agent may still hold anything.
func (a *attempt) audit(ctx context.Context, records []results.Record) {
	want := map[string]int64{}
	failed := false
	for i := range records {
		r := &records[i]
		want[r.Decode] += r.MovedBytesEmulated
		failed = failed || r.Status != results.Completed || r.WastedBytesEmulated > 0
		if strings.Contains(r.Reason, kvagent.PortsExhausted) {
			a.evidence.PortFailures++
		}
	}
	for i := range a.lab.Agents {
		agent := &a.lab.Agents[i]
		st, err := agent.Client.Status(ctx)
		if err != nil {
			// An agent that died was reported by its trial; the others go on.
			a.fault("agent %s did not answer afterwards: %v", agent.Node, err)
			continue
		}
		if got := st.GetBytesIn() - a.received[agent.Node]; !failed && got != want[agent.Node] {
			a.fault("%s counted %d bytes in, the records say %d", agent.Node, got, want[agent.Node])
		}
		if n := st.GetTransfersIn() + st.GetTransfersOut() + st.GetReservations(); n != 0 {
			a.fault("%s still holds %d transfers and reservations", agent.Node, n)
		}
		if late := time.Duration(st.GetTimerLatenessNs()); late > a.evidence.TimerLate {
			a.evidence.TimerLate, a.evidence.TimerLateOf = late, agent.Node
		}
		a.evidence.Transport.Busy += time.Duration(st.GetSendBusyNs())
		a.evidence.Transport.Limited += time.Duration(st.GetSendBufferLimitedNs())
	}
}

// verify is Verify within a trial, where a difference is a fault of that trial.
func (a *attempt) verify(ctx context.Context) error {
	text, err := a.differs(ctx)
	if text != "" && !slices.Contains(a.evidence.Faults, text) {
		a.fault("%s", text)
	}
	return err
}

// transport adds the counters of a finished trial's senders and ports to the evidence.
func (a *attempt) transport(records []results.Record) error {
	t, plan, o := &a.evidence.Transport, a.cluster.Plan, a.oracle
	for i := range records {
		t.Segments += records[i].MovedBytesEmulated / fabric.SegmentBytes
		t.Retransmits += int64(records[i].Retransmits)
	}
	for _, nodePorts := range plan.Ports {
		for _, p := range nodePorts {
			t.SegmentsPerPacket = max(t.SegmentsPerPacket, p.GSOMaxSegs)
		}
	}
	last := make([]uint64, len(o.ports))
	for _, row := range o.rows {
		last[row.Port] = row.Drops
	}
	for _, drops := range last {
		t.QueueDrops += int64(drops)
	}
	a.evidence.Ports.Serve(o.ports, o.rows, plan.Scale.Time, func(port int) int { return plan.Egress(o.ports[port].Hop).Shape.BurstBytes })
	return a.evidence.Ports.Conserve(plan, o.ports, a.carried, records)
}

// replay computes a trial's fluid counterpart, and adds its transfers that met no other to
// the evidence.
func (a *attempt) replay(ctx context.Context, t trials.Trial, out *Outcome) error {
	flow := FlowBeside(a.lab, a.cluster)
	replay, err := flowworld.Replay(ctx, flow.Config(t.Seed), out.Records)
	if err != nil {
		return err
	}
	out.Replay = replay
	out.Transfers, err = attribution.Classify(ctx, flow.Config, out.Records, replay)
	// With overlap, the bytes left after the prefill may be fewer than a port's burst. Then the
	// classes are for the attribution only, and a trial is good without them.
	switch {
	case a.cluster.Scenario.Transfer.Overlap != scenarios.OverlapNone:
		if err != nil {
			a.opt.Note("the classes of a trial's transfers are not known: %v", err)
		}
		return nil
	case err != nil:
		return err
	}
	a.evidence.Alone = attribution.CheckAlone(out.Transfers)
	return nil
}

// oracle polls the emulated ports once per refresh period and sends samples to the trial.
type oracle struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error
	rows   []telemetry.Row
	ports  []telemetry.PortRef
	meter  *telemetry.Meter
}

// startOracle begins polling; samples reach the trial after the configured staleness.
func startOracle(ctx context.Context, w *World, t trials.Trial, tr *Trial) *oracle {
	s := w.cluster.Scenario
	ctx, cancel := context.WithCancel(ctx)
	o := &oracle{cancel: cancel, done: make(chan struct{}), ports: telemetry.Ports(w.cluster.Plan)}
	o.meter = telemetry.New(telemetry.Options{
		Ports: o.ports, Separate: s.Oracle.Separation != scenarios.SeparationNone, Ours: !s.Background.Enabled(),
		Noise: s.Oracle.Noise, Loss: s.Oracle.Loss, Seed: t.Seed, Staleness: s.Oracle.Staleness,
	})
	samples := make(chan [4]float64)
	tr.Samples = samples
	go o.poll(ctx, w, samples)
	return o
}

func (o *oracle) poll(ctx context.Context, w *World, out chan<- [4]float64) {
	defer close(o.done)
	var late sync.WaitGroup
	defer late.Wait()
	knobs, scale := w.cluster.Scenario.Oracle, w.cluster.Plan.Scale.Time
	stale := time.Duration(float64(knobs.Staleness) * scale)
	tick := time.NewTicker(time.Duration(float64(knobs.Refresh) * scale))
	defer tick.Stop()
	start := time.Now()
	for last := false; ; {
		now, err := w.counters()
		if err != nil {
			o.err = err
			return
		}
		real := time.Since(start)
		congestion, rows, ok := o.meter.Poll(real, time.Duration(float64(real)/scale), now)
		o.rows = append(o.rows, rows...)
		if ok {
			late.Go(func() { deliver(ctx, out, congestion, stale) })
		}
		if last {
			return
		}
		select {
		case <-ctx.Done():
			last = true // the series ends with the trial's last byte, not at the tick before it
		case <-tick.C:
		}
	}
}

// deliver hands a sample over after its delay, unless the trial ends first.
func deliver(ctx context.Context, out chan<- [4]float64, congestion [4]float64, delay time.Duration) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(delay):
	}
	select {
	case <-ctx.Done():
	case out <- congestion:
	}
}

// links returns the time series of all links in a trial.
func (o *oracle) links(t trials.Trial) []results.LinkSample {
	out := make([]results.LinkSample, len(o.rows))
	for i, row := range o.rows {
		p := o.ports[row.Port]
		direction := "up"
		if p.Hop.Reverse {
			direction = "down"
		}
		out[i] = results.LinkSample{
			TimeMS: results.MS(row.At), World: t.World, Policy: trials.Label(t.Policy), Seed: t.Seed,
			Link: p.Name, Direction: direction, BytesEmulated: int64(row.Bytes), Utilization: row.Utilization,
			Drops: int64(row.Drops), BacklogBytes: int64(row.Backlog), Marks: int64(row.Marks),
		}
	}
	return out
}
