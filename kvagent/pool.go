package kvagent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// PortsExhausted begins the reason of a transfer that found every source port of a path in use: a limit of the path
// table, not of the network.
const PortsExhausted = "no source port left"

// pool keeps the outgoing connections. A connection belongs to a source port of one NIC to one peer, and thereby to
// a path; it is idle or lent to one stream. It is safe for concurrent use.
//
// A port is registered before it is dialled, so no two streams use the same one, and the peer may accept before the
// dial returns.
type pool struct {
	net     *networkConfig
	readers sync.WaitGroup

	mu     sync.Mutex
	closed bool
	ports  map[portKey]*slot
	idle   map[pathKey][]*slot // a stack: the last used is taken first
	next   map[pathKey]int     // where the search for a free port begins
}

type pathKey struct {
	peer      string
	nic, path uint32
}

type portKey struct {
	peer string
	nic  uint32
	port uint16
}

// want is a stream's request for a connection.
type want struct {
	peer      *peer
	nic, path uint32
	port      uint16 // 0: any of the path
}

func (w want) pathKey() pathKey { return pathKey{w.peer.node, w.nic, w.path} }
func (w want) portKey() portKey { return portKey{w.peer.node, w.nic, w.port} }

// slot is a source port in use: being dialled, lent or idle.
type slot struct {
	want          // with a port
	link    *link // nil while dialling
	idle    bool
	waiters []chan struct{} // need exactly this port and are served in order
}

var errPoolClosed = errors.New("the agent is closing its connections")

// close ends all connections and joins their readers.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	for _, s := range p.ports {
		if s.link != nil {
			s.link.close(errClosedHere)
		}
		s.lockedWake(len(s.waiters))
	}
	p.mu.Unlock()
	p.readers.Wait()
}

func (p *pool) size() int { return size(&p.mu, p.ports) }

// acquire lends a connection. With port 0 it takes an idle one of the path or dials from the path's next free port.
// It is an error if none is free: otherwise the pool's size would count as transfer time. For a given port it waits.
func (p *pool) acquire(ctx context.Context, w want) (*slot, error) {
	if int(w.nic) >= len(p.net.addrs) || int(w.nic) >= len(w.peer.addrs) {
		return nil, fmt.Errorf("nic %d to %s: this agent has %d addresses, the peer %d",
			w.nic, w.peer.node, len(p.net.addrs), len(w.peer.addrs))
	}
	if w.port != 0 {
		return p.acquirePort(ctx, w)
	}
	if !p.net.fresh {
		if s := p.takeIdle(w.pathKey()); s != nil {
			return s, nil
		}
	}
	return p.grow(ctx, w)
}

func (p *pool) takeIdle(k pathKey) *slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := len(p.idle[k]); n > 0; n-- {
		s := p.idle[k][n-1]
		p.lockedUnidle(s)
		if s.link.closed() == nil {
			return s
		}
	}
	return nil
}

// lockedUnidle takes a slot out of the idle stack of its path.
func (p *pool) lockedUnidle(s *slot) {
	s.idle = false
	path := s.pathKey()
	if i := slices.Index(p.idle[path], s); i >= 0 {
		p.idle[path] = slices.Delete(p.idle[path], i, i+1)
	}
}

// grow dials from the path's next free port. It skips a port that a program other than this agent holds.
func (p *pool) grow(ctx context.Context, w want) (*slot, error) {
	if int(w.nic) >= len(w.peer.paths) || int(w.path) >= len(w.peer.paths[w.nic]) {
		return nil, fmt.Errorf("nic %d path %d to %s is not in the path table", w.nic, w.path, w.peer.node)
	}
	ports := w.peer.paths[w.nic][w.path]
	var last error
	for range ports {
		s, err := p.registerNext(w, ports)
		if err != nil {
			return nil, err
		}
		if s == nil {
			break
		}
		if last = p.dial(ctx, s); last == nil {
			return s, nil
		}
		if !portTaken(last) {
			return nil, last
		}
	}
	if last != nil {
		return nil, fmt.Errorf("no usable source port of nic %d path %d to %s: %w", w.nic, w.path, w.peer.node, last)
	}
	return nil, fmt.Errorf(PortsExhausted+": all %d of nic %d path %d to %s are in use: a larger path table or fewer streams at a time would do",
		len(ports), w.nic, w.path, w.peer.node)
}

// registerNext takes the path's next port that is not in use; nil when all are.
func (p *pool) registerNext(w want, ports []uint16) (*slot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errPoolClosed
	}
	path := w.pathKey()
	for i := range ports {
		n := (p.next[path] + i) % len(ports)
		w.port = ports[n]
		if p.ports[w.portKey()] == nil {
			p.next[path] = n + 1
			return p.lockedRegister(w), nil
		}
	}
	return nil, nil
}

