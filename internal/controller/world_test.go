package controller

import (
	"container/heap"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/kvagent/engine"
)

// world is a scripted network around real engines on a virtual clock: every transfer has the
// same fixed rate, unless the test says otherwise.
type world struct {
	t      *testing.T
	now    time.Duration
	prefil []*engine.Prefill
	decode []*engine.Decode
	queue  eventQueue
	seq    int
	// bytesPerSecond is the emulated rate of every transfer.
	bytesPerSecond float64
	attempts       map[uint64]int // decode-side attempt of each request
	// onTransfer may replace a transfer's outcome; nil keeps it.
	onTransfer func(a Action) *Event
	deafP      map[int]bool // instances that do not answer
	deafD      map[int]bool
	actions    []Action // all actions so far
}

type queued struct {
	at  time.Duration
	seq int
	ev  Event
}

type eventQueue []queued

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(queued)) }
func (q *eventQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

func (w *world) later(at time.Duration, ev Event) {
	ev.At = at
	w.seq++
	heap.Push(&w.queue, queued{at, w.seq, ev})
}

func (w *world) pop() Event { return heap.Pop(&w.queue).(queued).ev }

// run drives a driver to its end.
func (w *world) run(d Driver) {
	w.t.Helper()
	for steps := 0; !d.Done(); steps++ {
		require.Less(w.t, steps, 1_000_000, "the trial does not end")
		kind, at := w.next(d)
		require.NotEqual(w.t, "", kind, "nothing is left to happen, and the trial is not done")
		w.now = max(w.now, at)
		switch kind {
		case "wake":
			w.carryOut(d.Wake(w.now))
		case "event":
			ev := w.pop()
			w.arrive(ev)
			w.carryOut(d.Handle(w.now, ev))
		case "engines":
			w.advance()
		}
	}
}

// next returns what comes first: an engine's event, a queued event, or the driver's wake-up.
func (w *world) next(d Driver) (kind string, at time.Duration) {
	consider := func(k string, t time.Duration, ok bool) {
		if ok && (kind == "" || t < at) {
			kind, at = k, t
		}
	}
	if len(w.queue) > 0 {
		consider("event", w.queue[0].at, true)
	}
	for i, p := range w.prefil {
		t, ok := p.Next()
		consider("engines", t, ok && !w.deafP[i])
	}
	for i, e := range w.decode {
		t, ok := e.Next()
		consider("engines", t, ok && !w.deafD[i])
	}
	t, ok := d.Next()
	consider("wake", t, ok)
	return kind, at
}

func (w *world) advance() {
	for i, p := range w.prefil {
		if w.deafP[i] {
			continue
		}
		for _, e := range p.Advance(w.now) {
			kind := PrefillStarted
			if e.Kind == engine.PrefillDone {
				kind = PrefillDone
			}
			w.later(e.At, Event{Kind: kind, Request: int(e.ID), Prefill: i})
		}
	}
	for i, d := range w.decode {
		if w.deafD[i] {
			continue
		}
		for _, e := range d.Advance(w.now) {
			ev := Event{Request: int(e.ID), Decode: i, Attempt: w.attempts[e.ID], FreeBytes: e.FreeBytes}
			switch e.Kind {
			case engine.Admitted:
				ev.Kind = Admitted
			case engine.FirstToken:
				ev.Kind = FirstToken
			case engine.Finished:
				ev.Kind = Finished
			case engine.CacheChanged:
				ev.Kind, ev.Stored, ev.Evicted = CacheChanged, e.Stored, e.Evicted
			}
			w.later(e.At, ev)
		}
	}
}

func (w *world) carryOut(actions []Action) {
	for _, a := range actions {
		w.actions = append(w.actions, a)
		switch a.Kind {
		case DoPrefill:
			if !w.deafP[a.Prefill] {
				require.NoError(w.t, w.prefil[a.Prefill].Submit(w.now, uint64(a.Request), a.Tokens))
			}
		case DoReserve:
			w.reserve(a)
		case DoTransfer:
			w.transfer(a)
		case DoCancelPrefill:
			w.prefil[a.Prefill].Cancel(w.now, uint64(a.Request))
		case DoCancelDecode:
			w.decode[a.Decode].Release(w.now, uint64(a.Request))
			delete(w.attempts, uint64(a.Request))
		}
	}
	w.advance()
}

func (w *world) reserve(a Action) {
	if w.deafD[a.Decode] {
		return
	}
	d := w.decode[a.Decode]
	hit, err := d.Reserve(w.now, engine.Reservation{
		ID: uint64(a.Request), PromptTokens: a.Tokens, OutputTokens: a.OutputTokens, Blocks: a.Blocks,
	})
	ev := Event{Kind: Reserved, Request: a.Request, Attempt: a.Attempt, Decode: a.Decode, OK: err == nil, HitTokens: hit, FreeBytes: d.FreeBytes()}
	if err != nil {
		ev.Reason = err.Error()
	}
	w.attempts[uint64(a.Request)] = a.Attempt
	w.later(w.now, ev)
}

func (w *world) transfer(a Action) {
	if w.onTransfer != nil {
		if ev := w.onTransfer(a); ev != nil {
			ev.Request, ev.Attempt = a.Request, a.Attempt
			w.later(ev.At, *ev)
			return
		}
	}
	var bytes int64
	var reports []StreamReport
	for i, s := range a.Streams {
		bytes += s.BytesEmulated
		reports = append(reports, StreamReport{NIC: s.NIC, Path: s.Path, SourcePort: 1000 + i, BytesEmulated: s.BytesEmulated})
	}
	took := time.Duration(float64(bytes) / w.bytesPerSecond * float64(time.Second))
	w.later(w.now, Event{Kind: TransferSent, Request: a.Request, Attempt: a.Attempt, Start: w.now, Streams: reports})
	w.later(w.now+took, Event{
		Kind: TransferDone, Request: a.Request, Attempt: a.Attempt, Decode: a.Decode, BytesEmulated: bytes, Streams: reports,
	})
}

// arrive passes an event to the engine before the controller gets it.
func (w *world) arrive(ev Event) {
	if ev.Kind == TransferDone && w.decode != nil && w.attempts[uint64(ev.Request)] == ev.Attempt {
		require.NoError(w.t, w.decode[ev.Decode].Arrive(ev.At, uint64(ev.Request)))
	}
}
