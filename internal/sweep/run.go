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

	"github.com/netkvlab/netkvlab/internal/flowrun"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

// Options say where a sweep is written and how.
type Options struct {
	Dir     string // made if need be; one of the same sweep is gone on with
	Version string
	Jobs    int // trials at once; 0: one a CPU
	// Progress is told after every trial, one call at a time; left is 0 where it is not known yet.
	Progress func(done, total int, left time.Duration)
	// Clock tells the time of progress and, in nanoseconds, of timed decisions; nil: the wall clock.
	Clock func() time.Time
}

// Result is what a sweep gave, whole or not.
type Result struct {
	Rows   []Row // by cell, policy and seed
	Total  int   // trials of the whole sweep
	Reused int   // trials that were there before
	Maps   []Map
}

// Trials is how many trials a sweep has.
func (s *Sweep) Trials() int {
	n := 0
	for i := range s.Cells {
		n += len(s.Cells[i].Scenario.Policies) * len(s.Cells[i].Scenario.Seeds)
	}
	return n
}

// trial is one piece of work.
type trial struct {
	cell   int
	policy scenarios.Policy
	seed   uint64
}

type trialKey struct {
	cell   int
	policy string
	seed   uint64
}

// Run does what is missing of a sweep. When the context ends, what is done is kept,
// and Run returns it with the context's error; table and pictures are written from
// whatever there is.
func Run(ctx context.Context, s *Sweep, opt Options) (*Result, error) {
	st, rows, err := openStore(opt.Dir, s, opt.Version)
	if err != nil {
		return nil, err
	}
	r := &runner{sweep: s, opt: opt, store: st, rows: rows, total: s.Trials(), now: opt.Clock}
	if r.now == nil {
		r.now = time.Now
	}
	r.reused = len(rows)
	runErr := r.run(ctx)
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

	mu     sync.Mutex
	rows   []Row
	reused int
	total  int
	begun  time.Time
}

// run works cell by cell; within a cell, trials of one seed follow each other, so
// that its requests are made once.
func (r *runner) run(ctx context.Context) error {
	r.begun = r.now()
	done := map[trialKey]bool{}
	for i := range r.rows {
		done[trialKey{r.rows[i].Cell, r.rows[i].Policy, r.rows[i].Seed}] = true
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(r.opt.Jobs, runtime.GOMAXPROCS(0)))
	for i := range r.sweep.Cells {
		c := &r.sweep.Cells[i]
		var todo []trial
		for _, seed := range c.Scenario.Seeds {
			for _, p := range c.Scenario.Policies {
				if !done[trialKey{i, p.Label, seed}] {
					todo = append(todo, trial{i, p, seed})
				}
			}
		}
		if len(todo) == 0 {
			continue
		}
		cluster, err := trials.NewServing(c.Scenario)
		if err != nil {
			return err
		}
		for _, t := range todo {
			if ctx.Err() != nil {
				break
			}
			g.Go(func() error { return r.trial(ctx, cluster, t) })
		}
	}
	return g.Wait()
}

func (r *runner) trial(ctx context.Context, c *trials.Cluster, t trial) error {
	var stopwatch func() int64
	if r.sweep.File.TimeDecisions {
		origin := r.now()
		stopwatch = func() int64 { return int64(r.now().Sub(origin)) }
	}
	f, err := flowrun.Trial(ctx, trials.Flow{Cluster: c}, trials.Trial{Policy: t.policy, Seed: t.seed, Stopwatch: stopwatch})
	if err != nil {
		return fmt.Errorf("cell %d: %w", t.cell, err)
	}
	row := Row{Cell: t.cell, Labels: r.sweep.Cells[t.cell].Labels, Policy: t.policy.Label, Seed: t.seed, Figures: f}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.store.append(&row); err != nil {
		return err
	}
	r.rows = append(r.rows, row)
	if r.opt.Progress != nil {
		r.opt.Progress(len(r.rows), r.total, r.left())
	}
	return nil
}

// left supposes that the trials to come take as long as those of this run.
func (r *runner) left() time.Duration {
	fresh := len(r.rows) - r.reused
	return time.Duration(float64(r.now().Sub(r.begun)) / float64(fresh) * float64(r.total-len(r.rows)))
}

// result sorts the rows by cell, the cell's order of policies, and seed.
func (r *runner) result() *Result {
	order := map[string]int{}
	for i, p := range r.sweep.policies() {
		order[p] = i
	}
	rows := slices.Clone(r.rows)
	slices.SortStableFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Cell, b.Cell), cmp.Compare(order[a.Policy], order[b.Policy]), cmp.Compare(a.Seed, b.Seed))
	})
	return &Result{Rows: rows, Total: r.total, Reused: r.reused, Maps: Maps(r.sweep, rows)}
}

// write leaves the table and the pictures.
func write(dir string, s *Sweep, res *Result) error {
	var table, text, svg bytes.Buffer
	if err := WriteCSV(&table, s.File.Axes, res.Rows); err != nil {
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
