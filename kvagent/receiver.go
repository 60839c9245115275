package kvagent

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/netkvlab/netkvlab/kvagent/control"
)

// receiver records the incoming transfers of one session. A stream's header and the controller's announcement come
// in either order. Bytes are read at once, because a receiver that waited would close the window and so change the
// network. They are compared with the announcement when both are there. Methods are safe for concurrent use.
type receiver struct {
	*trial
	// done and failed report an announced transfer's end to the session. They do not block.
	done   func(k transferKey, at time.Duration, ev *control.TransferDone)
	failed func(k transferKey, err error, bytes int64)

	mu        sync.Mutex
	closed    bool
	transfers map[transferKey]*inbound
	over      map[transferKey]struct{} // ended in this session, by whatever cause
}

// readBuffers has the buffers of receiving connections, so an idle connection holds none. One of 256 KiB moved the
// most bytes per CPU second on veth; larger reads were not faster.
var readBuffers = sync.Pool{New: func() any { b := make([]byte, 256<<10); return &b }}

// inbound is one transfer on its way in. The receiver's lock guards it.
type inbound struct {
	key       transferKey
	peer      string // the sender's name once announced, its address before
	announced chan struct{}
	specs     []*control.StreamSpec // nil until announced
	isKnown   bool
	streams   map[uint32]*inStream
	complete  int
	bytes     atomic.Int64  // read so far
	ended     chan struct{} // closed when over
	timer     *time.Timer
}

// inStream is one stream of an inbound transfer. Its connection's goroutine writes it: conn under the receiver's lock.
type inStream struct {
	frame
	in          *inbound
	conn        *dataConn // nil once complete
	port        uint16
	first, last time.Duration
}

var errRefused = errors.New("stream refused")

// announce says which transfer will come.
func (r *receiver) announce(k transferKey, t *control.Transfer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, over := r.over[k]; over {
		r.failed(k, errors.New("announced after it had ended: use a new attempt number"), 0)
		return
	}
	in := r.lockedGet(k)
	if err := in.announce(t); err != nil {
		r.lockedFail(in, err)
		return
	}
	in.timer.Reset(r.timeout(releaseOf(t)))
	close(in.announced)
	r.lockedFinish(in)
}

// announce notes what will come and compares it with what has come.
func (in *inbound) announce(t *control.Transfer) error {
	if in.isKnown {
		return errors.New("announced twice")
	}
	in.isKnown, in.specs, in.peer = true, t.GetStreams(), t.GetPeer()
	err := checkStreams(t)
	for i, st := range in.streams {
		err = cmp.Or(err, in.check(i, st.bytes))
	}
	return err
}

func (r *receiver) lockedGet(k transferKey) *inbound {
	in := r.transfers[k]
	if in == nil {
		in = &inbound{key: k, announced: make(chan struct{}), ended: make(chan struct{}), streams: map[uint32]*inStream{}}
		in.timer = time.AfterFunc(r.cfg.timeout, func() { r.expire(in) })
		r.transfers[k] = in
	}
	return in
}

// check compares a stream's header with the announcement.
func (in *inbound) check(stream uint32, bytes int64) error {
	if int(stream) >= len(in.specs) {
		return fmt.Errorf("peer %s: stream %d came, %d were announced", in.peer, stream, len(in.specs))
	}
	if want := in.specs[stream].GetBytes(); bytes != want {
		return fmt.Errorf("peer %s: stream %d brings %d bytes, %d were announced", in.peer, stream, bytes, want)
	}
	return nil
}

func (r *receiver) expire(in *inbound) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := fmt.Errorf("peer %s: not done within %v: %d of %d bytes read, %d of %d streams complete",
		in.peer, r.cfg.timeout, in.bytes.Load(), totalBytes(in.specs), in.complete, len(in.specs))
	if !in.isKnown {
		err = fmt.Errorf("peer %s: %d bytes came in %d streams and were never announced", in.peer, in.bytes.Load(), len(in.streams))
	}
	r.lockedFail(in, err)
}

// lockedEnd ends a transfer and closes every connection that it still uses. It reports whether this call ended it.
func (r *receiver) lockedEnd(in *inbound) bool {
	if r.transfers[in.key] != in {
		return false
	}
	close(in.ended)
	in.timer.Stop()
	delete(r.transfers, in.key)
	r.over[in.key] = struct{}{}
	for _, st := range in.streams {
		if st.conn != nil {
			_ = st.conn.Close()
		}
	}
	return true
}

func (r *receiver) lockedFail(in *inbound, err error) {
	if r.lockedEnd(in) {
		r.failed(in.key, err, in.bytes.Load())
	}
}

