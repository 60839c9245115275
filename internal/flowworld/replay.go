package flowworld

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/netkvlab/netkvlab/flowsim"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/kvagent/engine"
)

// Replay gives one trial's packet records the transfer times of the fluid network, with the same
// decisions, starts, bytes and paths. The difference between a record and its replay is
// transport. The difference between the replay and the flow world's own run is decisions.
//
// Only the transfer changes. Waits at the decode instance stay those of the packet run, since
// they would need the batches of another run. Records without a completed transfer are returned
// unchanged.
func Replay(ctx context.Context, cfg Config, records []results.Record) ([]results.Record, error) {
	net, err := cfg.network()
	if err != nil {
		return nil, err
	}
	out := slices.Clone(records)
	r := replay{cfg: &cfg, net: net, rows: out, left: make([]int, len(out)), last: make([]time.Duration, len(out))}
	order := make([]int, 0, len(out))
	for i := range out {
		out[i].World = results.WorldReplay
		out[i].DecisionUS = 0
		if out[i].Status == results.Completed && len(out[i].Streams) > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(out[a].TransferStartMS, out[b].TransferStartMS) })
	return out, r.run(ctx, order)
}

type replay struct {
	cfg   *Config
	net   *flowsim.Network
	rows  []results.Record
	flows []stream
	owner []int // row of each stream
	left  []int // streams of each row that have not ended
	last  []time.Duration
}

func (r *replay) run(ctx context.Context, order []int) error {
	for _, i := range order {
		if err := ctx.Err(); err != nil {
			return err
		}
		start := fromMS(r.rows[i].TransferStartMS)
		if err := r.until(flowsim.At(start)); err != nil {
			return err
		}
		if err := r.start(start, i); err != nil {
			return fmt.Errorf("replay %s: %w", r.rows[i].Key(), err)
		}
	}
	for {
		at, ok := r.net.Next()
		if !ok {
			return nil
		}
		if err := r.until(at); err != nil {
			return err
		}
	}
}

func (r *replay) start(now time.Duration, row int) error {
	rec := &r.rows[row]
	from, ok := r.cfg.Plan.Lookup(rec.Prefill)
	to, ok2 := r.cfg.Plan.Lookup(rec.Decode)
	if !ok || !ok2 {
		return fmt.Errorf("no such instances %s and %s", rec.Prefill, rec.Decode)
	}
	delay := r.cfg.Latency[rec.Tier] + r.cfg.Setup
	bytes := share(rec.PayloadBytes, rec.Streams)
	rec.Streams = slices.Clone(rec.Streams)
	for i, s := range rec.Streams {
		path, err := links(r.cfg.Plan, from, to, s.NIC, s.Slot)
		if err != nil {
			return err
		}
		f := stream{flow: flowsim.Flow{ID: uint64(len(r.owner)), Path: path}, total: bytes[i], latency: delay, release: r.release(rec)}
		if _, err := f.next(r.net, flowsim.At(now), now); err != nil {
			return err
		}
		r.flows, r.owner = append(r.flows, f), append(r.owner, row)
		r.left[row]++
	}
	return nil
}

// share splits a payload in the proportions of its streams' emulated bytes.
func share(payload int64, streams []results.StreamRecord) []int64 {
	var total, sum, given int64
	for _, s := range streams {
		total += s.Bytes
	}
	out := make([]int64, len(streams))
	for i, s := range streams {
		if sum += s.Bytes; total > 0 {
			upTo := int64(math.Round(float64(payload) * float64(sum) / float64(total)))
			out[i], given = upTo-given, upTo
		}
	}
	return out
}

// release returns the schedule of a transfer that left while its prefill was computing.
func (r *replay) release(rec *results.Record) engine.Release {
	if r.cfg.Pieces == nil {
		return engine.Release{}
	}
	from := rec.ArrivalMS + rec.PrefillWaitMS
	return engine.Release{Pieces: int64(r.cfg.Pieces(rec.PromptTokens)), From: fromMS(from), To: fromMS(from + rec.PrefillMS)}
}

// until processes all completions up to an instant, one at a time: when a piece ends the next
// one starts, which may also end before the instant.
func (r *replay) until(at flowsim.Instant) error {
	for {
		next, ok := r.net.Next()
		if !ok || next.Compare(at) > 0 {
			_, err := r.net.Advance(at)
			return err
		}
		done, err := r.net.Advance(next)
		if err != nil {
			return err
		}
		for _, c := range slices.Clone(done) {
			if err := r.ended(next, c); err != nil {
				return err
			}
		}
	}
}

func (r *replay) ended(at flowsim.Instant, c flowsim.Completion) error {
	row := r.owner[c.ID]
	more, err := r.flows[c.ID].next(r.net, at, c.At.Duration())
	if err != nil || more {
		return err
	}
	r.last[row] = max(r.last[row], c.At.Duration())
	if r.left[row]--; r.left[row] == 0 {
		r.finish(row)
	}
	return nil
}

// finish writes the fluid transfer time into a record and shifts the later times.
func (r *replay) finish(row int) {
	rec := &r.rows[row]
	fluid := results.MS(r.last[row]) - max(rec.TransferStartMS, rec.ArrivalMS+rec.PrefillWaitMS+rec.PrefillMS)
	shift := fluid - rec.TransferMS
	rec.TransferMS = fluid
	if rec.TTFTMS != nil {
		rec.TTFTMS = new(*rec.TTFTMS + shift)
	}
	if rec.FinishMS != nil {
		rec.FinishMS = new(*rec.FinishMS + shift)
	}
}

func fromMS(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
