package kvagent

import (
	"time"

	"github.com/netkvlab/netkvlab/kvagent/control"
)

// driver is the one goroutine that owns an engine. Other goroutines give it work with do;
// it wakes by itself when the engine has something to do. Late wake-ups do not shift
// model time: the engine gives the time of each event.
type driver struct {
	inst   instance // nil: a role without engine; work still runs in order
	clock  paperClock
	alarms *alarms
	emit   func(*control.Event)
	work   chan task
	stop   chan struct{}
	ended  chan struct{}
}

// task is work to be done at a paper time: that of the cause if it is known
// (the last byte of a transfer), else 0: the time at which the driver runs it.
type task struct {
	at time.Duration
	do func(now time.Duration)
}

func newDriver(inst instance, clock paperClock, al *alarms, emit func(*control.Event)) *driver {
	d := &driver{
		inst: inst, clock: clock, alarms: al, emit: emit,
		work: make(chan task, 64), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	go d.run()
	return d
}

// close stops the driver and joins it; waiting work is dropped.
func (d *driver) close() {
	close(d.stop)
	<-d.ended
}

// do queues work. It returns false if the driver has stopped.
func (d *driver) do(at time.Duration, f func(now time.Duration)) bool {
	select {
	case d.work <- task{at, f}:
		return true
	case <-d.stop:
		return false
	}
}

func (d *driver) run() {
	defer close(d.ended)
	var told time.Duration // the latest time given to the engine
	var wake *alarm
	for {
		wake = d.rearm(wake)
		var fired chan struct{}
		if wake != nil {
			fired = wake.ch
		}
		select {
		case t := <-d.work:
			at := t.at
			if at == 0 {
				at = d.clock.now()
			}
			told = max(told, at)
			d.advance(told)
			t.do(told)
			d.advance(told)
		case <-fired:
			wake = nil
			told = max(told, d.clock.now())
			d.advance(told)
		case <-d.stop:
			if wake != nil {
				d.alarms.stop(wake)
			}
			return
		}
	}
}

// rearm sets the alarm to the engine's next event.
func (d *driver) rearm(wake *alarm) *alarm {
	if d.inst == nil {
		return nil
	}
	next, ok := d.inst.next()
	at := d.clock.real(next)
	if wake != nil {
		if ok && wake.at == at {
			return wake
		}
		d.alarms.stop(wake)
	}
	if !ok {
		return nil
	}
	return d.alarms.at(at)
}

func (d *driver) advance(now time.Duration) {
	if d.inst == nil {
		return
	}
	for _, e := range d.inst.advance(now) {
		d.emit(e)
	}
}
