package flowsim

// entry is an event that is due at an Instant. Entries of one Instant are in the order of their tie.
type entry struct {
	at  Instant
	tie uint64
	ref int32 // whose event it is: dense, at most once in a queue
}

func (e *entry) less(o *entry) bool {
	return e.at.Before(o.at) || e.at == o.at && e.tie < o.tie
}

// queue is a binary heap of entries that knows the position of each ref.
type queue struct {
	entries []entry
	where   []int32 // by ref: position in entries, plus 1; 0 means absent
}

// room makes room for refs below n.
func (q *queue) room(n int) {
	for len(q.where) < n {
		q.where = append(q.where, 0)
	}
}

// set adds the entry or moves the one of its ref.
func (q *queue) set(e entry) {
	i := int(q.where[e.ref]) - 1
	if i < 0 {
		q.entries = append(q.entries, e)
		q.up(len(q.entries)-1, e)
		return
	}
	if e.less(&q.entries[i]) {
		q.up(i, e)
	} else {
		q.down(i, e)
	}
}

// drop removes ref's entry if there is one.
func (q *queue) drop(ref int32) {
	i := int(q.where[ref]) - 1
	if i < 0 {
		return
	}
	q.where[ref] = 0
	last := len(q.entries) - 1
	e := q.entries[last]
	q.entries = q.entries[:last]
	if i == last {
		return
	}
	if i > 0 && e.less(&q.entries[(i-1)/2]) {
		q.up(i, e)
	} else {
		q.down(i, e)
	}
}

// up puts e at i or nearer to the top.
func (q *queue) up(i int, e entry) {
	for i > 0 {
		parent := (i - 1) / 2
		if !e.less(&q.entries[parent]) {
			break
		}
		q.place(i, q.entries[parent])
		i = parent
	}
	q.place(i, e)
}

// down puts e at i or farther from the top.
func (q *queue) down(i int, e entry) {
	for {
		child := 2*i + 1
		if child >= len(q.entries) {
			break
		}
		if child+1 < len(q.entries) && q.entries[child+1].less(&q.entries[child]) {
			child++
		}
		if !q.entries[child].less(&e) {
			break
		}
		q.place(i, q.entries[child])
		i = child
	}
	q.place(i, e)
}

func (q *queue) place(i int, e entry) {
	q.entries[i] = e
	q.where[e.ref] = int32(i + 1)
}
