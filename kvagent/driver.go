package kvagent

import (
	"errors"
	"fmt"
	"time"

	"github.com/netkvlab/netkvlab/kvagent/control"
	"github.com/netkvlab/netkvlab/kvagent/engine"
)

// driver is the one goroutine that owns an engine. Other goroutines give it work with do; it wakes by itself when
// the engine has something to do. Late wake-ups do not shift model time: the engine gives the time of each event.
type driver struct {
	*trial
	inst  instance
	work  chan task
	stop  chan struct{}
	ended chan struct{}
}

// task is work to be done at a paper time: that of the cause if it is known (the last byte of a transfer), else 0:
// the time at which the driver runs it.
type task struct {
	at time.Duration
	do func(now time.Duration)
}

func newDriver(t *trial, inst instance) *driver {
	d := &driver{trial: t, inst: inst, work: make(chan task, 64), stop: make(chan struct{}), ended: make(chan struct{})}
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
	var latest time.Duration // that the engine was given
	wake := noAlarm
	for {
		wake = d.rearm(wake)
		var t task
		select {
		case t = <-d.work:
		case <-wake.ch:
			wake = noAlarm
		case <-d.stop:
			d.alarms.stop(wake)
			return
		}
		if t.at == 0 {
			t.at = d.clock.now()
		}
		latest = max(latest, t.at)
		d.advance(latest)
		if t.do != nil {
			t.do(latest)
			d.advance(latest)
		}
	}
}

// rearm sets the alarm to the engine's next event.
func (d *driver) rearm(wake *alarm) *alarm {
	next, ok := d.inst.Next()
	at := d.clock.real(next)
	if ok && wake != noAlarm && wake.at == at {
		return wake
	}
	d.alarms.stop(wake)
	if !ok {
		return noAlarm
	}
	return d.alarms.at(at)
}

func (d *driver) advance(now time.Duration) {
	for _, e := range d.inst.advance(now) {
		d.out.put(e)
	}
}

// instance is an engine as the driver sees it: it turns commands and time into events of the protocol.
type instance interface {
	Next() (time.Duration, bool)                // when the driver must wake the machine
	advance(now time.Duration) []*control.Event // the events up to now
	status(*control.StatusResponse)             // fills in the occupancy
}

// noEngine is for a role without an engine; a driver's work still runs in order.
type noEngine struct{}

func (noEngine) Next() (time.Duration, bool)            { return 0, false }
func (noEngine) advance(time.Duration) []*control.Event { return nil }
func (noEngine) status(*control.StatusResponse)         {}

func newInstance(c *config) (inst instance, err error) {
	e := c.GetEngine()
	model := engine.Model{
		PrefillBase:              time.Duration(e.GetPrefillBasePaperNs()),
		PrefillPerTokenNs:        e.GetPrefillPerTokenPaperNs(),
		PrefillPerTokenSquaredNs: e.GetPrefillPerTokenSquaredPaperNs(),
		DecodeBase:               time.Duration(e.GetDecodeBasePaperNs()),
		DecodePerSequence:        time.Duration(e.GetDecodePerSequencePaperNs()),
		DecodePerContextTokenNs:  e.GetDecodePerContextTokenPaperNs(),
	}
	inst = noEngine{}
	switch c.GetRole() {
	case control.Role_ROLE_PREFILL:
		p := &prefill{}
		p.Prefill, err = engine.NewPrefill(engine.PrefillConfig{Model: model, Mode: engine.Mode(e.GetPrefillMode())})
		inst = p
	case control.Role_ROLE_DECODE:
		d := &decode{attempts: map[uint64]uint32{}}
		d.Decode, err = engine.NewDecode(engine.DecodeConfig{
			Model: model, MaxBatch: int(e.GetMaxBatch()), MemoryBytes: e.GetMemoryPaperBytes(),
			KVBytesPerToken: e.GetKvBytesPerTokenPaper(), BlockTokens: int(e.GetBlockTokens()),
		})
		inst = d
	}
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	return inst, nil
}

// prefill is the engine of a prefill agent. Prompts have no attempts: nothing distinguishes a request that is
// computed again, and nothing needs to.
type prefill struct{ *engine.Prefill }

