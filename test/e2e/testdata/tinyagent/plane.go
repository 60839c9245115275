package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"

	pb "example.org/tinyagent/control"
)

// The frame of the data plane: 48 bytes, big-endian.
const (
	frameBytes = 48
	magic      = 0x4e4b5631
	kindWarm   = 1
	kindData   = 2
	kindAck    = 3
)

type frame struct {
	kind            byte
	request         uint64
	attempt, stream uint32
	bytes, epoch    int64
}

func (f frame) encode() []byte {
	b := make([]byte, frameBytes)
	be := binary.BigEndian
	be.PutUint32(b, magic)
	b[4] = f.kind
	be.PutUint64(b[8:], f.request)
	be.PutUint32(b[16:], f.attempt)
	be.PutUint32(b[20:], f.stream)
	be.PutUint64(b[24:], uint64(f.bytes))
	be.PutUint64(b[32:], uint64(f.epoch))
	return b
}

func readFrame(r io.Reader) (frame, error) {
	b := make([]byte, frameBytes)
	if _, err := io.ReadFull(r, b); err != nil {
		return frame{}, err
	}
	be := binary.BigEndian
	if be.Uint32(b) != magic || b[5] != 0 {
		return frame{}, fmt.Errorf("no frame that tinyagent knows: %x", b[:8])
	}
	return frame{b[4], be.Uint64(b[8:]), be.Uint32(b[16:]), be.Uint32(b[20:]), int64(be.Uint64(b[24:])), int64(be.Uint64(b[32:]))}, nil
}

// plane listens for streams and counts bytes.
type plane struct {
	listeners []net.Listener
	in, out   atomic.Int64
	inlet     atomic.Pointer[inlet] // of the current session
	mu        sync.Mutex
	busy      map[uint32]bool // source ports in use
	conns     map[net.Conn]bool
}

func listen(r *pb.ConfigureRequest) (*plane, error) {
	p := &plane{busy: map[uint32]bool{}, conns: map[net.Conn]bool{}}
	for _, a := range r.Addresses {
		lc := net.ListenConfig{Control: options(r)}
		lc.SetMultipathTCP(false)
		l, err := lc.Listen(context.Background(), "tcp4", fmt.Sprintf("%s:%d", a, r.DataPort))
		if err != nil {
			p.close()
			return nil, err
		}
		p.listeners = append(p.listeners, l)
		go p.accept(l)
	}
	return p, nil
}

// options are set on each data socket before it binds.
func options(r *pb.ConfigureRequest) func(_, _ string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) (err error) {
		const tcpCongestion = 13
		errCtl := c.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
			_ = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1}) // no TIME_WAIT
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, syscall.IP_TOS, int(r.Transfer.GetDscp())<<2)
			if cc := r.Transfer.GetCongestionControl(); cc != "" {
				err = syscall.SetsockoptString(int(fd), syscall.IPPROTO_TCP, tcpCongestion, cc)
			}
		})
		if errCtl != nil {
			return errCtl
		}
		return err
	}
}

func (p *plane) close() {
	for _, l := range p.listeners {
		_ = l.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *plane) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.conns[c] = true
		p.mu.Unlock()
		go func() {
			p.serve(c)
			_ = c.Close()
			p.mu.Lock()
			delete(p.conns, c)
			p.mu.Unlock()
		}()
	}
}

func (p *plane) serve(c net.Conn) {
	for {
		f, err := readFrame(c)
		if err != nil {
			return
		}
		in := p.inlet.Load()
		switch {
		case f.kind == kindWarm:
			err = ack(c, f, 0)
		case f.kind == kindData && in != nil && f.epoch == in.s.epoch:
			err = in.receive(c, f)
		default:
			return
		}
		if err != nil {
			return
		}
	}
}

func ack(c net.Conn, f frame, bytes int64) error {
	f.kind, f.bytes = kindAck, bytes
	_, err := c.Write(f.encode())
	return err
}

// inlet records the transfers that arrive during a session.
type inlet struct {
	s  *session
	mu sync.Mutex
	by map[key]*incoming
}

type incoming struct {
	expected []*pb.StreamSpec // nil until announced
	got      map[uint32]*pb.StreamReport
	bytes    int64
}

func newInlet(s *session) *inlet { return &inlet{s: s, by: map[key]*incoming{}} }

// at finds or adds a transfer: its announcement and its streams arrive in any order.
func (n *inlet) at(k key) *incoming {
	if n.by[k] == nil {
		n.by[k] = &incoming{got: map[uint32]*pb.StreamReport{}}
	}
	return n.by[k]
}

func (n *inlet) expect(k key, t *pb.Transfer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at(k).expected = t.Streams
	n.finish(k)
}

