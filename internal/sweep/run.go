package sweep

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/netkvlab/netkvlab/internal/analysis"
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
	// Labs plays the packet world's part; a sweep with a packet world is refused without it.
	Labs Labs
}

// Result holds the rows of a sweep, complete or not.
type Result struct {
	Rows   []Row // by cell, policy, seed and world
	Total  int   // rows of the whole sweep
	Reused int   // rows of earlier runs
	Maps   []Map
}

// Trials returns the number of trials of a sweep, in all its worlds.
func (s *Sweep) Trials() int {
	n := 0
	for i := range s.Cells {
		n += len(s.Cells[i].Scenario.Policies) * len(s.Cells[i].Scenario.Seeds)
	}
	return n * len(s.Worlds())
}

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
	if s.Packet() && opt.Labs == nil {
		return nil, errors.New("a sweep of the packet world needs labs, which this call has none of")
	}
	st, rows, err := openStore(opt.Dir, s, opt.Version)
	if err != nil {
		return nil, err
	}
	r := &runner{sweep: s, opt: opt, store: st, rows: rows, total: s.Trials(), now: opt.Clock, done: map[trial]bool{}}
	if r.now == nil {
		r.now = time.Now
	}
	for i := range rows {
		r.done[rows[i].trial()] = true
	}
	r.reused, r.begun = len(rows), r.now()
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
	return res, errors.Join(runErr, st.close(), write(opt.Dir, s, res))
}

type runner struct {
	sweep *Sweep
	opt   Options
	now   func() time.Time
	store *store
	done  map[trial]bool // before this run

	mu     sync.Mutex
	rows   []Row
	reused int
	total  int
	begun  time.Time
}

// missing lists the missing trials of a cell in a world, in the order of its seeds and policies,
// so that each seed's load is made once.
func (r *runner) missing(cell int, c *trials.Cluster, world string) []trials.Trial {
	return slices.DeleteFunc(c.Trials(world, c.Scenario.Seeds), func(t trials.Trial) bool {
		return r.done[trial{cell, trials.Label(t.Policy), t.Seed, r.sweep.worldOf(world)}]
	})
}

// flow plays the flow world, cell by cell, on all CPUs.
func (r *runner) flow(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(r.opt.Jobs, runtime.GOMAXPROCS(0)))
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
		origin := r.now()
		t.Stopwatch = func() int64 { return int64(r.now().Sub(origin)) }
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
	slo := results.SLO{TTFT: c.Scenario.SLO.TTFT, TBT: c.Scenario.SLO.TBT}
	return Row{
		Cell: cell, Labels: c.Labels, Policy: trials.Label(t.Policy), Seed: t.Seed, World: r.sweep.worldOf(t.World),
		TrialFigures: analysis.Measure(records, slo),
	}
}

// keep writes rows to the store together.
func (r *runner) keep(rows ...Row) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.store.append(rows); err != nil {
		return err
	}
	r.rows = append(r.rows, rows...)
	if r.opt.Progress != nil {
		r.opt.Progress(len(r.rows), r.total, r.left())
	}
	return nil
}

// left assumes that the remaining trials take as long as those of this run so far.
func (r *runner) left() time.Duration {
	fresh := len(r.rows) - r.reused
	return time.Duration(float64(r.now().Sub(r.begun)) / float64(fresh) * float64(r.total-len(r.rows)))
}

// result sorts the rows by cell, the cell's order of policies, seed and world.
func (r *runner) result() *Result {
	order := map[string]int{}
	for i, p := range r.sweep.policies() {
		order[p] = i
	}
	worlds := r.sweep.Worlds()
	rows := slices.Clone(r.rows)
	slices.SortStableFunc(rows, func(a, b Row) int {
		return cmp.Or(
			cmp.Compare(a.Cell, b.Cell), cmp.Compare(order[a.Policy], order[b.Policy]), cmp.Compare(a.Seed, b.Seed),
			cmp.Compare(slices.Index(worlds, a.World), slices.Index(worlds, b.World)),
		)
	})
	return &Result{Rows: rows, Total: r.total, Reused: r.reused, Maps: Maps(r.sweep, rows)}
}

// write writes the table and the pictures.
func write(dir string, s *Sweep, res *Result) error {
	var table, text, svg bytes.Buffer
	if err := WriteCSV(&table, s, res.Rows); err != nil {
		return err
	}
	errs := []error{writeFile(filepath.Join(dir, TableFile), table.Bytes())}
	if len(res.Maps) > 0 {
		WriteText(&text, res.Maps)
		WriteSVG(&svg, res.Maps)
		errs = append(errs, writeFile(filepath.Join(dir, TextFile), text.Bytes()), writeFile(filepath.Join(dir, SVGFile), svg.Bytes()))
	}
	return errors.Join(errs...)
}
