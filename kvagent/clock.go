package kvagent

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// paperClock converts between the host's monotonic and the trial's paper time: paper = (monotonic - epoch) / scale.
type paperClock struct {
	epoch int64   // monotonic ns
	scale float64 // T: real seconds per paper second, > 0
}

// now is the paper time of this instant, at least 0: nothing happens before the trial.
func (c paperClock) now() time.Duration { return c.paper(Monotonic()) }

func (c paperClock) paper(mono int64) time.Duration {
	return time.Duration(math.Round(float64(max(mono-c.epoch, 0)) / c.scale))
}

// real is the monotonic time at which paper time p is reached: never earlier, so that a timer set to it finds p due.
func (c paperClock) real(p time.Duration) int64 {
	d := float64(p) * c.scale
	if d > math.MaxInt64/4 {
		return math.MaxInt64 / 2
	}
	return c.epoch + int64(math.Ceil(d))
}

// alarms wakes the parts of an agent at monotonic times, all on one kernel timer. It is safe for concurrent use.
type alarms struct {
	timer *kernelTimer
	done  chan struct{} // closed when run has returned

	lateness atomic.Int64 // worst delay between an alarm's time and its firing or withdrawal, ns

	mu    sync.Mutex
	queue []*alarm // by time
}

// alarm is one waiting wake-up; its channel gets one value when it is due.
type alarm struct {
	at int64
	ch chan struct{}
}

// noAlarm never fires.
var noAlarm = &alarm{}

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
	_ = a.timer.Close() // fails only when closed already
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
	now, due := Monotonic(), 0
	for ; due < len(a.queue) && a.queue[due].at <= now; due++ {
		a.lateness.Store(max(a.lateness.Load(), now-a.queue[due].at))
		a.queue[due].ch <- struct{}{} // never blocks: one place, one value
	}
	a.queue = slices.Delete(a.queue, 0, due)
	a.lockedArm()
}

// lockedArm sets the kernel timer to the earliest alarm.
func (a *alarms) lockedArm() {
	if len(a.queue) > 0 {
		a.timer.set(a.queue[0].at)
	}
}

// at registers a wake-up. Stop it when it is no longer wanted.
func (a *alarms) at(mono int64) *alarm {
	al := &alarm{at: mono, ch: make(chan struct{}, 1)}
	a.mu.Lock()
	defer a.mu.Unlock()
	i, _ := slices.BinarySearchFunc(a.queue, mono, func(q *alarm, at int64) int { return cmp.Compare(q.at, at) })
	a.queue = slices.Insert(a.queue, i, al)
	if i == 0 {
		a.lockedArm()
	}
	return al
}

// stop withdraws an alarm; one that has fired, or noAlarm, is no error. One that is overdue counts as late: after a stop
// of the process, other work may come before the timer.
func (a *alarms) stop(al *alarm) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(a.queue, al); i >= 0 {
		a.lateness.Store(max(a.lateness.Load(), Monotonic()-al.at))
		a.queue = slices.Delete(a.queue, i, i+1)
	}
}

// sleepUntil waits for a monotonic time or for ctx, whose error it returns.
func (a *alarms) sleepUntil(ctx context.Context, mono int64) error {
	if mono <= Monotonic() {
		return ctx.Err()
	}
	al := a.at(mono)
	select {
	case <-al.ch:
		return nil
	case <-ctx.Done():
		a.stop(al)
		return context.Cause(ctx)
	}
}

// TimerLateness measures how late this host wakes an agent. It returns the lateness of the given number of wake-ups,
// one per period, with the timer that agents use.
func TimerLateness(ctx context.Context, count int, every time.Duration) ([]time.Duration, error) {
	a, err := newAlarms()
	if err != nil {
		return nil, err
	}
	defer a.close()
	late := make([]time.Duration, 0, count)
	next := Monotonic()
	for range count {
		next += int64(every)
		if a.sleepUntil(ctx, next) != nil {
			return late, ctx.Err()
		}
		now := Monotonic()
		late = append(late, time.Duration(now-next))
		next = max(next, now) // a late one does not make the others late
	}
	return late, nil
}
