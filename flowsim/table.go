package flowsim

import "math"

// table holds the links and, by slot, the flows that have started and not ended.
type table struct {
	links []link
	flows []flow
	bound []float64 // by slot: the most that the water-filling allows a flow; its rate when solved
	free  []int32   // slots without a flow
	slots map[uint64]int32
}

// link is a directed link.
type link struct {
	capacity float64 // bytes of payload per second
	shares   []share // the flows on it, in the order of their IDs
	touched  bool    // in filling.touched
	stale    bool    // its key in filling.levels is only a lower bound
	released bool    // the flows it held back were released since the last solve
}

// share is a flow on a link.
type share struct {
	slot   int32
	weight float64
}

// flow is a flow that has started and not ended.
type flow struct {
	id         uint64
	phase      phase
	fate       fate
	noted      bool // in filling.noted
	bottleneck int32
	links      []int32   // each once
	weights    []float64 // the weight on each
	bytes      float64
	left       float64 // at the instant since
	rate       float64
	maxRate    float64
	since      Instant
	started    Instant
}

type phase uint8

const (
	absent  phase = iota // the slot is free
	waiting              // for its delay to pass
	active               // on its links
)

func (t *table) has(l LinkIndex) bool { return l >= 0 && int(l) < len(t.links) }

// add gives a checked flow a slot.
func (t *table) add(f *Flow, now Instant) int32 {
	if len(t.free) == 0 {
		t.free = append(t.free, int32(len(t.flows)))
		t.flows, t.bound = append(t.flows, flow{}), append(t.bound, 0)
	}
	last := len(t.free) - 1
	slot := t.free[last]
	t.free = t.free[:last]
	t.slots[f.ID] = slot
	x := &t.flows[slot]
	x.id, x.phase, x.bottleneck = f.ID, waiting, -1
	x.bytes, x.left, x.rate, x.maxRate = f.Bytes, f.Bytes, 0, f.MaxRate
	if f.MaxRate == 0 {
		x.maxRate = math.Inf(1)
	}
	x.since, x.started = now, now
	x.links, x.weights = x.links[:0], x.weights[:0]
	for i, l := range f.Path {
		w := 1.0
		if f.Weights != nil {
			w = f.Weights[i]
		}
		x.cross(int32(l), w)
	}
	return slot
}

// cross adds a link to the flow's path. Paths are short, so a scan finds a link named twice.
func (x *flow) cross(l int32, weight float64) {
	for i, known := range x.links {
		if known == l {
			x.weights[i] += weight
			return
		}
	}
	x.links, x.weights = append(x.links, l), append(x.weights, weight)
}

// movedAt is the payload moved by t if the rate stays.
func (x *flow) movedAt(t Instant) float64 { return x.bytes - x.leftAt(t) }

func (x *flow) leftAt(t Instant) float64 {
	if x.phase != active || x.left == 0 {
		return x.left
	}
	d := t.Sub(x.since)
	if d <= 0 || x.rate == 0 {
		return x.left
	}
	return max(0, x.left-float64(x.rate*d))
}
