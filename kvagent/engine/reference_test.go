package engine

import "time"

// walker is the slow and simple batching model: it runs every iteration and
// marks cancelled sequences instead of moving anchors. No memory, no cache.
type walker struct {
	model      Model
	max        int
	start, end time.Duration // of the iteration that runs
	running    bool
	batch      []*walked
	waiting    []*walked
	timeline   []timed
}

type walked struct {
	id             uint64
	prompt, output int
	tokens         int
	gone           bool
}

func (w *walker) to(t time.Duration) {
	for w.running && w.end <= t {
		now := w.end
		var stay []*walked
		for _, q := range w.batch {
			if q.gone {
				continue
			}
			q.tokens++
			if q.tokens == 1 {
				w.timeline = append(w.timeline, timed{q.id, FirstToken, now})
			}
			if q.tokens == q.output {
				w.timeline = append(w.timeline, timed{q.id, Finished, now})
				continue
			}
			stay = append(stay, q)
		}
		w.batch = stay
		w.begin(now)
	}
}

// begin opens an iteration at now with all sequences that may join.
func (w *walker) begin(now time.Duration) {
	for len(w.waiting) > 0 && len(w.batch) < w.max {
		w.timeline = append(w.timeline, timed{w.waiting[0].id, Admitted, now})
		w.batch, w.waiting = append(w.batch, w.waiting[0]), w.waiting[1:]
	}
	context := 0
	for _, q := range w.batch {
		context += q.prompt + q.tokens
	}
	w.running = len(w.batch) > 0
	w.start, w.end = now, now+iteration(w.model, len(w.batch), context)
}

func (w *walker) arrive(now time.Duration, q *walked) {
	w.to(now)
	w.waiting = append(w.waiting, q)
	if !w.running || w.start == now {
		w.begin(now)
	}
}

func (w *walker) release(now time.Duration, id uint64) {
	w.to(now)
	for i, q := range w.waiting {
		if q.id == id {
			w.waiting = append(w.waiting[:i:i], w.waiting[i+1:]...)
			return
		}
	}
	for i, q := range w.batch {
		if q.id != id || q.gone {
			continue
		}
		if w.start == now {
			w.batch = append(w.batch[:i:i], w.batch[i+1:]...)
			w.begin(now)
		} else {
			q.gone = true
		}
		return
	}
}

// iteration is how long one decode iteration of a batch with this context takes.
func iteration(m Model, batch, context int) time.Duration {
	return segment{model: m, batch: batch, context: int64(context)}.at(1)
}
