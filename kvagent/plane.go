package kvagent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/netkvlab/netkvlab/kvagent/control"
)

// plane is the data plane of a configured agent. It outlives a session, so connections stay warm from trial to trial.
type plane struct {
	net        networkConfig
	count      *counters
	inlet      *inlet
	pool       *pool
	congestion string // the algorithm in force, read back from a listening socket
}

func newPlane(ctx context.Context, n networkConfig) (*plane, error) {
	count := &counters{}
	in, err := newInlet(ctx, &n, count)
	if err != nil {
		return nil, err
	}
	p := &plane{net: n, count: count, inlet: in}
	p.pool = &pool{net: &p.net, ports: map[portKey]*slot{}, idle: map[pathKey][]*slot{}, next: map[pathKey]int{}}
	if len(in.listeners) > 0 {
		if p.congestion, err = congestionInForce(in.listeners[0]); err != nil {
			p.close()
			return nil, fmt.Errorf("data plane: %w", err)
		}
	}
	return p, nil
}

func (p *plane) close() {
	p.pool.close()
	p.inlet.close()
}

// size is the length of a map that a lock guards.
func size[K comparable, V any](mu *sync.Mutex, m map[K]V) int {
	mu.Lock()
	defer mu.Unlock()
	return len(m)
}

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

// socketOptions are set on every data socket before it connects or listens.
type socketOptions struct {
	congestion string // empty: the namespace's default
	dscp       int
}

// listen opens a data socket. Multipath TCP, Go's default for listeners, stays out: it would bypass the chosen
// congestion control.
func (o socketOptions) listen(ctx context.Context, at netip.AddrPort) (*net.TCPListener, error) {
	lc := net.ListenConfig{Control: o.control, KeepAlive: -1}
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(ctx, "tcp4", at.String())
	if err != nil {
		return nil, fmt.Errorf("listen for data on %s: %w", at, err)
	}
	return l.(*net.TCPListener), nil
}

// dial connects from exactly the given address and port (0: the kernel's choice).
func (o socketOptions) dial(ctx context.Context, from, to netip.AddrPort) (*dataConn, error) {
	d := net.Dialer{Control: o.control, KeepAlive: -1, LocalAddr: net.TCPAddrFromAddrPort(from)}
	d.SetMultipathTCP(false)
	c, err := d.DialContext(ctx, "tcp4", to.String())
	if err != nil {
		return nil, fmt.Errorf("connect %s to %s: %w", from, to, err)
	}
	return newDataConn(c.(*net.TCPConn)) // TCP_NODELAY is Go's default
}

// portTaken reports whether a dial failed because of its source port, so that another one may do.
func portTaken(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

// tcpStats is the part of TCP_INFO that streams report.
type tcpStats struct {
	retransmits  uint32 // segments, since the connection began
	minRTT       uint32 // microseconds
	deliveryRate uint64 // bytes per second
	// busy is how long there was data to send. limited is the part of that time in which the sender's buffer was
	// full or the receiver had announced no room.
	busy, limited time.Duration
}

// inlet is the listening side of the data plane: one listener per NIC and the connections it accepted. Streams go to
// the receiver of the open session; without a session they are refused by closing the connection.
type inlet struct {
	count    *counters
	receiver atomic.Pointer[receiver]

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

func (n *inlet) size() int { return size(&n.mu, n.conns) }

func (n *inlet) accept(l *net.TCPListener) {
	for {
		c, err := l.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // for example no descriptor is free: connections in the backlog may be accepted later
			time.Sleep(5 * time.Millisecond) // so that a listener that cannot accept does not use the CPU
			continue
		}
		if d, err := newDataConn(c); err == nil {
			n.wg.Go(func() { n.keep(d) })
		}
	}
}

// keep serves a connection, which close ends.
func (n *inlet) keep(c *dataConn) {
	defer func() { _ = c.Close() }()
	n.mu.Lock()
	closed := n.closed
	n.conns[c] = struct{}{}
	n.mu.Unlock()
	if !closed {
		n.serve(c)
	}
	n.mu.Lock()
	delete(n.conns, c)
	n.mu.Unlock()
}

// serve reads frames until the connection ends or breaks the protocol. It needs no deadline while idle: the transfer
// that waits for a stream closes the connection.
func (n *inlet) serve(c *dataConn) {
	var b [frameSize]byte
	for {
		var f frame
		if f.read(c, &b) != nil {
			return
		}
		switch f.kind {
		case kindWarm:
			if f.reply(c, kindAck, 0) != nil {
				return
			}
		case kindData:
			r := n.receiver.Load()
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

func (n *inlet) discard(c *dataConn) {
	buf := readBuffers.Get().(*[]byte)
	defer readBuffers.Put(buf)
	err := c.wakeAt(WakeBytes)
	for err == nil {
		var got int
		got, err = c.Read(*buf)
		n.count.backgroundIn.Add(int64(got))
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
