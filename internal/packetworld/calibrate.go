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
	// disturb it. Rounds whose medians are within loneNear are enough.
	loneRounds = 5
	loneNear   = 1.0 // percent
	// sharing is how many transfers share a path and start together, after the lone ones.
	sharing = 2
)

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
	for !settled(off[:len(probes)-sharing]) && len(off[0]) < loneRounds {
		got, err := w.measure(ctx, probes)
		if err != nil {
			return err
		}
		for i, r := range got {
			if r.Status != results.Completed {
				w.faults = append(w.faults, fmt.Sprintf("calibration: a transfer from %s to %s over tier %d: %s",
					r.Prefill, r.Decode, probes[i].Tier, r.Reason))
				return nil
			}
			off[i] = append(off[i], 100*(r.TransferMS/ideal[i].TransferMS-1))
		}
	}
	w.calibration = summary(probes, off)
	return nil
}

// settled reports whether each transfer's median over the rounds so far is near ideal. One round that is
// near does not make up for one that something disturbed: the median of the two is half of that.
func settled(off [][]float64) bool {
	for _, rounds := range off {
		if len(rounds) == 0 || math.Abs(median(rounds)) > loneNear {
			return false
		}
	}
	return true
}

// summary takes the median of each transfer's rounds.
func summary(probes []controller.FlowSpec, off [][]float64) *results.Calibration {
	c := &results.Calibration{}
	lone := len(probes) - sharing
	for i, p := range probes[:lone] {
		c.Lone = append(c.Lone, results.LoneTransfers{Tier: p.Tier, N: len(off[i]), OffPct: median(off[i])})
	}
	var first, last []float64
	for k, a := range off[lone] {
		b := off[lone+1][k]
		first, last = append(first, min(a, b)), append(last, max(a, b))
	}
	c.Pair = &results.PairTransfers{N: len(last), LastOffPct: median(last), FirstOffPct: median(first)}
	return c
}

func median(x []float64) float64 { return analysis.Percentile(slices.Sorted(slices.Values(x)), 50) }

// probes are one transfer per tier that a sender and a receiver can have between them, one
// after the other, and then two at once over the highest tier.
func (w *World) probes() (out []controller.FlowSpec) {
	plan := w.cluster.Plan
	var byTier [4]*[2]fabric.NodeID
	for _, agent := range w.lab.Agents {
		for _, to := range w.agents.receivers(&plan.Nodes[agent.ID]) {
			if t := plan.Tier(agent.ID, to); byTier[t] == nil {
				byTier[t] = &[2]fabric.NodeID{agent.ID, to}
			}
		}
	}
	at := time.Duration(0)
	took := time.Duration(float64(loneTime) / plan.Scale.Time)
	for _, pair := range byTier {
		if pair != nil {
			out = append(out, w.lone(len(out), at, took, *pair))
			at += took + took/4
		}
	}
	if n := len(out); n > 0 { // at once over the path of the last one
		for range sharing {
			p := out[n-1]
			p.ID, p.Start = len(out), at
			out = append(out, p)
		}
	}
	return out
}

// lone is a transfer that takes a given paper time at the rate of its narrowest link.
func (w *World) lone(id int, at, took time.Duration, pair [2]fabric.NodeID) controller.FlowSpec {
	plan := w.cluster.Plan
	rate := math.Inf(1)
	for _, h := range plan.NICPaths(pair[0], pair[1], 0, 0)[0] {
		rate = min(rate, plan.Links[h.Link].Rate.BytesPerSecond())
	}
	ends := trials.Endpoints(plan)
	return controller.FlowSpec{
		ID: id, Start: at, From: slices.Index(ends, pair[0]), To: slices.Index(ends, pair[1]), Tier: plan.Tier(pair[0], pair[1]),
		Bytes: int64(rate * took.Seconds()), Slots: []int{0},
	}
}

// fluid runs the probes in the flow world, for their ideal times.
func (w *World) fluid(ctx context.Context, probes []controller.FlowSpec) ([]results.Record, error) {
	d, err := w.cluster.Transfers(trials.Trial{World: results.WorldFlow}, probes)
	if err != nil {
		return nil, err
	}
	err = FlowBeside(w.lab, w.cluster).RunFlows(ctx, d)
	return d.Records(), err
}

// measure moves the probes through the lab.
func (w *World) measure(ctx context.Context, probes []controller.FlowSpec) ([]results.Record, error) {
	d, err := w.cluster.Transfers(trials.Trial{World: results.WorldPacket}, probes)
	if err != nil {
		return nil, err
	}
	sessions, err := w.agents.open(ctx, true)
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
