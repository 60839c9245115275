package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/netkvlab/netkvlab/internal/experiment"
	"github.com/netkvlab/netkvlab/internal/packetworld"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
)

// Labs makes the fabrics for a sweep of the packet world.
type Labs interface {
	// Resolve turns a scale of auto into a number, and returns how many fabrics side by side this
	// host carries for the given number of trials (work).
	Resolve(ctx context.Context, c *trials.Cluster, work int) (scaled *trials.Cluster, fabrics int, err error)
	// With builds the given number of fabrics of a cluster's plan, calls work with them, and
	// removes them, also when the context ends. It first removes what an earlier sweep left behind.
	With(ctx context.Context, c *trials.Cluster, fabrics int, work func(*experiment.Lanes) error) error
}

// LabName is the name of a sweep's labs: the sweep's name, changed to a valid lab name.
func LabName(sweep string) string {
	const longest = 30 // room for a number at the end
	slug := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, sweep)
	name := "sweep-" + slug
	return strings.Trim(name[:min(len(name), longest)], "-")
}

// WriteVerdicts writes the verdicts on the packet world's trials, and how many attempts were
// spoiled. It writes nothing for a sweep of the flow world.
func WriteVerdicts(w io.Writer, rows []Row) {
	count, spoiled := map[string]int{}, 0
	for i := range rows {
		if r := &rows[i]; r.Verdict != "" {
			count[r.Verdict]++
			spoiled += r.Attempts - 1
		}
	}
	if len(count) == 0 {
		return
	}
	fmt.Fprintf(w, "packet world: %d trials good, %d degraded, %d invalid; %d attempts were spoiled from outside and repeated\n",
		count[results.VerdictGood], count[results.VerdictDegraded], count[results.VerdictInvalid], spoiled)
}

// batch is the work of neighbouring cells with the same plan: they use the same fabrics.
type batch struct {
	plan    []byte // as JSON: what the cells share
	fabrics int
	work    []experiment.Work
	cells   []int // of work
}

// packet plays the packet world, and for each trial also the flow world's on the same seed.
func (r *runner) packet(ctx context.Context) error {
	batches, err := r.batches(ctx)
	if err != nil {
		return err
	}
	for _, b := range batches {
		k := &keeper{runner: r, ctx: ctx, batch: &b}
		err := r.opt.Labs.With(ctx, b.work[0].Cluster, b.fabrics, func(l *experiment.Lanes) error {
			k.lanes = l
			return l.Play(ctx, b.work, k)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// batches groups the missing trials by plan, in the order of the grid.
func (r *runner) batches(ctx context.Context) ([]batch, error) {
	var out []batch
	for i := range r.sweep.Cells {
		c, err := trials.NewServing(r.sweep.Cells[i].Scenario)
		if err != nil {
			return nil, err
		}
		todo := r.missing(i, c, results.WorldPacket)
		if len(todo) == 0 {
			continue
		}
		c, fabrics, err := r.opt.Labs.Resolve(ctx, c, len(todo))
		if err != nil {
			return nil, fmt.Errorf("cell %d: %w", i, err)
		}
		plan, err := json.Marshal(c.Plan)
		if err != nil {
			return nil, fmt.Errorf("cell %d: plan: %w", i, err)
		}
		if n := len(out); n == 0 || !slices.Equal(out[n-1].plan, plan) {
			out = append(out, batch{plan: plan, fabrics: fabrics})
		}
		b := &out[len(out)-1]
		b.fabrics = min(b.fabrics, fabrics)
		for _, t := range todo {
			t.Stopwatch = packetworld.Stopwatch
			b.work = append(b.work, experiment.Work{
				Trial: t, Cluster: c, Name: fmt.Sprintf("cell %d, %s, seed %d", i, trials.Label(t.Policy), t.Seed),
			})
			b.cells = append(b.cells, i)
		}
	}
	return out, nil
}

// keeper turns the packet trials of a batch into rows.
type keeper struct {
	*runner
	ctx   context.Context // of the sweep: the flow world's part ends with it
	batch *batch
	lanes *experiment.Lanes
}

// Keep implements experiment.Keeper. A trial that was cut gives no row and is played again.
func (k *keeper) Keep(n int, p *experiment.Played) error {
	if p.Cut {
		return nil
	}
	w, cell := k.batch.work[n], k.batch.cells[n]
	flow, records, err := k.play(k.ctx, cell, packetworld.FlowBeside(k.lanes.Labs[0], w.Cluster), w.Trial)
	if err != nil {
		return err
	}
	row := k.row(cell, w.Trial, p.Records)
	row.Verdict, row.Reasons, row.Attempts = p.Judgement.Verdict, p.Judgement.Reasons, p.Attempts
	row.Gaps = gaps(p.Records, p.Replay, records)
	if !slices.Contains(k.sweep.Worlds(), results.WorldFlow) || k.done[flow.trial()] {
		return k.keep(row)
	}
	return k.keep(flow, row) // in this order: if the last line is incomplete, its trial is played again
}

// PutAside implements experiment.Keeper.
func (k *keeper) PutAside(n int, p *experiment.Played) error {
	w := k.batch.work[n]
	name := fmt.Sprintf("spoiled-cell%d-%s-seed%d-attempt%d.jsonl", k.batch.cells[n], trials.Label(w.Policy), w.Seed, p.Attempts)
	head, err := json.Marshal(results.SpoiledAttempt{
		Attempt: p.Attempts, Verdict: p.Judgement.Verdict, Reasons: p.Judgement.Reasons, File: name,
	})
	lines := append(head, '\n')
	for i := range p.Records {
		line, lineErr := json.Marshal(&p.Records[i])
		err = errors.Join(err, lineErr)
		lines = append(append(lines, line...), '\n')
	}
	return errors.Join(err, writeFile(filepath.Join(k.opt.Dir, name), lines))
}
