package kvagent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/netkvlab/netkvlab/kvagent/control"
	"github.com/netkvlab/netkvlab/kvagent/engine"
)

// sender runs the outgoing transfers of one session. Methods are safe for concurrent use; close joins everything.
type sender struct {
	*trial
	chunk []byte // the shared payload: written again and again, it stays in the CPU's cache

	mu     sync.Mutex
	active map[transferKey]context.CancelCauseFunc
	wg     sync.WaitGroup
}

// errDropped ends a transfer without a further event.
var errDropped = errors.New("cancelled by the controller")

// outbound is one transfer on its way out.
type outbound struct {
	key     transferKey
	peer    *peer
	specs   []*control.StreamSpec
	plan    engine.Release
	payload time.Duration // paper time before which no payload may go
	done    atomic.Int64  // payload bytes written
	started atomic.Int64  // paper ns at which the first stream had its connection; 0 before
	reports []*control.StreamReport
}

// start begins a transfer; its end, of any kind, is an event.
func (s *sender) start(now time.Duration, k transferKey, t *control.Transfer) {
	if err := s.begin(now, k, t); err != nil {
		s.out.put(k.failure(s.clock.now(), "protocol", err, 0))
	}
}

func (s *sender) begin(now time.Duration, k transferKey, t *control.Transfer) error {
	p := s.cfg.net.peers[t.GetPeer()]
	if p == nil {
		return fmt.Errorf("peer %q is not among the configured peers", t.GetPeer())
	}
	if err := checkStreams(t); err != nil {
		return err
	}
	o := &outbound{key: k, peer: p, specs: t.GetStreams(), plan: releaseOf(t), payload: now + s.cfg.setup}
	o.reports = make([]*control.StreamReport, len(o.specs))

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active[k] != nil {
		return errors.New("the transfer is already under way")
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	s.active[k] = cancel
	s.wg.Go(func() {
		defer cancel(nil)
		s.run(ctx, cancel, o)
	})
	return nil
}

// checkStreams refuses streams that cannot be sent.
func checkStreams(t *control.Transfer) error {
	for i, st := range t.GetStreams() {
		if st.GetBytes() < 0 || st.GetSourcePort() > 65535 {
			return fmt.Errorf("stream %d: %d bytes from source port %d", i, st.GetBytes(), st.GetSourcePort())
		}
	}
	if t.GetPieces() < 0 {
		return fmt.Errorf("pieces: %d, want 0 or more", t.GetPieces())
	}
	return nil
}

// releaseOf is the schedule by which a transfer's payload becomes available.
func releaseOf(t *control.Transfer) engine.Release {
	return engine.Release{
		Pieces: int64(t.GetPieces()), From: time.Duration(t.GetReleaseFromPaperNs()), To: time.Duration(t.GetReleaseToPaperNs()),
	}
}

// timeout is how long a transfer with this release schedule may take from now on.
func (t *trial) timeout(r engine.Release) time.Duration {
	if r.Pieces <= 0 {
		return t.cfg.timeout
	}
	return t.cfg.timeout + max(0, time.Duration(t.clock.real(r.To)-Monotonic()))
}

func (s *sender) run(ctx context.Context, cancel context.CancelCauseFunc, o *outbound) {
	defer time.AfterFunc(s.timeout(o.plan), func() {
		cancel(fmt.Errorf("peer %s: not done within %v: %d of %d bytes written",
			o.peer.node, s.cfg.timeout, o.done.Load(), totalBytes(o.specs)))
	}).Stop()
	s.moveAll(ctx, cancel, o)
	cause := context.Cause(ctx)
	s.mu.Lock()
	delete(s.active, o.key)
	s.mu.Unlock()
	switch {
	case cause == nil:
		e := o.key.event(s.clock.now())
		e.Event = &control.Event_TransferSent{TransferSent: &control.TransferSent{Streams: o.reports, StartPaperNs: o.started.Load()}}
		s.out.put(e)
	case !errors.Is(cause, errDropped):
		s.out.put(o.key.failure(s.clock.now(), "transfer", cause, o.done.Load()))
	}
}

// moveAll lends the connections, then runs the streams. All of a transfer's streams hold theirs before the first
// begins, so they are different ones. The exception is a stream that names a port: it waits for the port by itself,
// and the others do not wait for it. Otherwise two transfers that each held one port and needed the other's would
// wait for ever.
func (s *sender) moveAll(ctx context.Context, cancel context.CancelCauseFunc, o *outbound) {
	slots := make([]*slot, len(o.specs))
	each := func(do func(i int) error) {
		var wg sync.WaitGroup
		for i := range o.specs {
			wg.Go(func() {
				if err := do(i); err != nil {
					cancel(err) // the first failure ends the others; a timeout or a drop remains the cause
				}
			})
		}
		wg.Wait()
	}
	lend := func(i int) (err error) {
		spec := o.specs[i]
		w := want{peer: o.peer, nic: spec.GetNic(), path: spec.GetPath(), port: uint16(spec.GetSourcePort())}
		slots[i], err = s.plane.pool.acquire(ctx, w)
		return err
	}
	each(func(i int) error {
		if o.specs[i].GetSourcePort() != 0 {
			return nil
		}
		return lend(i)
	})
	if ctx.Err() != nil { // nothing has been written
		for _, slot := range slots {
			if slot != nil {
				s.plane.pool.release(slot, nil)
			}
		}
		return
	}
	each(func(i int) error {
		if slots[i] == nil {
			if err := lend(i); err != nil {
				return err
			}
		}
		return s.stream(ctx, o, i, slots[i])
	})
}

func totalBytes(specs []*control.StreamSpec) (total int64) {
	for _, sp := range specs {
		total += sp.GetBytes()
	}
	return total
}

// stream moves one stream of a transfer over a lent connection and returns the connection.
func (s *sender) stream(ctx context.Context, o *outbound, i int, slot *slot) error {
	// A write into a full window is ended by closing the connection.
	stop := context.AfterFunc(ctx, func() { slot.link.close(context.Cause(ctx)) })
	w := outStream{sender: s, outbound: o, link: slot.link, spec: o.specs[i], frame: frame{
		kind: kindData, request: o.key.request, attempt: o.key.attempt, stream: uint32(i),
		bytes: o.specs[i].GetBytes(), epoch: s.clock.epoch,
	}}
	var err error
	o.reports[i], err = w.move(ctx)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		err = fmt.Errorf("peer %s (%s from port %d): stream %d, with %d of the transfer's %d bytes written: %w", o.peer.node,
			slot.link.to, slot.port, i, o.done.Load(), totalBytes(o.specs), cmp.Or(slot.link.closed(), err))
	}
	s.plane.pool.release(slot, err)
	return err
}

