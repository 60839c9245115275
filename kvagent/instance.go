package kvagent

import (
	"errors"
	"fmt"
	"time"

	"github.com/netkvlab/netkvlab/kvagent/control"
	"github.com/netkvlab/netkvlab/kvagent/engine"
)

// instance is an engine as the driver sees it: a state machine that turns
// commands and time into events of the protocol. A role without an engine has none.
type instance interface {
	// next is when the driver must wake the machine.
	next() (time.Duration, bool)
	// advance returns the events up to now.
	advance(now time.Duration) []*control.Event
	// status fills in the occupancy.
	status(*control.StatusResponse)
}

func newInstance(c *config) (instance, error) {
	switch c.role {
	case control.Role_ROLE_PREFILL:
		e, err := engine.NewPrefill(engine.PrefillConfig{Model: engineModel(c.engine), Mode: engine.Mode(c.engine.GetPrefillMode())})
		if err != nil {
			return nil, fmt.Errorf("engine: %w", err)
		}
		return &prefill{engine: e}, nil
	case control.Role_ROLE_DECODE:
		e, err := engine.NewDecode(engine.DecodeConfig{
			Model: engineModel(c.engine), MaxBatch: int(c.engine.GetMaxBatch()),
			MemoryBytes: c.engine.GetMemoryPaperBytes(), KVBytesPerToken: c.engine.GetKvBytesPerTokenPaper(),
			BlockTokens: int(c.engine.GetBlockTokens()),
		})
		if err != nil {
			return nil, fmt.Errorf("engine: %w", err)
		}
		return &decode{engine: e, attempts: map[uint64]uint32{}}, nil
	default:
		return nil, nil
	}
}

// prefill is the engine of a prefill agent. Prompts have no attempts: nothing
// distinguishes a request that is computed again, and nothing needs to.
type prefill struct{ engine *engine.Prefill }

func (p *prefill) next() (time.Duration, bool) { return p.engine.Next() }

func (p *prefill) advance(now time.Duration) []*control.Event {
	var out []*control.Event
	for _, e := range p.engine.Advance(now) {
		ev := &control.Event{Request: e.ID, AtPaperNs: int64(e.At)}
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
	s.PrefillWaiting, s.PrefillRunning = int32(p.engine.Waiting()), int32(p.engine.Running())
}

// decode is the engine of a decode agent. A request holds one reservation at a
// time, that of its latest attempt; the engine knows requests only.
type decode struct {
	engine   *engine.Decode
	attempts map[uint64]uint32 // of requests that the engine holds
}

func (d *decode) next() (time.Duration, bool) { return d.engine.Next() }

func (d *decode) advance(now time.Duration) []*control.Event {
	var out []*control.Event
	for _, e := range d.engine.Advance(now) {
		ev := &control.Event{Request: e.ID, Attempt: d.attempts[e.ID], AtPaperNs: int64(e.At)}
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
	s.DecodeWaiting, s.DecodeBatch = int32(d.engine.Queue()), int32(d.engine.Batch())
	s.Reservations, s.CachedBlocks = int32(d.engine.Reservations()), int32(d.engine.Cached())
	s.FreePaperBytes, s.MemoryPaperBytes = d.engine.FreeBytes(), d.engine.MemoryBytes()
}

// reserve reserves memory for an attempt, after it has released an earlier attempt's reservation.
func (d *decode) reserve(now time.Duration, r *control.Reserve) *control.Reserved {
	if _, held := d.attempts[r.GetRequest()]; held {
		d.engine.Release(now, r.GetRequest())
	}
	hit, err := d.engine.Reserve(now, engine.Reservation{
		ID: r.GetRequest(), PromptTokens: int(r.GetPromptTokens()), OutputTokens: int(r.GetOutputTokens()), Blocks: r.GetBlocks(),
	})
	if err != nil {
		delete(d.attempts, r.GetRequest())
		return &control.Reserved{Reason: err.Error(), FreePaperBytes: d.engine.FreeBytes()}
	}
	d.attempts[r.GetRequest()] = r.GetAttempt()
	return &control.Reserved{Ok: true, HitTokens: int64(hit), FreePaperBytes: d.engine.FreeBytes()}
}

var errNoReservation = errors.New("the request holds no reservation here")

// arrive reports that an attempt's bytes have arrived.
func (d *decode) arrive(now time.Duration, k transferKey) error {
	if a, held := d.attempts[k.request]; !held || a != k.attempt {
		return errNoReservation
	}
	return d.engine.Arrive(now, k.request)
}

// release frees an attempt's reservation and reports whether there was one.
func (d *decode) release(now time.Duration, k transferKey) bool {
	if a, held := d.attempts[k.request]; !held || a != k.attempt {
		return false
	}
	delete(d.attempts, k.request)
	return d.engine.Release(now, k.request)
}