func (p *prefill) advance(now time.Duration) (out []*control.Event) {
	for _, e := range p.Advance(now) {
		ev := transferKey{request: e.ID}.event(e.At)
		switch e.Kind {
		case engine.PrefillStarted:
			ev.Event = &control.Event_PrefillStarted{PrefillStarted: &control.PrefillStarted{}}
		case engine.PrefillDone:
			ev.Event = &control.Event_PrefillDone{PrefillDone: &control.PrefillDone{}}
		}
		out = append(out, ev)
	}
	return out
}

func (p *prefill) status(s *control.StatusResponse) {
	s.PrefillWaiting, s.PrefillRunning = int32(p.Waiting()), int32(p.Running())
}

// decode is the engine of a decode agent. A request holds one reservation at a time: that of its latest attempt.
type decode struct {
	*engine.Decode
	attempts map[uint64]uint32 // of requests that the engine holds
}

func (d *decode) advance(now time.Duration) (out []*control.Event) {
	for _, e := range d.Advance(now) {
		ev := transferKey{e.ID, d.attempts[e.ID]}.event(e.At)
		switch e.Kind {
		case engine.Admitted:
			ev.Event = &control.Event_Admitted{Admitted: &control.Admitted{Batch: int32(e.Batch)}}
		case engine.FirstToken:
			ev.Event = &control.Event_FirstToken{FirstToken: &control.FirstToken{Batch: int32(e.Batch), AdmittedPaperNs: int64(e.AdmittedAt)}}
		case engine.Finished:
			ev.Event = &control.Event_Finished{Finished: &control.Finished{
				Tokens: int32(e.Tokens), FreePaperBytes: e.FreeBytes, MeanTbtPaperNs: int64(e.MeanTBT)}}
			delete(d.attempts, e.ID)
		case engine.CacheChanged:
			ev.Event = &control.Event_Cache{Cache: &control.CacheChange{Stored: e.Stored, Evicted: e.Evicted, FreePaperBytes: e.FreeBytes}}
		}
		out = append(out, ev)
	}
	return out
}

func (d *decode) status(s *control.StatusResponse) {
	s.DecodeWaiting, s.DecodeBatch = int32(d.Queue()), int32(d.Batch())
	s.Reservations, s.CachedBlocks = int32(d.Reservations()), int32(d.Cached())
	s.FreePaperBytes, s.MemoryPaperBytes = d.FreeBytes(), d.MemoryBytes()
}

// reserve reserves memory for an attempt, after it has released an earlier attempt's reservation.
func (d *decode) reserve(now time.Duration, r *control.Reserve) *control.Reserved {
	if _, held := d.attempts[r.GetRequest()]; held {
		d.Release(now, r.GetRequest())
	}
	hit, err := d.Reserve(now, engine.Reservation{
		ID: r.GetRequest(), PromptTokens: int(r.GetPromptTokens()), OutputTokens: int(r.GetOutputTokens()), Blocks: r.GetBlocks(),
	})
	if err != nil {
		delete(d.attempts, r.GetRequest())
		return &control.Reserved{Reason: err.Error(), FreePaperBytes: d.FreeBytes()}
	}
	d.attempts[r.GetRequest()] = r.GetAttempt()
	return &control.Reserved{Ok: true, HitTokens: int64(hit), FreePaperBytes: d.FreeBytes()}
}

var errNoReservation = errors.New("the request holds no reservation here")

func (d *decode) holds(k transferKey) bool {
	attempt, held := d.attempts[k.request]
	return held && attempt == k.attempt
}

// arrive reports that an attempt's bytes have arrived.
func (d *decode) arrive(now time.Duration, k transferKey) error {
	if !d.holds(k) {
		return errNoReservation
	}
	return d.Arrive(now, k.request)
}

// release frees an attempt's reservation and reports whether there was one.
func (d *decode) release(now time.Duration, k transferKey) bool {
	if !d.holds(k) {
		return false
	}
	delete(d.attempts, k.request)
	return d.Release(now, k.request)
}
