package engine

import (
	"slices"
	"time"
)

// run does what is due by t and moves the time to t.
func (d *Decode) run(t time.Duration) {
	d.now = max(d.now, t)
	for d.due >= 0 {
		at := d.seg.at(d.due)
		if at > d.now {
			return
		}
		d.seg.anchor, d.seg.first = at, d.seg.first+d.due
		d.handOut()
		d.admit()
		d.restart()
	}
}

// handOut counts the tokens of the iteration that ends at the anchor: it reports
// first tokens and removes finished sequences.
func (d *Decode) handOut() {
	at := d.seg.anchor
	for i := 0; i < len(d.batch); {
		q := d.batch[i]
		tokens := d.seg.first - q.admittedIter
		if tokens >= 1 && q.firstAt == 0 {
			q.firstAt = at // never 0: an iteration takes time
			d.emit(DecodeEvent{ID: q.id, Kind: FirstToken, At: at, AdmittedAt: q.admittedAt, Tokens: 1})
		}
		if tokens < q.output {
			i++
			continue
		}
		d.batch = slices.Delete(d.batch, i, i+1)
		d.drop(q)
		e := DecodeEvent{ID: q.id, Kind: Finished, At: at, AdmittedAt: q.admittedAt, Tokens: int(q.output)}
		if q.output > 1 {
			e.MeanTBT = (at - q.firstAt) / time.Duration(q.output-1)
		}
		d.emit(e)
	}
}

// admit lets waiting requests join at the anchor while there is room.
func (d *Decode) admit() {
	for len(d.waiting) > 0 && len(d.batch) < d.cfg.MaxBatch {
		q := d.waiting[0]
		d.waiting = d.waiting[1:]
		q.admitted, q.admittedAt, q.admittedIter = true, d.seg.anchor, d.seg.first
		d.batch = append(d.batch, q)
		d.emit(DecodeEvent{ID: q.id, Kind: Admitted, At: q.admittedAt, AdmittedAt: q.admittedAt})
	}
}

// join admits at this instant if it is a boundary or the instance is idle;
// otherwise waiting requests will join at the next boundary.
func (d *Decode) join() {
	idle := len(d.batch) == 0 && d.seg.anchor <= d.now
	if k := d.seg.floor(d.now); idle {
		d.seg.anchor = d.now
	} else if k >= 0 && d.seg.at(k) == d.now {
		d.seg.anchor, d.seg.first = d.now, d.seg.first+k
	} else {
		d.restart()
		return
	}
	d.admit()
	d.restart()
}

// leave takes a sequence out of the batch. Unless this instant is a boundary,
// the iteration that runs keeps its length: the next segment starts at its end.
func (d *Decode) leave(q *request) {
	k := d.seg.floor(d.now)
	if k < 0 || d.seg.at(k) != d.now {
		k++
	}
	d.seg.anchor, d.seg.first = d.seg.at(k), d.seg.first+k
	i := slices.Index(d.batch, q)
	d.batch = slices.Delete(d.batch, i, i+1)
	d.restart()
}

// restart makes the segment describe the batch from its anchor on and finds the
// next boundary that needs work. It changes nothing when the batch is the same.
func (d *Decode) restart() {
	d.seg.batch, d.seg.context = len(d.batch), 0
	d.due = -1
	need := func(k int64) {
		if d.due < 0 || k < d.due {
			d.due = k
		}
	}
	for _, q := range d.batch {
		d.seg.context += q.prompt + d.seg.first - q.admittedIter
		next := q.admittedIter + q.output
		if q.firstAt == 0 {
			next = q.admittedIter + 1
		}
		need(next - d.seg.first)
	}
	if len(d.waiting) > 0 && len(d.batch) < d.cfg.MaxBatch {
		need(d.seg.floor(d.now) + 1)
	}
}
