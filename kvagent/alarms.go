package kvagent

import (
	"container/heap"
	"context"
	"sync"
)

// alarms wakes the parts of an agent at monotonic times, all on one kernel timer.
// It is safe for concurrent use.
type alarms struct {
	timer *kernelTimer
	done  chan struct{} // closed when run has returned

	mu     sync.Mutex
	queue  alarmQueue
	latest int64 // worst lateness seen, ns
}

// alarm is one waiting wake-up; its channel gets one value when it is due.
type alarm struct {
	at    int64
	ch    chan struct{}
	index int // in the queue; -1 when not in it
}

func newAlarms() (*alarms, error) {
	t, err := newKernelTimer()
	if err != nil {
		return nil, err
	}
	a := &alarms{timer: t, done: make(chan struct{})}
	go a.run()
	return a, nil
}

// close stops all alarms without firing them and joins the goroutine.
func (a *alarms) close() {
	_ = a.timer.close() // fails only when closed already
	<-a.done
}

func (a *alarms) run() {
	defer close(a.done)
	for a.timer.wait() == nil {
		a.fire()
	}
}

func (a *alarms) fire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := monotonic()
	for len(a.queue) > 0 && a.queue[0].at <= now {
		al := heap.Pop(&a.queue).(*alarm)
		a.latest = max(a.latest, now-al.at)
		al.ch <- struct{}{} // never blocks: one place, one value
	}
	a.lockedArm()
}

// lockedArm sets the kernel timer to the earliest alarm. An error means that the
// timer is closed; then no alarm is waited for any more.
func (a *alarms) lockedArm() {
	if len(a.queue) > 0 {
		_ = a.timer.set(a.queue[0].at)
	}
}

// at registers a wake-up. Stop it when it is no longer wanted.
func (a *alarms) at(mono int64) *alarm {
	al := &alarm{at: mono, ch: make(chan struct{}, 1)}
	a.mu.Lock()
	defer a.mu.Unlock()
	heap.Push(&a.queue, al)
	if al.index == 0 {
		a.lockedArm()
	}
	return al
}

// stop withdraws an alarm; one that has fired is no error.
func (a *alarms) stop(al *alarm) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if al.index >= 0 {
		heap.Remove(&a.queue, al.index)
	}
}

// sleepUntil waits for a monotonic time or for ctx, whose error it returns.
func (a *alarms) sleepUntil(ctx context.Context, mono int64) error {
	if mono <= monotonic() {
		return ctx.Err()
	}
	al := a.at(mono)
	defer a.stop(al)
	select {
	case <-al.ch:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lateness is the worst delay between an alarm's time and its firing, in ns.
func (a *alarms) lateness() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.latest
}

// alarmQueue is a heap by time.
type alarmQueue []*alarm

func (q alarmQueue) Len() int           { return len(q) }
func (q alarmQueue) Less(i, j int) bool { return q[i].at < q[j].at }
func (q alarmQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}
func (q *alarmQueue) Push(x any) {
	al := x.(*alarm)
	al.index = len(*q)
	*q = append(*q, al)
}
func (q *alarmQueue) Pop() any {
	old := *q
	al := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	al.index = -1
	return al
}
