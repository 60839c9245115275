package kvagent

import (
	"fmt"
	"sync"

	"github.com/netkvlab/netkvlab/kvagent/control"
)

// outboxLimit bounds the events that wait for a controller that does not read.
const outboxLimit = 1 << 18

// outbox is the queue of events to the controller. put never
// blocks, so a slow controller delays no engine and no transfer. A controller that does
// not read at all loses its session.
type outbox struct {
	mu     sync.Mutex
	queue  []*control.Event
	closed bool
	full   bool
	wake   chan struct{} // one place
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

// put queues an event; after close it is dropped.
func (o *outbox) put(e *control.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.full {
		return
	}
	if len(o.queue) >= outboxLimit {
		o.full = true
	} else {
		o.queue = append(o.queue, e)
	}
	o.lockedWake()
}

// close lets the pump end once the queue is empty.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.lockedWake()
}

func (o *outbox) lockedWake() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// pump sends until the outbox is closed and empty.
func (o *outbox) pump(send func(*control.Event) error) error {
	for range o.wake {
		o.mu.Lock()
		batch, closed, full := o.queue, o.closed, o.full
		o.queue = nil
		o.mu.Unlock()
		for _, e := range batch {
			if err := send(e); err != nil {
				return err
			}
		}
		if full {
			return fmt.Errorf("the controller left %d events unread", outboxLimit)
		}
		if closed {
			return nil
		}
	}
	return nil
}
