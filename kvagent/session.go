package kvagent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/netkvlab/netkvlab/kvagent/control"
)

// trial is what all parts of a session use.
type trial struct {
	cfg    *config
	plane  *plane
	out    *outbox
	clock  paperClock
	alarms *alarms
	ctx    context.Context // ends when the session does
}

// session is one trial of one controller. Its parts are made at Start and are gone, joined, when close returns.
// handle and close are called from one goroutine.
type session struct {
	trial
	driver     *driver
	decode     *decode // the driver's instance when the role is decode
	prefill    *prefill
	sender     *sender
	receiver   *receiver
	background *background

	cancel      context.CancelFunc
	checksEnded chan struct{} // closed when they have
}

// checkPeriod is how often an agent checks that it still runs. Otherwise an agent that was stopped, or had no CPU,
// while no timer of its engine was due would not notice. A longer stop is always noticed. The check costs 256 idle
// agents 0.08 cores at this rate, 0.15 at 100 ms.
const checkPeriod = 250 * time.Millisecond

var errNotStarted = errors.New("the first command of a session must be Start")

// start builds the parts for a trial.
func (s *session) start(ctx context.Context, epoch int64) error {
	if s.driver != nil {
		return errors.New("the session is started already: a new trial needs a new session")
	}
	inst, err := newInstance(s.cfg)
	if err != nil {
		return err
	}
	if s.alarms, err = newAlarms(); err != nil {
		return err
	}
	s.clock = paperClock{epoch: epoch, scale: s.cfg.GetTimeScale()}
	s.decode, _ = inst.(*decode)
	s.prefill, _ = inst.(*prefill)
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.driver = newDriver(&s.trial, inst)
	s.checksEnded = make(chan struct{})
	go s.checkLateness()
	s.sender = &sender{
		trial: &s.trial, chunk: make([]byte, s.cfg.chunkBytes), active: map[transferKey]context.CancelCauseFunc{},
	}
	s.receiver = &receiver{
		trial: &s.trial, done: s.arrived, failed: s.failed, transfers: map[transferKey]*inbound{}, over: map[transferKey]struct{}{},
	}
	s.plane.inlet.receiver.Store(s.receiver)
	s.background = &background{trial: &s.trial}
	e := transferKey{}.event(s.clock.now())
	e.Event = &control.Event_Started{Started: &control.Started{}}
	s.out.put(e)
	return nil
}

// checkLateness always keeps one alarm pending; its lateness is measured like that of other alarms.
func (s *session) checkLateness() {
	defer close(s.checksEnded)
	for s.alarms.sleepUntil(s.ctx, Monotonic()+int64(checkPeriod)) == nil {
		// waking is enough
	}
}

// close aborts everything in progress, without events, and joins it.
func (s *session) close() {
	s.out.close()
	if s.driver == nil {
		return
	}
	s.plane.inlet.receiver.Store(nil)
	s.cancel()
	s.background.off()
	s.sender.close()
	s.receiver.close()
	s.driver.close()
	s.alarms.close()
	<-s.checksEnded
	late := &s.plane.count.late
	late.Store(max(late.Load(), s.alarms.lateness.Load()))
}

// handle executes a command. A request's failure is an event; an error means that the controller broke the protocol.
func (s *session) handle(ctx context.Context, c *control.Command) error {
	if st := c.GetStart(); st != nil {
		return s.start(ctx, st.GetEpochNs())
	}
	if s.driver == nil {
		return errNotStarted
	}
	switch c := c.GetCommand().(type) {
	case *control.Command_Prefill:
		s.submit(c.Prefill)
	case *control.Command_Reserve:
		s.reserve(c.Reserve)
	case *control.Command_Transfer:
		k := transferKey{c.Transfer.GetRequest(), c.Transfer.GetAttempt()}
		if c.Transfer.GetReceive() {
			s.receiver.announce(k, c.Transfer)
		} else {
			s.sender.start(s.clock.now(), k, c.Transfer)
		}
	case *control.Command_Cancel:
		s.drop(transferKey{c.Cancel.GetRequest(), c.Cancel.GetAttempt()})
	case *control.Command_Background:
		if c.Background.GetOn() {
			s.background.on()
		} else {
			s.background.off()
		}
	default:
		return fmt.Errorf("unknown command %T: the controller is newer than this agent", c)
	}
	return nil
}

