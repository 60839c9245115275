package controller

import (
	"cmp"
	"container/heap"
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

// watches sorts deadlines by due time, then request, so that the order of failures does not
// depend on the order of actions.
type watches []watch

func (h watches) Len() int { return len(h) }
func (h watches) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].due, h[j].due), cmp.Compare(h[i].request, h[j].request)) < 0
}
func (h watches) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *watches) Push(x any)   { *h = append(*h, x.(watch)) }
func (h *watches) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	*h = (*h)[:last]
	return w
}

// first drops deadlines that were met and returns the first open one.
func (h *watches) first(flights []flight) (w watch, ok bool) {
	for len(*h) > 0 {
		w := (*h)[0]
		if f := &flights[w.request]; f.stage == w.stage && f.order == w.order {
			return w, true
		}
		heap.Pop(h)
	}
	return watch{}, false
}

func (h watches) postpone(by time.Duration) {
	for i := range h {
		h[i].due += by // the same for all, so the heap stays ordered
	}
}
