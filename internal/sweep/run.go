package sweep

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/experiment"
	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/internal/packetworld"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
)

// Options say where a sweep is written and how.
type Options struct {
	Dir     string // made if needed; a folder of the same sweep is continued
	Version string
	Jobs    int // trials of the flow world at once; 0: one per CPU
	// Progress is called after every trial, one call at a time; left is 0 while it is not known.
	Progress func(done, total int, left time.Duration)
	// Clock gives the time for progress and for timed decisions; nil means the wall clock.
	Clock func() time.Time
	// Fabrics make labs for the packet world; a sweep with a packet world is refused without them.
	Fabrics *experiment.Fabrics
}

// Result holds the rows of a sweep, complete or not.
type Result struct {
	Rows   []Row // by cell, policy, seed and world
	Total  int   // rows of the whole sweep
	Reused int   // rows of earlier runs
	Maps   []Map
}

// Trials returns the number of trials of a sweep, in all its worlds.
func (s *Sweep) Trials() int { return len(s.grid()) }

// Worlds returns the worlds of the file; the default is the flow world.
func (s *Sweep) Worlds() []string {
	if len(s.File.Worlds) == 0 {
		return []string{results.WorldFlow}
	}
	return s.File.Worlds
}

// Packet reports whether the sweep plays trials in the packet world.
func (s *Sweep) Packet() bool { return slices.Contains(s.Worlds(), results.WorldPacket) }

// worldOf returns a world's name in rows: empty for the flow world if it is the only one.
func (s *Sweep) worldOf(world string) string {
	if !s.Packet() {
		return ""
	}
	return world
}

// trial is one piece of work.
type trial struct {
	cell   int
	policy string
	seed   uint64
	world  string
}

func (r *Row) trial() trial { return trial{r.Cell, r.Policy, r.Seed, r.World} }

// Run plays the missing trials of a sweep. When the context ends, Run returns the finished
// trials with the context's error. It writes table and pictures of all finished trials.
func Run(ctx context.Context, s *Sweep, opt Options) (*Result, error) {
	if s.Packet() && opt.Fabrics == nil {
		return nil, errors.New("a sweep of the packet world needs labs, which this call has none of")
	}
	file, rows, err := openStore(opt.Dir, s, opt.Version)
	if err != nil {
		return nil, err
	}
	r := &runner{sweep: s, Options: opt, file: file, rows: rows, total: s.Trials(), done: map[trial]bool{}}
	if r.Clock == nil {
		r.Clock = time.Now
	}
	for i := range rows {
		r.done[rows[i].trial()] = true
	}
	r.begun = r.Clock()
	var runErr error
	if s.Packet() {
		runErr = r.packet(ctx)
	} else {
		runErr = r.flow(ctx)
	}
	if ctx.Err() != nil {
		runErr = ctx.Err() // it outranks the errors it caused
	}
	res := r.result()
	return res, errors.Join(runErr, file.Sync(), file.Close(), write(opt.Dir, s, res))
}

type runner struct {
	Options
	sweep *Sweep
	total int
	begun time.Time
	done  map[trial]bool // before this run

	mu   sync.Mutex
	file *os.File
	rows []Row
}

// missing lists the missing trials of a cell, by seed, so that each seed's load is made once.
func (r *runner) missing(cell int, c *trials.Cluster, world string) []trials.Trial {
	return slices.DeleteFunc(c.Trials(world, c.Scenario.Seeds), func(t trials.Trial) bool {
		return r.done[trial{cell, trials.Label(t.Policy), t.Seed, r.sweep.worldOf(world)}]
	})
}

// flow plays the flow world, cell by cell, on all CPUs.
func (r *runner) flow(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(r.Jobs, runtime.GOMAXPROCS(0)))
	for i := range r.sweep.Cells {
		c, err := trials.NewServing(r.sweep.Cells[i].Scenario)
		if err != nil {
			return err
		}
		for _, t := range r.missing(i, c, results.WorldFlow) {
			if ctx.Err() != nil {
				break
			}
			g.Go(func() error {
				row, _, err := r.play(ctx, i, trials.Flow{Cluster: c}, t)
				if err != nil {
					return err
				}
				return r.keep(row)
			})
		}
	}
	return g.Wait()
}

// play plays a trial of the flow world and returns its row.
func (r *runner) play(ctx context.Context, cell int, w trials.Flow, t trials.Trial) (Row, []results.Record, error) {
	t.World = results.WorldFlow
	if r.sweep.File.TimeDecisions {
		origin := r.Clock()
		t.Stopwatch = func() int64 { return int64(r.Clock().Sub(origin)) }
	}
	records, err := trials.Play(ctx, w, w.Cluster, t)
	if err != nil {
		return Row{}, nil, fmt.Errorf("cell %d: %w", cell, err)
	}
	return r.row(cell, t, records), records, nil
}

