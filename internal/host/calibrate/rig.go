package calibrate

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/kvagent"
)

const (
	dataPort        = 7000
	firstSourcePort = 10000
	chunkBytes      = 256 << 10
	dialTime        = 5 * time.Second
)

// pair is a busy connection between two instances of different pods, from a source port that
// selects one of their paths.
type pair struct {
	from, to fabric.NodeID
	slot     int
}

// rig moves bulk traffic through the scratch fabric from this single process. This works because
// a socket stays in the namespace in which it was made.
type rig struct {
	fabric *kernel.Fabric
	plan   *fabric.Plan

	listeners map[fabric.NodeID]net.Listener
	conns     []net.Conn
	wg        sync.WaitGroup
	received  atomic.Int64 // bytes
}

// pairs returns connections that fill every core link: from each prefill instance to one of
// another pod, over every path.
func (r *rig) pairs() []pair {
	var out []pair
	p := r.plan
	for i, from := range p.Prefill {
		to := p.Decode[(i+len(p.Decode)/2)%len(p.Decode)]
		for slot := range p.PathCount(p.Tier(from, to)) {
			out = append(out, pair{from, to, slot})
		}
	}
	return out
}

// start opens connections, which send until stop, and waits until they have settled.
func (r *rig) start(ctx context.Context, pairs []pair) error {
	tables := map[[2]fabric.NodeID][][]uint16{}
	for _, p := range pairs {
		key := [2]fabric.NodeID{p.from, p.to}
		if tables[key] == nil {
			t, err := r.fabric.PathPorts(kernel.Flow{Src: p.from, Dst: p.to, SrcPort: firstSourcePort, DstPort: dataPort}, 1)
			if err != nil {
				return err
			}
			tables[key] = t
		}
		if err := r.connect(ctx, p, tables[key][p.slot][0]); err != nil {
			return fmt.Errorf("connect %s to %s: %w", r.plan.Nodes[p.from].Name, r.plan.Nodes[p.to].Name, err)
		}
	}
	return pause(ctx, settle)
}

// connect opens one connection and starts both its ends.
func (r *rig) connect(ctx context.Context, p pair, port uint16) error {
	l, err := r.listener(ctx, p.to)
	if err != nil {
		return err
	}
	var out net.Conn
	err = r.fabric.Do(p.from, func() (err error) {
		d := net.Dialer{
			Timeout:   dialTime,
			LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(r.plan.Nodes[p.from].Addrs[0], port)),
		}
		out, err = d.DialContext(ctx, "tcp4", l.Addr().String())
		return err
	})
	if err != nil {
		return err
	}
	r.conns = append(r.conns, out)
	in, err := l.Accept()
	if err != nil {
		return err
	}
	r.conns = append(r.conns, in)
	raw, err := in.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	if err := kvagent.WakeAt(raw, kvagent.WakeBytes); err != nil { // like an agent's receiver
		return err
	}
	r.wg.Go(func() { send(out) })
	r.wg.Go(func() { r.receive(in) })
	return nil
}

func (r *rig) listener(ctx context.Context, at fabric.NodeID) (net.Listener, error) {
	if l := r.listeners[at]; l != nil {
		return l, nil
	}
	var l net.Listener
	err := r.fabric.Do(at, func() (err error) {
		var c net.ListenConfig
		l, err = c.Listen(ctx, "tcp4", netip.AddrPortFrom(r.plan.Nodes[at].Addrs[0], dataPort).String())
		return err
	})
	if err != nil {
		return nil, err
	}
	if r.listeners == nil {
		r.listeners = map[fabric.NodeID]net.Listener{}
	}
	r.listeners[at] = l
	return l, nil
}

// send writes until the connection is closed.
func send(c net.Conn) {
	chunk := make([]byte, chunkBytes)
	for {
		if _, err := c.Write(chunk); err != nil {
			return
		}
	}
}

func (r *rig) receive(c net.Conn) {
	chunk := make([]byte, chunkBytes)
	for {
		n, err := c.Read(chunk)
		r.received.Add(int64(n))
		if err != nil {
			return
		}
	}
}

// packets sums the packets that all ports have sent.
func (r *rig) packets() (sum uint64, err error) {
	counters, err := r.fabric.Counters()
	for i := range counters {
		sum += counters[i].Packets
	}
	return sum, err
}

// measure returns the throughput of the fabric over a while.
func (r *rig) measure(ctx context.Context) (host.Throughput, error) {
	before, err := r.packets()
	if err != nil {
		return host.Throughput{}, err
	}
	bytes, since := r.received.Load(), time.Now()
	var took time.Duration
	idle, after, err := watched(ctx, func(ctx context.Context) (uint64, error) {
		if err := pause(ctx, part); err != nil {
			return 0, err
		}
		n, err := r.packets()
		took = time.Since(since)
		return n, err
	})
	if err != nil {
		return host.Throughput{}, err
	}
	s := took.Seconds()
	return host.Throughput{HopsPerSecond: float64(after-before) / s, BitsPerSecond: 8 * float64(r.received.Load()-bytes) / s, Idle: idle}, nil
}

// stop ends all flows with a reset and waits for them, so that no socket keeps a namespace
// alive.
func (r *rig) stop() {
	for _, c := range r.conns {
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
		_ = c.Close()
	}
	for _, l := range r.listeners {
		_ = l.Close()
	}
	r.wg.Wait()
}
