package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/internal/fidelity"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/scaling"
	"github.com/netkvlab/netkvlab/kvagent"
	"github.com/netkvlab/netkvlab/kvagent/control"
)

// fidelity is the verdict on the run so far.
func (r *run) fidelity(interrupted bool) results.Fidelity {
	if r.lab == nil { // nothing was emulated
		return results.Fidelity{Verdict: results.VerdictGood, Reasons: []string{}, Notes: r.remarks()}
	}
	e := &r.evidence
	asked := r.opt.Scenario.Background.Utilization
	e.Asked = [4]float64{2: asked.Tier2, 3: asked.Tier3}
	e.Interrupted, e.Host, e.PortFailures = interrupted, r.host.Load(), r.portFailures()
	f := fidelity.Judge(e)
	f.Notes = r.remarks()
	return f
}

// fault notes what makes records wrong.
func (r *run) fault(format string, args ...any) {
	r.evidence.Faults = append(r.evidence.Faults, fmt.Sprintf(format, args...))
}

// stall notes that this program stood still.
func (r *run) stall(late time.Duration) { r.evidence.StoodStill = max(r.evidence.StoodStill, late) }

// agent takes in what an agent says of itself after a trial.
func (r *run) agent(node string, st *control.StatusResponse) {
	e := &r.evidence
	if late := time.Duration(st.GetTimerLatenessNs()); late > e.TimerLate {
		e.TimerLate, e.TimerLateOf = late, node
	}
	e.Transport.Busy += time.Duration(st.GetSendBusyNs())
	e.Transport.Limited += time.Duration(st.GetSendBufferLimitedNs())
}

// differencesShown bounds how many differences from the plan are told.
const differencesShown = 3

// verify compares the fabric with its plan: a qdisc, a route or a link that somebody
// changed under a running lab.
func (r *run) verify(ctx context.Context, when string) error {
	err := r.lab.Fabric.Verify(ctx)
	var differs *kernel.DiffersError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case !errors.As(err, &differs):
		return fmt.Errorf("compare the fabric with its plan: %w", err)
	}
	text := "the fabric is not what was planned: " + differs.First(differencesShown)
	if !slices.ContainsFunc(r.evidence.Faults, func(f string) bool { return strings.HasSuffix(f, text) }) {
		r.fault("%s: %s", when, text)
	}
	return nil
}

// transport takes in a finished trial's senders and ports.
func (r *run) transport(o *oracle, carried []int64, records []results.Record) error {
	t, plan := &r.evidence.Transport, r.plan
	for i := range records {
		t.Segments += records[i].MovedBytesEmulated / segmentBytes
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
	r.evidence.Ports.Serve(o.ports, o.rows, plan.Scale.Time, func(port int) int { return plan.Egress(o.ports[port].Hop).Shape.BurstBytes })
	return r.evidence.Ports.Conserve(plan, o.ports, carried, records)
}

// segmentBytes is the payload of a full segment.
const segmentBytes = 1448

// portFailures counts requests that ran into the path table's end.
func (r *run) portFailures() int {
	n := 0
	for i := range r.records {
		if rec := &r.records[i]; rec.World == results.WorldPacket && strings.Contains(rec.Reason, kvagent.PortsExhausted) {
			n++
		}
	}
	return n
}

// remarks are what a reader must know of the emulation whatever the verdict.
func (r *run) remarks() []string {
	if r.lab == nil {
		return append([]string{"nothing was emulated: these are the flow world's figures alone"}, r.workload...)
	}
	t := r.opt.Scenario.Transfer
	notes := []string{
		fmt.Sprintf("%d TCP streams a transfer, %s, paths %s; the number of streams moves results more than TCP does", t.Streams, t.CongestionControl, t.Paths),
	}
	notes = append(notes, r.lab.Fabric.Remarks()...)
	if f := r.lab.Fabric.Features(); !f.HashSeed {
		notes = append(notes, fmt.Sprintf("this kernel has no hash seed a switch: racks hash fields %#x, the tiers above %#x", f.ToRHashFields, f.AggHashFields))
	}
	notes = append(notes, r.opt.Notes...)
	if text := scaling.Sentence(r.plan.Scale, r.scaling); text != "" {
		notes = append(notes, text)
	}
	return append(notes, r.workload...)
}
