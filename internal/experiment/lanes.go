package experiment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
)

// Trials run on lanes: one lab each, and its own evidence. Lanes share nothing while
// trials run but the queue of trials, the host and the progress that a person sees.

// turn is one trial and its place in the order that a reader expects: by seed, then policy.
type turn struct {
	trials.Trial
	n    int
	name string
	load *load
}

// page collects what a trial writes, until it is its turn.
type page struct {
	records []results.Record
	links   []results.LinkSample
}

// turns lists the trials in order.
func (r *run) turns() ([]turn, error) {
	policies := r.policies()
	total := len(r.opt.Scenario.Seeds) * len(policies)
	var out []turn
	for _, seed := range r.opt.Scenario.Seeds {
		load, err := r.load(seed)
		if err != nil {
			return nil, err
		}
		for _, p := range policies {
			n := len(out)
			out = append(out, turn{
				Trial: trials.Trial{World: results.WorldPacket, Policy: p, Seed: seed}, n: n, load: load,
				name: fmt.Sprintf("%s, seed %d (trial %d of %d)", trials.Label(p), seed, n+1, total),
			})
		}
	}
	return out, nil
}

// packetTrials runs all trials on all labs.
func (r *run) packetTrials(ctx context.Context) error {
	queue, err := r.turns()
	if err != nil {
		return err
	}
	lanes := r.lanes(len(queue))
	defer func() {
		for _, l := range lanes {
			r.evidence.Merge(&l.evidence)
		}
	}()
	if err := r.ready(ctx, lanes); err != nil {
		return err
	}
	book := &book{run: r, waiting: map[int]*page{}}
	share := &share{queue: queue}
	if len(lanes) > 1 { // one alone watches the host itself
		g := newGate(len(lanes), r.host.Start, r.host.Stop)
		for i, l := range lanes {
			l.gate, l.lag = g, time.Duration(i)*trials.Stagger
		}
	}
	err = share.run(ctx, lanes, book)
	return errors.Join(err, book.close())
}

// lanes splits the run into one a lab. All see the same scenario and plan.
func (r *run) lanes(trials int) []*run {
	told := newTold(r.opt.Progress, trials, len(r.labs))
	out := make([]*run, len(r.labs))
	for i, l := range r.labs {
		out[i] = &run{opt: r.opt, plan: r.plan, lab: l, told: told, workload: r.workload}
	}
	if len(out) == 1 {
		out[0].host = r.host
	}
	return out
}

// ready compares every fabric with its plan and calibrates it, all side by side as the
// trials will be, and returns when the last is done: the barrier before the trials.
func (r *run) ready(ctx context.Context, lanes []*run) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, l := range lanes {
		g.Go(func() error {
			if err := l.verify(ctx, "before the first trial"); err != nil {
				return err
			}
			return l.calibrate(ctx)
		})
	}
	return g.Wait()
}

// wait returns after d, or when the context ends, with its error.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// share hands trials out to lanes.
type share struct {
	mu    sync.Mutex
	queue []turn
}

// next is the next trial; none is left once a lane has failed.
func (s *share) next() (turn, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return turn{}, false
	}
	t := s.queue[0]
	s.queue = s.queue[1:]
	return t, true
}

func (s *share) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = nil
}

// run works until no trial is left. A lane that fails ends the run, but the trials
// that are under way elsewhere, which it does not touch, come to their end.
func (s *share) run(ctx context.Context, lanes []*run, b *book) error {
	errs := make([]error, len(lanes))
	var wg sync.WaitGroup
	for i, l := range lanes {
		wg.Go(func() {
			defer l.gate.leave()
			for t, ok := s.next(); ok; t, ok = s.next() {
				l.page = &page{}
				err := l.trial(ctx, t)
				if err = errors.Join(err, b.enter(t.n, l.page)); err != nil {
					s.stop()
					errs[i] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// book writes trials' pages in the trials' order, each as soon as all before it are
// written: what a killed run leaves is the beginning of the run.
type book struct {
	run *run

	mu      sync.Mutex
	waiting map[int]*page
	next    int
}

func (b *book) enter(n int, p *page) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting[n] = p
	for b.waiting[b.next] != nil {
		if err := b.lockedWrite(b.next); err != nil {
			return err
		}
		b.next++
	}
	return nil
}

// close writes what waits behind a trial that will never come.
func (b *book) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for ; len(b.waiting) > 0; b.next++ {
		if b.waiting[b.next] != nil {
			errs = append(errs, b.lockedWrite(b.next))
		}
	}
	return errors.Join(errs...)
}

func (b *book) lockedWrite(n int) error {
	p := b.waiting[n]
	delete(b.waiting, n)
	for _, s := range p.links {
		if err := b.run.out.AppendLink(s); err != nil {
			return err
		}
	}
	if err := b.run.keep(p.records); err != nil {
		return err
	}
	return b.run.out.Flush()
}

// told turns the progress of trials side by side into one line.
type told struct {
	progress      progress
	trials, lanes int

	mu      sync.Mutex
	started time.Time
	ended   map[string]int // requests, by trial
	total   int            // requests of a trial
}

func newTold(p progress, trials, lanes int) *told {
	return &told{progress: p, trials: trials, lanes: lanes, ended: map[string]int{}}
}

// progress is what a person sees of a run.
type progress interface {
	Phase(format string, args ...any)
	Step(phase string, done, total int, left time.Duration)
}

// begin says that a trial begins.
func (t *told) begin(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.started.IsZero() || t.lanes == 1 {
		t.started = time.Now()
	}
	t.progress.Phase("%s", name)
}

// step says how many of a trial's requests have ended.
func (t *told) step(name string, ended, total int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	spent := time.Since(t.started)
	if t.lanes == 1 {
		t.progress.Step(name, ended, total, left(spent, ended, total))
		return
	}
	t.ended[name], t.total = ended, max(t.total, total)
	sum := 0
	for _, n := range t.ended {
		sum += n
	}
	all := t.total * t.trials
	t.progress.Step(fmt.Sprintf("%d trials in %d fabrics", t.trials, t.lanes), sum, all, left(spent, sum, all))
}