// onEngine lets the driver do a command, or fails it where this agent's role has no such engine.
func (s *session) onEngine(has bool, k transferKey, what string, do func(now time.Duration)) {
	if !has {
		s.out.put(k.failure(s.clock.now(), "protocol", fmt.Errorf("%s: this agent's role is %v", what, s.cfg.GetRole()), 0))
		return
	}
	s.driver.do(0, do)
}

func (s *session) submit(p *control.Prefill) {
	k := transferKey{request: p.GetRequest()}
	s.onEngine(s.prefill != nil, k, "prefill", func(now time.Duration) {
		if err := s.prefill.Submit(now, p.GetRequest(), int(p.GetTokens())); err != nil {
			s.out.put(k.failure(now, "prefill", err, 0))
		}
	})
}

func (s *session) reserve(r *control.Reserve) {
	k := transferKey{r.GetRequest(), r.GetAttempt()}
	s.onEngine(s.decode != nil, k, "reserve", func(now time.Duration) {
		e := k.event(now)
		e.Event = &control.Event_Reserved{Reserved: s.decode.reserve(now, r)}
		s.out.put(e)
	})
}

// drop cancels the agent's work for an attempt.
func (s *session) drop(k transferKey) {
	s.sender.cancel(k)
	s.receiver.cancel(k)
	s.driver.do(0, func(now time.Duration) {
		switch {
		case s.prefill != nil:
			s.prefill.Cancel(now, k.request)
		case s.decode != nil:
			s.release(now, k)
		}
	})
}

// release frees a reservation and reports the free memory. The driver calls it.
func (s *session) release(now time.Duration, k transferKey) {
	if s.decode.release(now, k) {
		e := k.event(now)
		e.Event = &control.Event_Cache{Cache: &control.CacheChange{FreePaperBytes: s.decode.FreeBytes()}}
		s.out.put(e)
	}
}

// arrived is called by the receiver when a transfer is complete.
func (s *session) arrived(k transferKey, at time.Duration, done *control.TransferDone) {
	e := k.event(at)
	e.Event = &control.Event_TransferDone{TransferDone: done}
	s.out.put(e)
	if s.decode == nil {
		return
	}
	s.driver.do(at, func(now time.Duration) {
		if err := s.decode.arrive(now, k); err != nil {
			s.out.put(k.failure(now, "decode", err, done.GetBytes()))
		}
	})
}

// failed is called by the receiver when a transfer has failed.
func (s *session) failed(k transferKey, err error, bytes int64) {
	s.out.put(k.failure(s.clock.now(), "transfer", err, bytes))
	if s.decode != nil {
		s.driver.do(0, func(now time.Duration) { s.release(now, k) })
	}
}

// status adds the session's occupancy.
func (s *session) status(out *control.StatusResponse) {
	out.TransfersIn, out.TransfersOut = int32(s.receiver.size()), int32(s.sender.size())
	out.TimerLatenessNs = max(out.TimerLatenessNs, s.alarms.lateness.Load())
	answered := make(chan struct{})
	if s.driver.do(0, func(time.Duration) {
		s.driver.inst.status(out)
		close(answered)
	}) {
		<-answered
	}
}

// outboxLimit bounds the events that wait for a controller that does not read.
const outboxLimit = 1 << 18

// outbox is the queue of events to the controller. put never blocks, so a slow controller delays no engine and no
// transfer. A controller that does not read at all loses its session.
type outbox struct {
	mu      sync.Mutex
	changed *sync.Cond
	queue   []*control.Event
	closed  bool
	full    bool
}

func newOutbox() *outbox {
	o := &outbox{}
	o.changed = sync.NewCond(&o.mu)
	return o
}

// put queues an event; after close it is dropped.
func (o *outbox) put(e *control.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.full {
		return
	}
	if o.full = len(o.queue) >= outboxLimit; !o.full {
		o.queue = append(o.queue, e)
	}
	o.changed.Signal()
}

// close lets the pump end once the queue is empty.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.changed.Signal()
}

// pump sends until the outbox is closed and empty.
func (o *outbox) pump(send func(*control.Event) error) error {
	for {
		o.mu.Lock()
		for len(o.queue) == 0 && !o.closed && !o.full {
			o.changed.Wait()
		}
		batch, closed, full := o.queue, o.closed, o.full
		o.queue = nil
		o.mu.Unlock()
		for _, e := range batch {
			if err := send(e); err != nil {
				return err
			}
		}
		switch {
		case full:
			return fmt.Errorf("the controller left %d events unread", outboxLimit)
		case closed:
			return nil
		}
	}
}