// outStream is one stream of an outbound transfer.
type outStream struct {
	*sender
	*outbound
	link    *link
	spec    *control.StreamSpec
	frame   frame
	header  bool // still to be written, in front of the first piece
	written int64
	buffer  []byte // integrity mode: its own
	check   checked
}

// move writes the stream and waits until the receiver has it all.
func (w *outStream) move(ctx context.Context) (*control.StreamReport, error) {
	before, err := readTCPStats(w.link.conn.raw)
	if err != nil {
		return nil, err
	}
	if w.cfg.GetTransfer().GetIntegrity() {
		w.frame.flags |= flagIntegrity
	}
	w.frame.trailer = w.frame.wantTrailer()
	first, err := w.write(ctx)
	if err != nil {
		return nil, err
	}
	ack, err := w.link.await(kindAck, &w.frame, ctx.Done())
	if err != nil {
		return nil, err
	}
	if ack.bytes != w.frame.bytes {
		return nil, fmt.Errorf("the receiver acknowledged %d bytes", ack.bytes)
	}
	last := w.clock.now()
	after, err := readTCPStats(w.link.conn.raw)
	if err != nil { // it broke after the acknowledgement: the stream is complete
		after = before
	}
	w.plane.count.busy.Add(int64(after.busy - before.busy))
	w.plane.count.limited.Add(int64(after.limited - before.limited))
	return &control.StreamReport{
		SourcePort: uint32(w.link.from.Port()), Nic: w.spec.GetNic(), Path: w.spec.GetPath(), Bytes: w.frame.bytes,
		FirstPaperNs: int64(first), LastPaperNs: int64(last),
		Retransmits: after.retransmits - before.retransmits, DeliveryRate: int64(after.deliveryRate), MinRttUs: int64(after.minRTT),
	}, nil
}

// write sends header, payload and trailer and returns when the payload began. In pull mode the header goes at once
// as an offer and the payload waits for the receiver's read; either way it waits for the set-up time and for its
// release.
func (w *outStream) write(ctx context.Context) (first time.Duration, err error) {
	w.started.CompareAndSwap(0, int64(max(w.clock.now(), 1))) // hand-shake and set-up count as part of the transfer
	if w.cfg.GetTransfer().GetPull() {
		w.frame.flags |= flagPull
		if err := w.frame.write(w.link.conn, nil); err != nil {
			return 0, err
		}
		if _, err := w.link.await(kindRead, &w.frame, ctx.Done()); err != nil {
			return 0, err
		}
	}
	if err := w.alarms.sleepUntil(ctx, w.clock.real(w.payload)); err != nil {
		return 0, err
	}
	w.header = !w.cfg.GetTransfer().GetPull()
	if w.cfg.GetTransfer().GetIntegrity() {
		w.check = newChecked(&w.frame)
		w.buffer = make([]byte, w.cfg.chunkBytes)
	}
	first = w.clock.now()
	for w.written < w.frame.bytes {
		ready, next := w.plan.Ready(w.frame.bytes, w.clock.now())
		if ready == w.written {
			err = w.alarms.sleepUntil(ctx, w.clock.real(next))
		} else {
			err = w.upTo(ready)
		}
		if err != nil {
			return first, err
		}
	}
	return first, w.finish()
}

// upTo writes until this number of the stream's bytes is sent. It is the inner loop.
func (w *outStream) upTo(limit int64) (err error) {
	for w.written < limit {
		piece := w.chunk[:min(int64(len(w.chunk)), limit-w.written)]
		if w.buffer != nil {
			piece = w.buffer[:len(piece)]
			w.check.fill(piece)
		}
		if w.header {
			w.header = false
			err = w.frame.write(w.link.conn, piece)
		} else {
			_, err = w.link.conn.Write(piece)
		}
		if err != nil {
			return err
		}
		w.written += int64(len(piece))
		w.done.Add(int64(len(piece)))
		w.plane.count.out.Add(int64(len(piece)))
	}
	return nil
}

// finish writes the header of a stream without payload, and the trailer.
func (w *outStream) finish() error {
	if w.header {
		if err := w.frame.write(w.link.conn, nil); err != nil {
			return err
		}
	}
	if w.buffer == nil {
		return nil
	}
	t := w.check.trailer()
	_, err := w.link.conn.Write(t[:])
	return err
}

// cancel drops a transfer without an event. Unknown is no error.
func (s *sender) cancel(k transferKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.active[k]; c != nil {
		c(errDropped)
	}
}

func (s *sender) size() int { return size(&s.mu, s.active) }

// close drops everything and joins it. No start may follow.
func (s *sender) close() {
	s.mu.Lock()
	for _, c := range s.active {
		c(errDropped)
	}
	s.mu.Unlock()
	s.wg.Wait()
}
