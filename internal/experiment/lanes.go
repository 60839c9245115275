package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/netkvlab/netkvlab/internal/fidelity"
	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/internal/packetworld"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
)

// Work is one trial to play in the packet world.
type Work struct {
	trials.Trial
	Cluster *trials.Cluster // its plan must be that of the labs
	Name    string          // as in progress and reasons: "rr, seed 1"
}

// Played is a trial after its last attempt.
type Played struct {
	*packetworld.Outcome // of the last attempt, the one that counts
	Judgement            fidelity.Judgement
	Lab                  string
	Attempts             int
	Cut                  bool // it ended early
}

// Spoiled describes an attempt that is put aside; file is the name of the file with its records.
func (p *Played) Spoiled(file string) results.SpoiledAttempt {
	return results.SpoiledAttempt{Attempt: p.Attempts, Verdict: p.Judgement.Verdict, Reasons: p.Judgement.Reasons, File: file}
}

// Keeper receives played trials, from several lanes at once. An error ends the work.
type Keeper interface {
	// Keep receives the n-th trial of the work when it is done, or was cut.
	Keep(n int, p *Played) error
	// PutAside receives a spoiled attempt of a trial that will be repeated.
	PutAside(n int, p *Played) error
}

// Play plays all the work on labs: one lane per lab, with separate evidence per trial. While trials
// run, lanes share only the queue, the host and the progress display. A spoiled trial is repeated
// at most Limits.Repeats times. When a lane fails, no further trials begin, but the trials of
// other lanes run to their end.
func Play(ctx context.Context, labs []*lab.Lab, work []Work, k Keeper, progress Progress) error {
	shown, together := newTrialProgress(progress, len(work), len(labs)), newBarrier(len(labs))
	lanes := make([]*lane, len(labs))
	for i, one := range labs {
		lanes[i] = &lane{lab: one, labs: labs, shown: shown, together: together, lag: time.Duration(i) * trials.Stagger}
	}
	if err := ready(ctx, lanes, work[0].Cluster, progress); err != nil {
		return err
	}
	q := &queue{work: work}
	errs := make([]error, len(lanes))
	var wg sync.WaitGroup
	for i, one := range lanes {
		wg.Go(func() {
			defer together.leave()
			for n, w, ok := q.next(); ok; n, w, ok = q.next() {
				if err := one.play(ctx, n, w, k); err != nil {
					q.stop()
					errs[i] = fmt.Errorf("%s: %w", w.Name, err)
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// ready configures every fabric, verifies and calibrates it. All do this at once, as in the trials.
func ready(ctx context.Context, lanes []*lane, c *trials.Cluster, progress Progress) error {
	each := func(phase string, do func(context.Context, *lane) error) error {
		progress.Phase("%s", phase)
		g, ctx := errgroup.WithContext(ctx)
		for _, one := range lanes {
			g.Go(func() error { return do(ctx, one) })
		}
		return g.Wait()
	}
	err := each("choosing source ports for every path and opening connections", func(ctx context.Context, l *lane) (err error) {
		l.world, err = packetworld.New(ctx, l.lab, c, l.options())
		return err
	})
	if err != nil {
		return err
	}
	return each("calibrating: lone transfers over every tier", func(ctx context.Context, l *lane) error {
		if err := l.world.Verify(ctx); err != nil {
			return err
		}
		return l.world.Calibrate(ctx)
	})
}

// queue gives trials to lanes.
type queue struct {
	work []Work
	at   atomic.Int64
}

// next returns the next trial and its place in the work; false when none is left or a lane has failed.
func (q *queue) next() (int, Work, bool) {
	n := int(q.at.Add(1)) - 1
	if n >= len(q.work) {
		return 0, Work{}, false
	}
	return n, q.work[n], true
}

func (q *queue) stop() { q.at.Store(int64(len(q.work))) }

// lane plays trials on one lab.
type lane struct {
	lab      *lab.Lab
	labs     []*lab.Lab // of all lanes, whose CPU time is the run's own
	world    *packetworld.World
	together *barrier      // at which all lanes begin and end their trials
	lag      time.Duration // from the barrier to the start of its trial
	shown    *trialProgress
	trial    string // the current trial
	label    string // the trial with its attempt
}

func (l *lane) options() packetworld.Options {
	return packetworld.Options{
		Watch: func() *host.Watch { return host.NewWatch(host.Proc, own(l.labs)...) },
		Begin: func(ctx context.Context) error {
			l.together.wait()
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(l.lag):
			}
			l.shown.begin(l.trial, l.label)
			return nil
		},
		End:        l.together.wait,
		Note:       l.shown.progress.Note,
		OnProgress: func(ended, total int) { l.shown.step(l.trial, l.label, ended, total) },
	}
}

// play plays one trial until it is not spoiled, or the repeats are used up.
func (l *lane) play(ctx context.Context, n int, w Work, k Keeper) error {
	if err := l.world.Use(ctx, w.Cluster); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		l.trial, l.label = w.Name, w.Name
		if attempt > 1 {
			l.label = fmt.Sprintf("%s, attempt %d", w.Name, attempt)
		}
		out, err := l.world.Play(ctx, w.Trial)
		if out == nil {
			return err
		}
		p := &Played{Outcome: out, Judgement: fidelity.Judge(out.Evidence), Lab: l.lab.Name(), Attempts: attempt, Cut: err != nil}
		if err != nil || !p.Judgement.Spoiled || attempt > w.Cluster.Scenario.Limits.Repeats {
			return errors.Join(err, k.Keep(n, p))
		}
		if err := k.PutAside(n, p); err != nil {
			return fmt.Errorf("put attempt %d aside: %w", attempt, err)
		}
	}
}

// own are the processes of the run: this program and the labs' agents.
func own(labs []*lab.Lab) []int {
	pids := []int{os.Getpid()}
	for _, l := range labs {
		for _, a := range l.Agents {
			pids = append(pids, a.PID)
		}
	}
	return pids
}

// barrier synchronises lanes: they begin a trial together, and go on together after it. So the
// work of one lane before or after its trial takes no CPU from another lane's trial. The others no
// longer wait for a lane that has left.
type barrier struct {
	mu      sync.Mutex
	opened  sync.Cond
	members int
	arrived int
	passed  int // how often all have passed
}

func newBarrier(members int) *barrier {
	b := &barrier{members: members}
	b.opened.L = &b.mu
	return b
}

// wait returns when all members wait.
func (b *barrier) wait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arrived++
	at := b.passed
	b.lockedOpen()
	for b.passed == at {
		b.opened.Wait()
	}
}

// leave removes a member.
func (b *barrier) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.members--
	b.lockedOpen()
}

func (b *barrier) lockedOpen() {
	if b.arrived > 0 && b.arrived >= b.members {
		b.arrived = 0
		b.passed++
		b.opened.Broadcast()
	}
}

// Progress shows the user how far a run is.
type Progress interface {
	Phase(format string, args ...any)
	Step(phase string, done, total int, left time.Duration)
	Note(format string, args ...any)
}

// trialProgress merges the progress of trials side by side into one line.
type trialProgress struct {
	progress      Progress
	trials, lanes int

	mu      sync.Mutex
	started time.Time
	place   map[string]int // of each trial, in the order in which they begin
	ended   map[string]int // requests, by trial
	total   int            // requests per trial
}

func newTrialProgress(p Progress, trials, lanes int) *trialProgress {
	return &trialProgress{progress: p, trials: trials, lanes: lanes, place: map[string]int{}, ended: map[string]int{}}
}

// begin reports that an attempt of a trial begins.
func (t *trialProgress) begin(trial, label string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.started.IsZero() || t.lanes == 1 {
		t.started = time.Now()
	}
	if t.place[trial] == 0 {
		t.place[trial] = len(t.place) + 1
	}
	delete(t.ended, trial)
	t.progress.Phase("%s (trial %d of %d)", label, t.place[trial], t.trials)
}

// step reports how many of a trial's requests have ended.
func (t *trialProgress) step(trial, label string, ended, total int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	spent := time.Since(t.started)
	if t.lanes == 1 {
		t.progress.Step(label, ended, total, left(spent, ended, total))
		return
	}
	t.ended[trial], t.total = ended, max(t.total, total)
	sum := 0
	for _, n := range t.ended {
		sum += n
	}
	all := t.total * t.trials
	t.progress.Step(fmt.Sprintf("%d trials in %d fabrics", t.trials, t.lanes), sum, all, left(spent, sum, all))
}

// left estimates the time to the end from the pace so far.
func left(spent time.Duration, ended, total int) time.Duration {
	if ended == 0 || total <= ended {
		return 0
	}
	return time.Duration(float64(spent) * float64(total-ended) / float64(ended))
}
