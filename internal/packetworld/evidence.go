package packetworld

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/kvagent"
	"github.com/netkvlab/netkvlab/kvagent/control"
)

// fault notes what makes records wrong.
func (w *World) fault(format string, args ...any) {
	w.evidence.Faults = append(w.evidence.Faults, fmt.Sprintf(format, args...))
}

// stall notes how long this program did not run.
func (w *World) stall(late time.Duration) { w.evidence.StoodStill = max(w.evidence.StoodStill, late) }

// received returns the payload bytes that each agent has received.
func (w *World) received(ctx context.Context) (map[string]int64, error) {
	in := map[string]int64{}
	for i := range w.lab.Agents {
		a := &w.lab.Agents[i]
		st, err := a.Client.Status(ctx)
		if err != nil {
			return nil, fmt.Errorf("ask agent %s for its status: %w", a.Node, err)
		}
		in[a.Node] = st.GetBytesIn()
	}
	return in, nil
}

// audit compares a finished trial's records with the agents' status: the bytes received
// must be the bytes recorded, and no agent may still hold anything.
func (w *World) audit(ctx context.Context, records []results.Record, before map[string]int64) {
	want := map[string]int64{}
	failed := false
	for i := range records {
		want[records[i].Decode] += records[i].MovedBytesEmulated
		failed = failed || records[i].Status != results.Completed || records[i].WastedBytesEmulated > 0
	}
	for i := range w.lab.Agents {
		a := &w.lab.Agents[i]
		st, err := a.Client.Status(ctx)
		if err != nil {
			// An agent that died was reported by its trial; the others go on.
			w.fault("agent %s did not answer afterwards: %v", a.Node, err)
			continue
		}
		if got := st.GetBytesIn() - before[a.Node]; !failed && got != want[a.Node] {
			w.fault("%s counted %d bytes in, the records say %d", a.Node, got, want[a.Node])
		}
		if n := st.GetTransfersIn() + st.GetTransfersOut() + st.GetReservations(); n != 0 {
			w.fault("%s still holds %d transfers and reservations", a.Node, n)
		}
		w.account(a.Node, st)
	}
}

// account adds an agent's status after a trial to the evidence.
func (w *World) account(node string, st *control.StatusResponse) {
	e := w.evidence
	if late := time.Duration(st.GetTimerLatenessNs()); late > e.TimerLate {
		e.TimerLate, e.TimerLateOf = late, node
	}
	e.Transport.Busy += time.Duration(st.GetSendBusyNs())
	e.Transport.Limited += time.Duration(st.GetSendBufferLimitedNs())
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

// verify does the same within a trial, where a difference is a fault of that trial.
func (w *World) verify(ctx context.Context) error {
	text, err := w.differs(ctx)
	if text != "" && !slices.Contains(w.evidence.Faults, text) {
		w.fault("%s", text)
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

// transport adds the counters of a finished trial's senders and ports to the evidence.
func (w *World) transport(records []results.Record) error {
	t, plan, o := &w.evidence.Transport, w.cluster.Plan, w.oracle
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
	w.evidence.Ports.Serve(o.ports, o.rows, plan.Scale.Time, func(port int) int { return plan.Egress(o.ports[port].Hop).Shape.BurstBytes })
	return w.evidence.Ports.Conserve(plan, o.ports, w.carried, records)
}

// portFailures counts requests that found no free source port in the path table.
func portFailures(records []results.Record) int {
	n := 0
	for i := range records {
		if strings.Contains(records[i].Reason, kvagent.PortsExhausted) {
			n++
		}
	}
	return n
}
