package experiment

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/controller"
	"github.com/netkvlab/netkvlab/internal/flowworld"
	"github.com/netkvlab/netkvlab/internal/packet"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
)

const (
	// loneTime is how long a calibration transfer takes in real time: long beside a
	// burst of the shapers, short beside a trial.
	loneTime = 300 * time.Millisecond
	// loneRounds bounds how often the calibration is repeated when a neighbour on the
	// host spoils it; one round that keeps to loneNear is enough.
	loneRounds = 5
	loneNear   = 1.0 // percent
)

// probe is one calibration transfer.
type probe struct {
	spec controller.FlowSpec
	tier int
	// pair: one of two that share a path, and start together.
	pair bool
}

// calibrate moves lone transfers over every tier of the empty fabric, and two over one
// path, and compares them with the fluid model: whatever they are off is the
// emulation's, since nothing else is there.
func (r *run) calibrate(ctx context.Context) error {
	probes := r.probes()
	if len(probes) == 0 {
		return nil
	}
	r.opt.Progress.Phase("calibrating: lone transfers over every tier")
	if err := r.lab.Endpoints(ctx); err != nil {
		return err
	}
	ideal, err := r.fluid(ctx, probes)
	if err != nil {
		return err
	}
	off := make([][]float64, len(probes))
	for range loneRounds {
		got, err := r.measure(ctx, probes)
		if err != nil {
			return err
		}
		near := true
		for i := range probes {
			if got[i].Status != results.Completed {
				r.fault("calibration: a transfer from %s to %s over tier %d: %s", got[i].Prefill, got[i].Decode, probes[i].tier, got[i].Reason)
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
	r.evidence.Calibration = summary(probes, off)
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

// probes are one transfer for each tier that a sender and a receiver have between
// them, one after the other, and two at once over the highest.
func (r *run) probes() []probe {
	ids := trials.Endpoints(r.plan)
	index := map[fabric.NodeID]int{}
	for i, id := range ids {
		index[id] = i
	}
	var byTier [4]*[2]fabric.NodeID
	for _, pair := range r.lab.Pairs() {
		if t := r.plan.Tier(pair[0], pair[1]); byTier[t] == nil {
			byTier[t] = &pair
		}
	}
	var out []probe
	at := time.Duration(0)
	took := time.Duration(float64(loneTime) / r.plan.Scale.Time)
	for tier, pair := range byTier {
		if pair == nil {
			continue
		}
		out = append(out, probe{tier: tier, spec: r.lone(len(out), at, took, index, tier, *pair)})
		at += took + took/4
	}
	if n := len(out); n > 0 { // two over the path of the last
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
func (r *run) lone(id int, at, took time.Duration, index map[fabric.NodeID]int, tier int, pair [2]fabric.NodeID) controller.FlowSpec {
	path := r.plan.NICPaths(pair[0], pair[1], 0, 0)[0]
	rate := math.Inf(1)
	for _, h := range path {
		rate = min(rate, r.plan.Links[h.Link].Rate.BytesPerSecond())
	}
	return controller.FlowSpec{
		ID: id, Start: at, From: index[pair[0]], To: index[pair[1]], Tier: tier,
		Bytes: int64(rate * took.Seconds()), Slots: []int{0},
	}
}

func (r *run) probing(world string, probes []probe) (*controller.Flows, error) {
	specs := make([]controller.FlowSpec, len(probes))
	for i := range probes {
		specs[i] = probes[i].spec
	}
	return controller.NewFlows(controller.FlowsConfig{
		World: world, Flows: specs, Endpoints: trials.Names(r.plan, trials.Endpoints(r.plan)), RateScale: r.plan.Scale.Rate,
		NICs: r.opt.Scenario.Topology.NICsPerInstance, Drain: r.opt.Scenario.Limits.Drain,
	})
}

// fluid is what the probes would take ideally.
func (r *run) fluid(ctx context.Context, probes []probe) ([]results.Record, error) {
	d, err := r.probing(results.WorldFlow, probes)
	if err != nil {
		return nil, err
	}
	ids := trials.Endpoints(r.plan)
	cfg := r.flowConfig(0)
	w, err := flowworld.New(flowworld.Config{
		Plan: r.plan, Senders: ids, Receivers: ids, Paths: flowworld.PathSlots, Framing: cfg.Framing, Latency: cfg.Latency, Setup: cfg.Setup,
	})
	if err != nil {
		return nil, err
	}
	err = w.Run(ctx, d)
	return d.Records(), err
}

// measure moves the probes through the lab.
func (r *run) measure(ctx context.Context, probes []probe) ([]results.Record, error) {
	d, err := r.probing(results.WorldPacket, probes)
	if err != nil {
		return nil, err
	}
	ids := index(trials.Endpoints(r.plan))
	sessions, err := r.open(ctx, ids, ids)
	if err != nil {
		return nil, err
	}
	tr := &packet.Trial{Driver: d, Members: sessions.members, Epoch: sessions.epoch, TimeScale: r.plan.Scale.Time, OnStall: r.stall}
	err = tr.Run(ctx)
	if lost := sessions.close(); len(lost) > 0 {
		return nil, errors.Join(err, errors.New("calibration: lost "+lost[0]))
	}
	return d.Records(), err
}
