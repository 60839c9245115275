package packetworld

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/controller"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
)

const (
	// loneTime is how long a calibration transfer takes in real time: much longer than a
	// burst of the shapers, much shorter than a trial.
	loneTime = 300 * time.Millisecond
	// loneRounds bounds the rounds of the calibration when other processes on the host
	// disturb it. One round within loneNear is enough.
	loneRounds = 5
	loneNear   = 1.0 // percent
)

// probe is one calibration transfer.
type probe struct {
	spec controller.FlowSpec
	tier int
	// pair marks one of two transfers that share a path and start together.
	pair bool
}

// Calibrate moves lone transfers over every tier of the empty fabric, and two over one path,
// and compares them with the fluid model. Nothing else is on the fabric, so any difference
// comes from the emulation. The result is part of the evidence of every later trial.
func (w *World) Calibrate(ctx context.Context) error {
	probes := w.probes()
	if len(probes) == 0 {
		return nil
	}
	if err := w.agents.Endpoints(ctx); err != nil {
		return err
	}
	ideal, err := w.fluid(ctx, probes)
	if err != nil {
		return err
	}
	off := make([][]float64, len(probes))
	for range loneRounds {
		got, err := w.measure(ctx, probes)
		if err != nil {
			return err
		}
		near := true
		for i := range probes {
			if got[i].Status != results.Completed {
				w.faults = append(w.faults, fmt.Sprintf("calibration: a transfer from %s to %s over tier %d: %s", got[i].Prefill, got[i].Decode, probes[i].tier, got[i].Reason))
				return nil
			}
			pct := 100 * (got[i].TransferMS/ideal[i].TransferMS - 1)
			off[i] = append(off[i], pct)
			near = near && (probes[i].pair || math.Abs(pct) <= loneNear)
		}
		if near {
			break
		}
	}
	w.calibration = summary(probes, off)
	return nil
}

// summary takes the median of each transfer's rounds.
func summary(probes []probe, off [][]float64) *results.Calibration {
	c := &results.Calibration{Lone: []results.LoneTransfers{}}
	var pair [][]float64
	for i, p := range probes {
		if p.pair {
			pair = append(pair, off[i])
			continue
		}
		c.Lone = append(c.Lone, results.LoneTransfers{Tier: p.tier, N: len(off[i]), OffPct: median(off[i])})
	}
	if len(pair) == 2 {
		var first, last []float64
		for k := range pair[0] {
			first, last = append(first, min(pair[0][k], pair[1][k])), append(last, max(pair[0][k], pair[1][k]))
		}
		c.Pair = &results.PairTransfers{N: len(last), LastOffPct: median(last), FirstOffPct: median(first)}
	}
	return c
}

func median(x []float64) float64 { return analysis.Percentile(slices.Sorted(slices.Values(x)), 50) }

// probes are one transfer per tier that a sender and a receiver can have between them, one
// after the other, and then two at once over the highest tier.
func (w *World) probes() []probe {
	ids := trials.Endpoints(w.cluster.Plan)
	index := map[fabric.NodeID]int{}
	for i, id := range ids {
		index[id] = i
	}
	var byTier [4]*[2]fabric.NodeID
	for _, pair := range w.agents.Pairs() {
		if t := w.cluster.Plan.Tier(pair[0], pair[1]); byTier[t] == nil {
			byTier[t] = &pair
		}
	}
	var out []probe
	at := time.Duration(0)
	took := time.Duration(float64(loneTime) / w.cluster.Plan.Scale.Time)
	for tier, pair := range byTier {
		if pair == nil {
			continue
		}
		out = append(out, probe{tier: tier, spec: w.lone(len(out), at, took, index, tier, *pair)})
		at += took + took/4
	}
	if n := len(out); n > 0 { // two at once over the path of the last one
		last := out[n-1]
		for range 2 {
			p := probe{tier: last.tier, pair: true, spec: last.spec}
			p.spec.ID, p.spec.Start = len(out), at
			out = append(out, p)
		}
	}
	return out
}

// lone is a transfer that takes a given paper time at the rate of its narrowest link.
func (w *World) lone(id int, at, took time.Duration, index map[fabric.NodeID]int, tier int, pair [2]fabric.NodeID) controller.FlowSpec {
	path := w.cluster.Plan.NICPaths(pair[0], pair[1], 0, 0)[0]
	rate := math.Inf(1)
	for _, h := range path {
		rate = min(rate, w.cluster.Plan.Links[h.Link].Rate.BytesPerSecond())
	}
	return controller.FlowSpec{
		ID: id, Start: at, From: index[pair[0]], To: index[pair[1]], Tier: tier,
		Bytes: int64(rate * took.Seconds()), Slots: []int{0},
	}
}

// specs are the transfers of the probes.
func specs(probes []probe) []controller.FlowSpec {
	out := make([]controller.FlowSpec, len(probes))
	for i := range probes {
		out[i] = probes[i].spec
	}
	return out
}

// fluid runs the probes in the flow world, for their ideal times.
func (w *World) fluid(ctx context.Context, probes []probe) ([]results.Record, error) {
	d, err := w.cluster.Transfers(trials.Trial{World: results.WorldFlow}, specs(probes))
	if err != nil {
		return nil, err
	}
	err = w.Flow().RunFlows(ctx, d)
	return d.Records(), err
}

// measure moves the probes through the lab.
func (w *World) measure(ctx context.Context, probes []probe) ([]results.Record, error) {
	d, err := w.cluster.Transfers(trials.Trial{World: results.WorldPacket}, specs(probes))
	if err != nil {
		return nil, err
	}
	sessions, err := w.open(ctx, w.endpoints())
	if err != nil {
		return nil, err
	}
	tr := &Trial{Driver: d, Members: sessions.members, Epoch: sessions.epoch, TimeScale: w.cluster.Plan.Scale.Time}
	err = tr.Run(ctx)
	if lost := sessions.close(); len(lost) > 0 {
		return nil, errors.Join(err, errors.New("calibration: lost "+lost[0]))
	}
	return d.Records(), err
}