// row computes the row of a trial's records.
func (r *runner) row(cell int, t trials.Trial, records []results.Record) Row {
	c := &r.sweep.Cells[cell]
	return Row{
		Cell: cell, Labels: c.Labels, Policy: trials.Label(t.Policy), Seed: t.Seed, World: r.sweep.worldOf(t.World),
		TrialFigures: analysis.Measure(records, results.SLO(c.Scenario.SLO)),
	}
}

// keep writes rows with one write, so that the file has all of them or, except for an incomplete line, none.
func (r *runner) keep(rows ...Row) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	var err error
	for i := range rows {
		err = errors.Join(err, enc.Encode(&rows[i]))
	}
	if err == nil {
		_, err = r.file.Write(lines.Bytes())
	}
	if err != nil {
		return fmt.Errorf("keep a finished trial in %s: %w", r.Dir, err)
	}
	r.rows = append(r.rows, rows...)
	if r.Progress != nil {
		// The remaining trials are taken to need as long as those of this run so far.
		pace := float64(r.Clock().Sub(r.begun)) / float64(len(r.rows)-len(r.done))
		r.Progress(len(r.rows), r.total, time.Duration(pace*float64(r.total-len(r.rows))))
	}
	return nil
}

// result sorts the rows by cell, the cell's order of policies, seed and world.
func (r *runner) result() *Result {
	policies, worlds := r.sweep.policies(), r.sweep.Worlds()
	slices.SortStableFunc(r.rows, func(a, b Row) int {
		return cmp.Or(
			cmp.Compare(a.Cell, b.Cell), cmp.Compare(slices.Index(policies, a.Policy), slices.Index(policies, b.Policy)),
			cmp.Compare(a.Seed, b.Seed), cmp.Compare(slices.Index(worlds, a.World), slices.Index(worlds, b.World)),
		)
	})
	return &Result{Rows: r.rows, Total: r.total, Reused: len(r.done), Maps: Maps(r.sweep, r.rows)}
}

// write writes the table and the pictures.
func write(dir string, s *Sweep, res *Result) error {
	var table, text, svg bytes.Buffer
	if err := WriteCSV(&table, s, res.Rows); err != nil {
		return err
	}
	err := results.WriteFile(dir, TableFile, table.Bytes())
	if len(res.Maps) > 0 {
		WriteText(&text, res.Maps)
		WriteSVG(&svg, res.Maps)
		err = errors.Join(err, results.WriteFile(dir, TextFile, text.Bytes()), results.WriteFile(dir, SVGFile, svg.Bytes()))
	}
	return err
}

// LabName is the name of a sweep's labs: the sweep's name, changed to a valid lab name.
func LabName(sweep string) string {
	name := "sweep-" + notInLabName.ReplaceAllString(strings.ToLower(sweep), "-")
	return strings.Trim(name[:min(len(name), 30)], "-") // with room for a number at the end
}

var notInLabName = regexp.MustCompile("[^a-z0-9-]")

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
		err := r.Fabrics.With(ctx, b.work[0].Cluster, b.fabrics, func(labs []*lab.Lab) error {
			return experiment.Play(ctx, labs, b.work, &keeper{runner: r, ctx: ctx, batch: &b, lab: labs[0]}, r.Fabrics.Lab.Progress)
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
		c, fabrics, _, err := r.Fabrics.Resolve(ctx, c, len(todo))
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
			name := fmt.Sprintf("cell %d, %s, seed %d", i, trials.Label(t.Policy), t.Seed)
			b.work = append(b.work, experiment.Work{Trial: t, Cluster: c, Name: name})
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
	lab   *lab.Lab
}

// Keep implements experiment.Keeper. A trial that was cut gives no row and is played again.
func (k *keeper) Keep(n int, p *experiment.Played) error {
	if p.Cut {
		return nil
	}
	w, cell := k.batch.work[n], k.batch.cells[n]
	flow, records, err := k.play(k.ctx, cell, packetworld.FlowBeside(k.lab, w.Cluster), w.Trial)
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
	head, headErr := json.Marshal(p.Spoiled(name))
	lines, err := results.JSONLines(p.Records)
	return errors.Join(headErr, err, results.WriteFile(k.Dir, name, slices.Concat(head, []byte{'\n'}, lines)))
}
