package kvagent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/netkvlab/netkvlab/kvagent/control"
)

// acceptPause keeps a listener that cannot accept from using the CPU.
const acceptPause = 5 * time.Millisecond

// counters are what an agent counts from Configure on; safe for concurrent use.
type counters struct {
	in, out                     atomic.Int64 // payload of transfers
	backgroundIn, backgroundOut atomic.Int64 // payload of background traffic
	busy, limited               atomic.Int64 // ns in which senders had data, and in which they had no buffer for it
	late                        atomic.Int64 // ns, the worst of the sessions that have ended
}

func (c *counters) reset() {
	for _, v := range []*atomic.Int64{&c.in, &c.out, &c.backgroundIn, &c.backgroundOut, &c.busy, &c.limited, &c.late} {
		v.Store(0)
	}
}

func (c *counters) report(out *control.StatusResponse) {
	out.BytesIn, out.BytesOut = c.in.Load(), c.out.Load()
	out.BackgroundBytesIn, out.BackgroundBytesOut = c.backgroundIn.Load(), c.backgroundOut.Load()
	out.SendBusyNs, out.SendBufferLimitedNs, out.TimerLatenessNs = c.busy.Load(), c.limited.Load(), c.late.Load()
}

// inlet is the listening side of the data plane: one listener per NIC and the
// connections it accepted. Streams go to the receiver of the open
// session; without a session they are refused by closing the connection.
type inlet struct {
	count *counters
	sink  atomic.Pointer[receiver]

	listeners []*net.TCPListener
	packets   []net.PacketConn
	wg        sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[*dataConn]struct{}
}

func newInlet(ctx context.Context, n *networkConfig, count *counters) (_ *inlet, err error) {
	in := &inlet{count: count, conns: map[*dataConn]struct{}{}}
	defer func() {
		if err != nil {
			in.close()
		}
	}()
	for _, a := range n.addrs {
		at := netip.AddrPortFrom(a, n.port)
		l, err := n.options.listen(ctx, at)
		if err != nil {
			return nil, err
		}
		in.listeners = append(in.listeners, l)
		if !n.udpSink {
			continue
		}
		var lc net.ListenConfig
		p, err := lc.ListenPacket(ctx, "udp4", at.String())
		if err != nil {
			return nil, fmt.Errorf("listen for background datagrams on %s: %w", at, err)
		}
		_ = joinDatagrams(p) // before Linux 5.0 datagrams come one by one
		in.packets = append(in.packets, p)
	}
	for _, l := range in.listeners {
		in.wg.Go(func() { in.accept(l) })
	}
	for _, p := range in.packets {
		in.wg.Go(func() { in.discardPackets(p) })
	}
	return in, nil
}

// close ends listeners and connections and joins their goroutines.
func (n *inlet) close() {
	for _, l := range n.listeners {
		_ = l.Close()
	}
	for _, p := range n.packets {
		_ = p.Close()
	}
	n.mu.Lock()
	n.closed = true
	for c := range n.conns {
		_ = c.Close()
	}
	n.mu.Unlock()
	n.wg.Wait()
}

func (n *inlet) size() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.conns)
}

func (n *inlet) accept(l *net.TCPListener) {
	for {
		c, err := l.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // for example no descriptor is free: connections in the backlog may be accepted later
			time.Sleep(acceptPause)
			continue
		}
		if d, err := newDataConn(c); err == nil && n.adopt(d) {
			n.wg.Go(func() {
				n.serve(d)
				n.drop(d)
			})
		}
	}
}

func (n *inlet) adopt(c *dataConn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		_ = c.Close()
		return false
	}
	n.conns[c] = struct{}{}
	return true
}

func (n *inlet) drop(c *dataConn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
	_ = c.Close()
}

// serve reads frames until the connection ends or breaks the protocol. It needs
// no deadline while idle: the transfer that waits for a stream closes the connection.
func (n *inlet) serve(c *dataConn) {
	var b [frameSize]byte
	for {
		if _, err := io.ReadFull(c, b[:]); err != nil {
			return
		}
		var f frame
		if f.parse(&b) != nil {
			return
		}
		switch f.kind {
		case kindWarm:
			if reply(c, kindAck, &f, 0) != nil {
				return
			}
		case kindData:
			r := n.sink.Load()
			if r == nil || r.receive(c, &f) != nil {
				return
			}
		case kindBackground:
			n.discard(c)
			return
		default:
			return
		}
	}
}

// reply sends an ack or read frame for f.
func reply(c *dataConn, kind frameKind, f *frame, bytes int64) error {
	answer := frame{kind: kind, request: f.request, attempt: f.attempt, stream: f.stream, bytes: bytes, epoch: f.epoch}
	var b [frameSize]byte
	answer.put(&b)
	_, err := c.Write(b[:])
	return err
}

func (n *inlet) discard(c *dataConn) {
	buf := readBuffers.Get().(*[]byte)
	defer readBuffers.Put(buf)
	if c.wakeAt(WakeBytes) != nil {
		return
	}
	for {
		got, err := c.Read(*buf)
		n.count.backgroundIn.Add(int64(got))
		if err != nil {
			return
		}
	}
}

func (n *inlet) discardPackets(p net.PacketConn) {
	buf := make([]byte, 64<<10)
	for {
		got, _, err := p.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		n.count.backgroundIn.Add(int64(got))
	}
}
