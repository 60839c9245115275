package kvagent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"golang.org/x/sync/errgroup"
)

// PortsExhausted begins the reason of a transfer that found every source port of a
// path in use: a limit of the path table, not of the network.
const PortsExhausted = "no source port left"

// pool keeps the outgoing connections. A connection belongs to a source port
// of one NIC to one peer, and thereby to a path; it is idle or lent to one
// stream. It is safe for concurrent use.
//
// A port is registered before it is dialled, so no two streams use
// the same one, and the peer may accept before the dial returns.
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

// slot is a source port in use: being dialled, lent or idle.
type slot struct {
	key  portKey
	path pathKey
	link *link // nil while dialling
	// waiters need exactly this port and are served in order.
	waiters []chan struct{}
	idle    bool
}

var errPoolClosed = errors.New("the agent is closing its connections")

func newPool(n *networkConfig) *pool {
	return &pool{net: n, ports: map[portKey]*slot{}, idle: map[pathKey][]*slot{}, next: map[pathKey]int{}}
}

// close ends all connections and joins their readers.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	for _, s := range p.ports {
		if s.link != nil {
			s.link.close(errClosedHere)
		}
		s.lockedWakeAll()
	}
	p.mu.Unlock()
	p.readers.Wait()
}

func (p *pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ports)
}

// want is a stream's request for a connection.
type want struct {
	peer      *peer
	nic, path uint32
	port      uint16 // 0: any of the path
}

// acquire lends a connection. With port 0 it takes an idle one of the path or
// dials from the path's next free port. It is an error if none is free: otherwise the
// pool's size would count as transfer time. For a given port it waits.
func (p *pool) acquire(ctx context.Context, w want) (*slot, error) {
	if int(w.nic) >= len(p.net.addrs) || int(w.nic) >= len(w.peer.addrs) {
		return nil, fmt.Errorf("nic %d to %s: this agent has %d addresses, the peer %d", w.nic, w.peer.node, len(p.net.addrs), len(w.peer.addrs))
	}
	if w.port != 0 {
		return p.acquirePort(ctx, w)
	}
	if !p.net.fresh {
		if s := p.takeIdle(pathKey{w.peer.node, w.nic, w.path}); s != nil {
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
		if s.link.alive() {
			return s
		}
	}
	return nil
}

// lockedUnidle takes a slot out of the idle stack of its path.
func (p *pool) lockedUnidle(s *slot) {
	s.idle = false
	stack := p.idle[s.path]
	for i := len(stack) - 1; i >= 0; i-- {
		if stack[i] == s {
			p.idle[s.path] = append(stack[:i], stack[i+1:]...)
			return
		}
	}
}

// grow dials from the path's next free port. It skips a port that a program other than
// this agent holds.
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
		if last = p.dial(ctx, s, w); last == nil {
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
	path := pathKey{w.peer.node, w.nic, w.path}
	for i := range ports {
		n := (p.next[path] + i) % len(ports)
		key := portKey{w.peer.node, w.nic, ports[n]}
		if p.ports[key] == nil {
			p.next[path] = n + 1
			s := &slot{key: key, path: path}
			p.ports[key] = s
			return s, nil
		}
	}
	return nil, nil
}

// acquirePort lends the connection of one source port. It dials if there is
// none, and waits its turn if the connection is busy.
func (p *pool) acquirePort(ctx context.Context, w want) (*slot, error) {
	key := portKey{w.peer.node, w.nic, w.port}
	for {
		s, turn, err := p.claimPort(key, w)
		if err != nil {
			return nil, err
		}
		if turn == nil {
			if s.link != nil {
				return s, nil
			}
			if err := p.dial(ctx, s, w); err != nil {
				return nil, err
			}
			return s, nil
		}
		select {
		case <-turn:
		case <-ctx.Done():
			p.giveUp(key, turn)
			return nil, context.Cause(ctx)
		}
	}
}

// claimPort returns the slot (idle before, or new and to be dialled) or the
// channel that is closed when the caller should try again.
func (p *pool) claimPort(key portKey, w want) (*slot, chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, errPoolClosed
	}
	s := p.ports[key]
	switch {
	case s == nil:
		s = &slot{key: key, path: pathKey{w.peer.node, w.nic, w.path}}
		p.ports[key] = s
		return s, nil, nil
	case s.idle:
		p.lockedUnidle(s)
		return s, nil, nil
	default:
		turn := make(chan struct{})
		s.waiters = append(s.waiters, turn)
		return nil, turn, nil
	}
}

// giveUp leaves the queue of a port. If its turn came meanwhile, the next one gets it.
func (p *pool) giveUp(key portKey, turn chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.ports[key]
	if s == nil {
		return
	}
	for i, t := range s.waiters {
		if t == turn {
			s.waiters = append(s.waiters[:i], s.waiters[i+1:]...)
			return
		}
	}
	if s.idle {
		s.lockedWakeNext()
	}
}

func (s *slot) lockedWakeNext() {
	if len(s.waiters) > 0 {
		close(s.waiters[0])
		s.waiters = s.waiters[1:]
	}
}

func (s *slot) lockedWakeAll() {
	for _, t := range s.waiters {
		close(t)
	}
	s.waiters = nil
}

// dial connects a registered slot; on failure the slot is gone.
func (p *pool) dial(ctx context.Context, s *slot, w want) error {
	from := netip.AddrPortFrom(p.net.addrs[w.nic], s.key.port)
	to := netip.AddrPortFrom(w.peer.addrs[w.nic], w.peer.port)
	c, err := p.net.options.dial(ctx, from, to)
	if err != nil {
		p.forget(s)
		return fmt.Errorf("peer %s: %w", w.peer.node, err)
	}
	l := newLink(c, w.peer.node, from, to)
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
	if p.ports[s.key] == s {
		delete(p.ports, s.key)
	}
	s.lockedWakeAll()
}

// release takes a connection back. One that is not clean is closed.
func (p *pool) release(s *slot, dirty error) {
	if dirty != nil || p.net.fresh {
		if dirty == nil {
			dirty = errClosedHere
		}
		s.link.close(dirty)
		p.forget(s)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ports[s.key] != s { // it died in this instant
		return
	}
	s.idle = true
	p.idle[s.path] = append(p.idle[s.path], s)
	s.lockedWakeNext()
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

// warmPath lends n different connections of a path at the same time
// and sends a small frame over each.
func (p *pool) warmPath(ctx context.Context, w want, n int) error {
	var lent []*slot
	var err error
	for range n {
		var s *slot
		if s, err = p.acquire(ctx, w); err != nil {
			break
		}
		lent = append(lent, s)
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
	if err := l.writeFrame(&f, nil); err != nil {
		return err
	}
	_, err := l.await(kindAck, &f, ctx.Done())
	return err
}
