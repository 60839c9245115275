package controller

import (
	"container/heap"
	"fmt"
	"time"
)

// watch is a deadline for an instance to answer an action. If a process hangs or a host stops,
// no connection breaks, so without a deadline its requests would wait for ever.
type watch struct {
	due     time.Duration
	request int
	order   int // only the request's latest deadline counts
	stage   stage
}

// watchHeap sorts deadlines by due time, then request, so that the order of failures does not
// depend on the order of actions.
type watchHeap []watch

func (h watchHeap) Len() int { return len(h) }
func (h watchHeap) Less(i, j int) bool {
	if h[i].due != h[j].due {
		return h[i].due < h[j].due
	}
	return h[i].request < h[j].request
}
func (h watchHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *watchHeap) Push(x any)   { *h = append(*h, x.(watch)) }
func (h *watchHeap) Pop() any {
	old := *h
	w := old[len(old)-1]
	*h = old[:len(old)-1]
	return w
}

// expect notes that a request must leave its stage within the given time.
func (c *Serving) expect(f *flight, from, within time.Duration) {
	if c.cfg.AnswerTimeout <= 0 {
		return
	}
	f.order++
	heap.Push(&c.watches, watch{from + within + c.cfg.AnswerTimeout, f.req.ID, f.order, f.stage})
}

// nextWatch drops deadlines that were met and returns the due time of the first open one.
func (c *Serving) nextWatch() (time.Duration, bool) {
	for len(c.watches) > 0 {
		w := c.watches[0]
		if f := &c.flights[w.request]; f.stage == w.stage && f.order == w.order {
			return w.due, true
		}
		heap.Pop(&c.watches)
	}
	return 0, false
}

// overdue takes instances that did not answer out of service.
func (c *Serving) overdue(now time.Duration) {
	for {
		due, ok := c.nextWatch()
		if !ok || due > now {
			return
		}
		f := &c.flights[heap.Pop(&c.watches).(watch).request]
		switch f.stage {
		case stagePrefill:
			name := c.cfg.PrefillNames[f.prefill]
			c.onPrefillDown(now, Event{Prefill: f.prefill, Reason: fmt.Sprintf("%s did not finish a prefill in time", name)})
		case stageReserving:
			name := c.cfg.DecodeNames[f.decode]
			c.onDecodeDown(now, Event{Decode: f.decode, Reason: fmt.Sprintf("%s did not answer a reservation in time", name)})
		case stageTransfer:
			c.again(now, f, fmt.Sprintf("no word of the transfer from %s to %s in time", c.cfg.PrefillNames[f.prefill], c.cfg.DecodeNames[f.decode]))
		}
	}
}

// Postpone moves every deadline and the drain limit by a pause of the controller.
func (c *Serving) Postpone(by time.Duration) {
	for i := range c.watches {
		c.watches[i].due += by // the same for all, so the heap stays ordered
	}
	c.deadline += by
}
