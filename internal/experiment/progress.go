package experiment

import (
	"fmt"
	"sync"
	"time"
)

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
	begun   int
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
		t.begun++
		t.place[trial] = t.begun
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