// lockedFinish reports a transfer whose streams are all complete.
func (r *receiver) lockedFinish(in *inbound) {
	if !in.isKnown || in.complete < len(in.specs) || !r.lockedEnd(in) {
		return
	}
	ev := &control.TransferDone{Bytes: in.bytes.Load(), Streams: make([]*control.StreamReport, len(in.specs))}
	var at time.Duration
	if len(in.specs) == 0 {
		at = r.clock.now()
	}
	for i, spec := range in.specs {
		st := in.streams[uint32(i)]
		ev.Streams[i] = &control.StreamReport{
			SourcePort: uint32(st.port), Nic: spec.GetNic(), Path: spec.GetPath(), Bytes: st.bytes,
			FirstPaperNs: int64(st.first), LastPaperNs: int64(st.last),
		}
		at = max(at, st.last)
	}
	r.done(in.key, at, ev)
}

// receive reads one stream. An error means that the connection is to be closed.
func (r *receiver) receive(c *dataConn, f *frame) error {
	st, err := r.open(c, f)
	if err != nil {
		return err
	}
	if f.flags&flagPull != 0 {
		select {
		case <-st.in.announced:
		case <-st.in.ended:
			return errRefused
		}
		if err := f.reply(c, kindRead, f.bytes); err != nil {
			return r.broken(st, 0, err)
		}
	}
	if err := r.read(c, st); err != nil {
		return err
	}
	if !r.finish(st) {
		return errRefused
	}
	return f.reply(c, kindAck, f.bytes)
}

// open records a stream.
func (r *receiver) open(c *dataConn, f *frame) (*inStream, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, over := r.over[f.key()]; over || r.closed || f.epoch != r.clock.epoch {
		return nil, errRefused
	}
	in := r.lockedGet(f.key())
	from := c.RemoteAddr().(*net.TCPAddr).AddrPort()
	if in.peer == "" {
		in.peer = from.Addr().String()
	}
	var err error
	if in.streams[f.stream] != nil {
		err = fmt.Errorf("peer %s: stream %d came twice", in.peer, f.stream)
	} else if in.isKnown {
		err = in.check(f.stream, f.bytes)
	}
	if err != nil {
		r.lockedFail(in, err)
		return nil, errRefused
	}
	in.streams[f.stream] = &inStream{frame: *f, in: in, conn: c, port: from.Port()}
	return in.streams[f.stream], nil
}

// WakeBytes is how much of a stream comes before its reader wakes. It also wakes for the first and the last byte,
// whose times are recorded. When they woke for each burst of two segments, the readers of many slow links took a
// third of the CPU.
const WakeBytes = 32 << 10

// read reads payload and trailer from the connection.
func (r *receiver) read(c *dataConn, st *inStream) error {
	buf := readBuffers.Get().(*[]byte)
	defer readBuffers.Put(buf)
	check := newChecked(&st.frame)
	var got int64
	first := time.Duration(-1)
	for got < st.bytes {
		n, err := c.Read((*buf)[:min(int64(len(*buf)), st.bytes-got)])
		if n > 0 && first < 0 {
			first = r.clock.now()
		}
		if st.flags&flagIntegrity != 0 {
			check.add((*buf)[:n])
		}
		got += int64(n)
		r.plane.count.in.Add(int64(n))
		st.in.bytes.Add(int64(n))
		if err != nil && got < st.bytes {
			return r.broken(st, got, err)
		}
		// Nothing may come after the stream; if bytes come, the reader must notice them.
		if err := c.wakeAt(min(st.bytes-got, WakeBytes)); err != nil {
			return r.broken(st, got, err)
		}
	}
	st.first, st.last = first, r.clock.now()
	if st.bytes == 0 {
		st.first = st.last
	}
	if st.flags&flagIntegrity == 0 {
		return nil
	}
	var trailer [trailerSize]byte
	if _, err := io.ReadFull(c, trailer[:]); err != nil {
		return r.broken(st, got, fmt.Errorf("trailer: %w", err))
	}
	if trailer != check.trailer() {
		return r.broken(st, got, fmt.Errorf("integrity: checksum %x of what came, trailer says %x", check.trailer(), trailer))
	}
	return nil
}

// broken fails the transfer of a stream that ended too early or wrong.
func (r *receiver) broken(st *inStream, got int64, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("closed by the peer")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lockedFail(st.in, fmt.Errorf("peer %s: stream %d after %d of %d bytes: %w", st.in.peer, st.stream, got, st.bytes, err))
	return errRefused
}

// finish notes that a stream is complete. It returns false if the transfer has ended.
func (r *receiver) finish(st *inStream) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.transfers[st.in.key] != st.in {
		return false
	}
	st.conn = nil
	st.in.complete++
	r.lockedFinish(st.in)
	return true
}

// cancel drops a transfer without an event. Streams of it that come later are refused.
func (r *receiver) cancel(k transferKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if in := r.transfers[k]; in != nil {
		r.lockedEnd(in)
	}
	r.over[k] = struct{}{}
}

func (r *receiver) size() int { return size(&r.mu, r.transfers) }

// close drops everything. The connections' goroutines are the inlet's.
func (r *receiver) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, in := range r.transfers {
		r.lockedEnd(in)
	}
}