func (p *pool) lockedRegister(w want) *slot {
	s := &slot{want: w}
	p.ports[w.portKey()] = s
	return s
}

// acquirePort lends the connection of one source port: it dials if there is none, and waits if it is busy.
func (p *pool) acquirePort(ctx context.Context, w want) (*slot, error) {
	for {
		s, turn, err := p.claimPort(w)
		if err != nil {
			return nil, err
		}
		if turn == nil && s.link == nil {
			if err := p.dial(ctx, s); err != nil {
				return nil, err
			}
		}
		if turn == nil {
			return s, nil
		}
		select {
		case <-turn:
		case <-ctx.Done():
			p.stopWaiting(w, turn)
			return nil, context.Cause(ctx)
		}
	}
}

// claimPort returns the slot, idle or still to be dialled, or a channel: when that is closed, try again.
func (p *pool) claimPort(w want) (*slot, chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, errPoolClosed
	}
	s := p.ports[w.portKey()]
	switch {
	case s == nil:
		return p.lockedRegister(w), nil, nil
	case s.idle:
		p.lockedUnidle(s)
		return s, nil, nil
	}
	turn := make(chan struct{})
	s.waiters = append(s.waiters, turn)
	return nil, turn, nil
}

// stopWaiting leaves the queue of a port. If its turn came meanwhile, the next one gets it.
func (p *pool) stopWaiting(w want, turn chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.ports[w.portKey()]
	if s == nil {
		return
	}
	if i := slices.Index(s.waiters, turn); i >= 0 {
		s.waiters = slices.Delete(s.waiters, i, i+1)
	} else if s.idle {
		s.lockedWake(1)
	}
}

// lockedWake tells the first waiters, at most this number, to try again.
func (s *slot) lockedWake(most int) {
	for range min(most, len(s.waiters)) {
		close(s.waiters[0])
		s.waiters = s.waiters[1:]
	}
}

// dial connects a registered slot; on failure the slot is gone.
func (p *pool) dial(ctx context.Context, s *slot) error {
	l := &link{
		from: netip.AddrPortFrom(p.net.addrs[s.nic], s.port), to: netip.AddrPortFrom(s.peer.addrs[s.nic], s.peer.port),
		back: make(chan frame, 2), // one ack and one read frame: more would break the protocol
		dead: make(chan struct{}),
	}
	var err error
	if l.conn, err = p.net.options.dial(ctx, l.from, l.to); err != nil {
		p.forget(s)
		return fmt.Errorf("peer %s: %w", s.peer.node, err)
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		l.close(errPoolClosed)
		p.forget(s)
		return errPoolClosed
	}
	s.link = l
	p.readers.Go(func() {
		l.read()
		p.forget(s)
	})
	p.mu.Unlock()
	return nil
}

// forget removes a slot whose connection is gone.
func (p *pool) forget(s *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.idle {
		p.lockedUnidle(s)
	}
	if p.ports[s.portKey()] == s {
		delete(p.ports, s.portKey())
	}
	s.lockedWake(len(s.waiters))
}

// release takes a connection back. One that is not clean is closed.
func (p *pool) release(s *slot, dirty error) {
	if dirty == nil && p.net.fresh {
		dirty = errClosedHere
	}
	if dirty != nil {
		s.link.close(dirty)
		p.forget(s)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ports[s.portKey()] != s { // the connection ended at this moment
		return
	}
	s.idle = true
	p.idle[s.pathKey()] = append(p.idle[s.pathKey()], s)
	s.lockedWake(1)
}

// warm opens connections until each path of each peer has n, and uses every one once.
func (p *pool) warm(ctx context.Context, n int) (int, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for _, peer := range p.net.peers {
		for nic, paths := range peer.paths {
			for path := range paths {
				w := want{peer: peer, nic: uint32(nic), path: uint32(path)}
				g.Go(func() error { return p.warmPath(ctx, w, n) })
			}
		}
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	return p.size(), nil
}

// warmPath lends n different connections of a path at the same time and sends a small frame over each.
func (p *pool) warmPath(ctx context.Context, w want, n int) (err error) {
	var lent []*slot
	for len(lent) < n && err == nil {
		var s *slot
		if s, err = p.acquire(ctx, w); err == nil {
			lent = append(lent, s)
		}
	}
	for _, s := range lent {
		if err != nil {
			p.release(s, nil)
			continue
		}
		err = s.link.probe(ctx)
		p.release(s, err)
	}
	if err != nil {
		return fmt.Errorf("warm nic %d path %d to %s: %w", w.nic, w.path, w.peer.node, err)
	}
	return nil
}

// probe sends a warm frame and waits for its answer.
func (l *link) probe(ctx context.Context) error {
	f := frame{kind: kindWarm}
	if err := f.write(l.conn, nil); err != nil {
		return err
	}
	_, err := l.await(kindAck, &f, ctx.Done())
	return err
}
