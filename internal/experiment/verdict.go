package experiment

import (
	"fmt"

	"github.com/netkvlab/netkvlab/internal/analysis/attribution"
	"github.com/netkvlab/netkvlab/internal/fidelity"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/scaling"
	"github.com/netkvlab/netkvlab/scenarios"
)

// fidelity is the verdict on the run so far.
func (r *run) fidelity(interrupted bool) results.Fidelity {
	if !r.emulated() {
		return results.Fidelity{Verdict: results.VerdictGood, Reasons: []string{}, Notes: r.remarks()}
	}
	f := fidelity.JudgeRun(r.packet.trials(), r.alone(), interrupted)
	f.Notes = r.remarks()
	return f
}

// alone checks the transfers of all trials that met no other; nil where this is not possible,
// which is judged elsewhere.
func (r *run) alone() *results.AloneCheck {
	if r.attribution != nil {
		return r.attribution.Alone
	}
	if r.cluster.Scenario.Transfer.Overlap != scenarios.OverlapNone || len(r.packet.records()) != len(r.packet.replays()) {
		return nil
	}
	return attribution.CheckAlone(r.packet.transfers())
}

// remarks are notes about the emulation for the reader, independent of the verdict.
func (r *run) remarks() []string {
	if !r.emulated() {
		return append([]string{"nothing was emulated: these are the flow world's figures alone"}, r.workload...)
	}
	t := r.cluster.Scenario.Transfer
	notes := []string{
		fmt.Sprintf("%d TCP streams per transfer, %s, paths %s; the number of streams moves results more than TCP does", t.Streams, t.CongestionControl, t.Paths),
	}
	fabric := r.labs[0].Fabric
	notes = append(notes, fabric.Remarks()...)
	if f := fabric.Features(); !f.HashSeed {
		notes = append(notes, fmt.Sprintf("this kernel has no hash seed per switch: racks hash fields %#x, the tiers above %#x", f.ToRHashFields, f.AggHashFields))
	}
	notes = append(notes, r.opt.Notes...)
	if text := scaling.Sentence(r.cluster.Plan.Scale, r.scaling); text != "" {
		notes = append(notes, text)
	}
	return append(notes, r.workload...)
}