func (n *inlet) receive(c net.Conn, f frame) error {
	k := key{f.request, f.attempt}
	r := &pb.StreamReport{Bytes: f.bytes, SourcePort: uint32(c.RemoteAddr().(*net.TCPAddr).Port)}
	buf := make([]byte, 128<<10)
	for left := f.bytes; left > 0; {
		got, err := c.Read(buf[:min(left, int64(len(buf)))])
		if got > 0 && r.FirstPaperNs == 0 {
			r.FirstPaperNs = n.s.paper(monotonic())
		}
		left -= int64(got)
		n.s.plane.in.Add(int64(got))
		if err != nil {
			n.s.fail(k, "transfer", err)
			return err
		}
	}
	r.LastPaperNs = n.s.paper(monotonic())
	n.mu.Lock()
	in := n.at(k)
	in.got[f.stream] = r
	in.bytes += f.bytes
	n.finish(k)
	n.mu.Unlock()
	return ack(c, f, f.bytes)
}

// finish reports a transfer once it is complete.
func (n *inlet) finish(k key) {
	in := n.by[k]
	if in.expected == nil || len(in.got) < len(in.expected) {
		return
	}
	done := &pb.TransferDone{Bytes: in.bytes}
	var last int64
	for i, spec := range in.expected {
		r := in.got[uint32(i)]
		r.Nic, r.Path = spec.Nic, spec.Path
		last = max(last, r.LastPaperNs)
		done.Streams = append(done.Streams, r)
	}
	delete(n.by, k)
	n.s.arrived(k, done, last)
}

// send moves one transfer, with one connection per stream.
func (s *session) send(k key, t *pb.Transfer) {
	start := s.paper(monotonic())
	if !s.sleep(float64(s.cfg.Transfer.GetSetupPaperNs())) {
		return
	}
	peer := s.peer(t.Peer)
	if peer == nil {
		s.fail(k, "transfer", fmt.Errorf("no peer %q", t.Peer))
		return
	}
	reports := make([]*pb.StreamReport, len(t.Streams))
	errs := make([]error, len(t.Streams))
	var wg sync.WaitGroup
	for i := range t.Streams {
		wg.Go(func() { reports[i], errs[i] = s.sendStream(k, peer, uint32(i), t.Streams[i]) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			s.fail(k, "transfer", err)
			return
		}
	}
	s.emit(k, &pb.Event{Event: &pb.Event_TransferSent{TransferSent: &pb.TransferSent{Streams: reports, StartPaperNs: start}}})
}

func (s *session) peer(name string) *pb.Peer {
	for _, p := range s.cfg.Peers {
		if p.Node == name {
			return p
		}
	}
	return nil
}

func (s *session) sendStream(k key, peer *pb.Peer, number uint32, spec *pb.StreamSpec) (*pb.StreamReport, error) {
	port, release, err := s.plane.port(peer, spec)
	if err != nil {
		return nil, err
	}
	defer release()
	from, err := netip.ParseAddr(s.cfg.Addresses[spec.Nic])
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Control: options(s.cfg), LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, uint16(port)))}
	d.SetMultipathTCP(false)
	c, err := d.DialContext(s.ctx, "tcp4", fmt.Sprintf("%s:%d", peer.Addresses[spec.Nic], peer.DataPort))
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(s.ctx, func() { _ = c.Close() })()
	r := &pb.StreamReport{SourcePort: port, Nic: spec.Nic, Path: spec.Path, Bytes: spec.Bytes, FirstPaperNs: s.paper(monotonic())}
	f := frame{kindData, k.request, k.attempt, number, spec.Bytes, s.epoch}
	if _, err := c.Write(f.encode()); err != nil {
		return nil, err
	}
	chunk := make([]byte, 64<<10)
	for left := spec.Bytes; left > 0; {
		n, err := c.Write(chunk[:min(left, int64(len(chunk)))])
		left -= int64(n)
		s.plane.out.Add(int64(n))
		if err != nil {
			return nil, err
		}
	}
	if a, err := readFrame(c); err != nil || a.kind != kindAck || a.bytes != spec.Bytes {
		return nil, fmt.Errorf("no acknowledgement of %d bytes: %+v: %w", spec.Bytes, a, err)
	}
	r.LastPaperNs = s.paper(monotonic())
	return r, nil
}

// port takes a source port of the stream's path that is not in use.
func (p *plane) port(peer *pb.Peer, spec *pb.StreamSpec) (uint32, func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, port := range peer.Nics[spec.Nic].Paths[spec.Path].Ports {
		if !p.busy[port] && (spec.SourcePort == 0 || spec.SourcePort == port) {
			p.busy[port] = true
			return port, func() {
				p.mu.Lock()
				defer p.mu.Unlock()
				delete(p.busy, port)
			}, nil
		}
	}
	return 0, nil, fmt.Errorf("every source port of path %d to %s is in use", spec.Path, peer.Node)
}
