package kvagent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/netkvlab/netkvlab/kvagent/control"
)

// session is one trial of one controller. Its parts are made at Start and
// are gone, joined, when close returns. handle and close are called from one goroutine.
type session struct {
	cfg    *config
	plane  *plane
	out    *outbox
	clock  paperClock
	alarms *alarms

	driver     *driver
	decode     *decode // the driver's instance when the role is decode
	prefill    *prefill
	sender     *sender
	receiver   *receiver
	background *background

	cancel context.CancelFunc
	pulsed chan struct{} // closed when the pulse has ended
}

// pulse is how often an agent checks that it still runs. Otherwise an agent that was
// stopped, or had no CPU, while no timer of its engine was due would not notice. A longer
// stop is always noticed. The check costs 256 idle agents 0.08 cores at this rate, 0.15 at
// 100 ms.
const pulse = 250 * time.Millisecond

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
	s.clock = paperClock{epoch: epoch, scale: s.cfg.scale}
	s.decode, _ = inst.(*decode)
	s.prefill, _ = inst.(*prefill)
	s.driver = newDriver(inst, s.clock, s.alarms, s.out.put)

	ctx, s.cancel = context.WithCancel(ctx)
	s.pulsed = make(chan struct{})
	go s.feel(ctx)
	s.sender = &sender{
		cfg: s.cfg, clock: s.clock, alarms: s.alarms, pool: s.plane.pool, emit: s.out.put, tally: s.plane.count,
		chunk: make([]byte, s.cfg.chunkBytes), active: map[transferKey]context.CancelCauseFunc{}, ctx: ctx,
	}
	s.receiver = newReceiver(s.cfg, s.clock, s.plane.count)
	s.receiver.done, s.receiver.failed = s.arrived, s.failed
	s.plane.inlet.sink.Store(s.receiver)
	s.background = &background{cfg: s.cfg, clock: s.clock, alarms: s.alarms, emit: s.out.put, sent: &s.plane.count.backgroundOut, ctx: ctx}
	s.out.put(&control.Event{AtPaperNs: int64(s.clock.now()), Event: &control.Event_Started{Started: &control.Started{}}})
	return nil
}

// feel always keeps one alarm pending; its lateness is measured like that of other alarms.
func (s *session) feel(ctx context.Context) {
	defer close(s.pulsed)
	for s.alarms.sleepUntil(ctx, monotonic()+int64(pulse)) == nil {
		// waking is enough
	}
}

// close aborts everything in progress, without events, and joins it.
func (s *session) close() {
	s.out.close()
	if s.driver == nil {
		return
	}
	s.plane.inlet.sink.Store(nil)
	s.cancel()
	s.background.off()
	s.sender.close()
	s.receiver.close()
	s.driver.close()
	s.alarms.close()
	<-s.pulsed
	late := &s.plane.count.late
	late.Store(max(late.Load(), s.alarms.lateness()))
}

// handle executes a command. What goes wrong with a request is an event; an
// error is a controller that breaks the protocol.
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

// wrongRole fails a command that this agent's role cannot do.
func (s *session) wrongRole(k transferKey, what string) {
	s.out.put(failure(k, s.clock.now(), "protocol", fmt.Errorf("%s: this agent's role is %v", what, s.cfg.role), 0))
}

func (s *session) submit(p *control.Prefill) {
	k := transferKey{request: p.GetRequest()}
	if s.prefill == nil {
		s.wrongRole(k, "prefill")
		return
	}
	s.driver.do(0, func(now time.Duration) {
		if err := s.prefill.engine.Submit(now, p.GetRequest(), int(p.GetTokens())); err != nil {
			s.out.put(failure(k, now, "prefill", err, 0))
		}
	})
}

func (s *session) reserve(r *control.Reserve) {
	k := transferKey{r.GetRequest(), r.GetAttempt()}
	if s.decode == nil {
		s.wrongRole(k, "reserve")
		return
	}
	s.driver.do(0, func(now time.Duration) {
		s.out.put(&control.Event{
			Request: k.request, Attempt: k.attempt, AtPaperNs: int64(now),
			Event: &control.Event_Reserved{Reserved: s.decode.reserve(now, r)},
		})
	})
}

// drop cancels the agent's work for an attempt.
func (s *session) drop(k transferKey) {
	s.sender.cancel(k)
	s.receiver.cancel(k)
	s.driver.do(0, func(now time.Duration) {
		switch {
		case s.prefill != nil:
			s.prefill.engine.Cancel(now, k.request)
		case s.decode != nil:
			s.release(now, k)
		}
	})
}

// release frees a reservation and reports the free memory. The driver calls it.
func (s *session) release(now time.Duration, k transferKey) {
	if s.decode.release(now, k) {
		s.out.put(&control.Event{
			Request: k.request, Attempt: k.attempt, AtPaperNs: int64(now),
			Event: &control.Event_Cache{Cache: &control.CacheChange{FreePaperBytes: s.decode.engine.FreeBytes()}},
		})
	}
}

// arrived is called by the receiver when a transfer is complete.
func (s *session) arrived(k transferKey, at time.Duration, done *control.TransferDone) {
	s.out.put(&control.Event{
		Request: k.request, Attempt: k.attempt, AtPaperNs: int64(at),
		Event: &control.Event_TransferDone{TransferDone: done},
	})
	if s.decode == nil {
		return
	}
	s.driver.do(at, func(now time.Duration) {
		if err := s.decode.arrive(now, k); err != nil {
			s.out.put(failure(k, now, "decode", err, done.GetBytes()))
		}
	})
}

// failed is called by the receiver when a transfer has failed.
func (s *session) failed(k transferKey, err error, bytes int64) {
	s.out.put(failure(k, s.clock.now(), "transfer", err, bytes))
	if s.decode != nil {
		s.driver.do(0, func(now time.Duration) { s.release(now, k) })
	}
}

// status adds the session's occupancy.
func (s *session) status(out *control.StatusResponse) {
	out.TransfersIn, out.TransfersOut = int32(s.receiver.size()), int32(s.sender.count())
	out.TimerLatenessNs = max(out.TimerLatenessNs, s.alarms.lateness())
	var once sync.WaitGroup
	once.Add(1)
	asked := s.driver.do(0, func(time.Duration) {
		defer once.Done()
		if s.driver.inst != nil {
			s.driver.inst.status(out)
		}
	})
	if asked {
		once.Wait()
	}
}
