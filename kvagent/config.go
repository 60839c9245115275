package kvagent

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/netkvlab/netkvlab/kvagent/control"
	"github.com/netkvlab/netkvlab/kvagent/engine"
)

const (
	defaultChunkBytes = 256 << 10
	minChunkBytes     = 1 << 10
	maxChunkBytes     = 16 << 20
	defaultTimeout    = 5 * time.Minute
	maxDSCP           = 63
)

// config is a ConfigureRequest that has been checked.
type config struct {
	role       control.Role
	node       string
	scale      float64
	net        networkConfig
	chunkBytes int
	integrity  bool
	pull       bool
	setup      time.Duration // paper
	timeout    time.Duration // real
	engine     *control.EngineConfig
	background []backgroundFlow
}

// networkConfig is what connections depend on: they are kept while it stays the same.
type networkConfig struct {
	addrs   []netip.Addr
	port    uint16
	options socketOptions
	fresh   bool
	udpSink bool
	peers   map[string]*peer
}

// peer is a destination with its path table.
type peer struct {
	node  string
	addrs []netip.Addr // one per NIC
	port  uint16
	paths [][][]uint16 // [nic][path] source ports
}

type backgroundFlow struct {
	to            netip.AddrPort
	sourcePort    uint16
	bitsPerSecond float64
	kind          string
	dscp          int
	segments      int // full frames that leave at a time, 1 or more
}

// maxSegments is what a packet of 64 KiB holds.
const maxSegments = 43

// badField is an error about one field of a request.
func badField(field, format string, args ...any) error {
	return fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...))
}

func parseConfig(r *control.ConfigureRequest) (*config, error) {
	c := &config{
		role: r.GetRole(), node: r.GetNode(), scale: r.GetTimeScale(), engine: r.GetEngine(),
		integrity: r.GetTransfer().GetIntegrity(), pull: r.GetTransfer().GetPull(),
	}
	switch c.role {
	case control.Role_ROLE_PREFILL, control.Role_ROLE_DECODE, control.Role_ROLE_BACKGROUND, control.Role_ROLE_ENDPOINT:
	default:
		return nil, badField("role", "%v is none of prefill, decode, background, endpoint", c.role)
	}
	if !(c.scale > 0) || math.IsInf(c.scale, 0) {
		return nil, badField("time_scale", "%v, want a finite number above 0", c.scale)
	}
	if err := c.parseTransfer(r.GetTransfer()); err != nil {
		return nil, err
	}
	if err := c.parseNetwork(r); err != nil {
		return nil, err
	}
	for i, f := range r.GetBackground() {
		b, err := parseBackground(f)
		if err != nil {
			return nil, fmt.Errorf("background[%d].%w", i, err)
		}
		c.background = append(c.background, b)
	}
	// Built here for its checks only: each session gets its own.
	if _, err := newInstance(c); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *config) parseTransfer(t *control.TransferConfig) error {
	c.chunkBytes = int(t.GetChunkBytes())
	if c.chunkBytes == 0 {
		c.chunkBytes = defaultChunkBytes
	}
	if c.chunkBytes < minChunkBytes || c.chunkBytes > maxChunkBytes {
		return badField("transfer.chunk_bytes", "%d, want %d to %d", c.chunkBytes, minChunkBytes, maxChunkBytes)
	}
	if d := t.GetDscp(); d < 0 || d > maxDSCP {
		return badField("transfer.dscp", "%d, want 0 to %d", d, maxDSCP)
	}
	c.net.options = socketOptions{congestion: t.GetCongestionControl(), dscp: int(t.GetDscp())}
	c.net.fresh = t.GetFresh()
	c.setup = time.Duration(t.GetSetupPaperNs())
	if c.setup < 0 {
		return badField("transfer.setup_paper_ns", "%d, want 0 or more", t.GetSetupPaperNs())
	}
	c.timeout = time.Duration(t.GetTimeoutNs())
	if c.timeout == 0 {
		c.timeout = defaultTimeout
	}
	if c.timeout < 0 {
		return badField("transfer.timeout_ns", "%d, want 0 or more", t.GetTimeoutNs())
	}
	return nil
}

func (c *config) parseNetwork(r *control.ConfigureRequest) error {
	var err error
	if c.net.addrs, err = parseAddrs("addresses", r.GetAddresses()); err != nil {
		return err
	}
	if c.net.port, err = parsePort("data_port", r.GetDataPort()); err != nil {
		return err
	}
	c.net.udpSink = c.role == control.Role_ROLE_BACKGROUND
	c.net.peers = make(map[string]*peer, len(r.GetPeers()))
	for i, p := range r.GetPeers() {
		parsed, err := parsePeer(p, len(c.net.addrs))
		if err != nil {
			return fmt.Errorf("peers[%d].%w", i, err)
		}
		if c.net.peers[parsed.node] != nil {
			return badField(fmt.Sprintf("peers[%d].node", i), "%q is listed twice", parsed.node)
		}
		c.net.peers[parsed.node] = parsed
	}
	return nil
}

func parsePeer(p *control.Peer, nics int) (*peer, error) {
	out := &peer{node: p.GetNode()}
	if out.node == "" {
		return nil, badField("node", "is empty")
	}
	var err error
	if out.addrs, err = parseAddrs("addresses", p.GetAddresses()); err != nil {
		return nil, err
	}
	if out.port, err = parsePort("data_port", p.GetDataPort()); err != nil {
		return nil, err
	}
	if n := len(p.GetNics()); n > nics || n > len(out.addrs) {
		return nil, badField("nics", "%d entries for %d own addresses and %d of %s", n, nics, len(out.addrs), out.node)
	}
	for n, nic := range p.GetNics() {
		paths := make([][]uint16, len(nic.GetPaths()))
		for k, path := range nic.GetPaths() {
			for _, port := range path.GetPorts() {
				v, err := parsePort(fmt.Sprintf("nics[%d].paths[%d]", n, k), port)
				if err != nil {
					return nil, err
				}
				paths[k] = append(paths[k], v)
			}
		}
		out.paths = append(out.paths, paths)
	}
	return out, nil
}

func parseAddrs(field string, in []string) ([]netip.Addr, error) {
	out := make([]netip.Addr, len(in))
	for i, s := range in {
		a, err := netip.ParseAddr(s)
		if err != nil || !a.Is4() {
			return nil, badField(fmt.Sprintf("%s[%d]", field, i), "%q is not an IPv4 address", s)
		}
		out[i] = a
	}
	return out, nil
}

func parsePort(field string, p uint32) (uint16, error) {
	if p == 0 || p > math.MaxUint16 {
		return 0, badField(field, "%d, want 1 to %d", p, math.MaxUint16)
	}
	return uint16(p), nil
}

func parseBackground(f *control.BackgroundFlow) (backgroundFlow, error) {
	var out backgroundFlow
	addr, err := netip.ParseAddr(f.GetPeerAddress())
	if err != nil || !addr.Is4() {
		return out, badField("peer_address", "%q is not an IPv4 address", f.GetPeerAddress())
	}
	port, err := parsePort("peer_port", f.GetPeerPort())
	if err != nil {
		return out, err
	}
	if f.GetSourcePort() > math.MaxUint16 {
		return out, badField("source_port", "%d, want 0 to %d", f.GetSourcePort(), math.MaxUint16)
	}
	if b := f.GetBitsPerSecond(); !(b > 0) || math.IsInf(b, 0) {
		return out, badField("bits_per_second", "%v, want a finite number above 0", b)
	}
	if kinds := []string{backgroundUDP, backgroundTCP, backgroundOnOff}; !slices.Contains(kinds, f.GetKind()) {
		return out, badField("kind", "%q is none of %s", f.GetKind(), strings.Join(kinds, ", "))
	}
	if d := f.GetDscp(); d < 0 || d > maxDSCP {
		return out, badField("dscp", "%d, want 0 to %d", d, maxDSCP)
	}
	if n := f.GetSegments(); n < 0 || n > maxSegments {
		return out, badField("segments", "%d, want 0 to %d", n, maxSegments)
	}
	return backgroundFlow{
		segments: max(1, int(f.GetSegments())),
		to:       netip.AddrPortFrom(addr, port), sourcePort: uint16(f.GetSourcePort()),
		bitsPerSecond: f.GetBitsPerSecond(), kind: f.GetKind(), dscp: int(f.GetDscp()),
	}, nil
}

// sameNetwork reports whether connections made for one may serve the other.
func (n *networkConfig) sameNetwork(o *networkConfig) bool {
	if n.port != o.port || n.options != o.options || n.fresh != o.fresh || n.udpSink != o.udpSink ||
		!slices.Equal(n.addrs, o.addrs) || len(n.peers) != len(o.peers) {
		return false
	}
	for name, p := range n.peers {
		q := o.peers[name]
		if q == nil || p.port != q.port || !slices.Equal(p.addrs, q.addrs) || !samePaths(p.paths, q.paths) {
			return false
		}
	}
	return true
}

func samePaths(a, b [][][]uint16) bool {
	return slices.EqualFunc(a, b, func(x, y [][]uint16) bool {
		return slices.EqualFunc(x, y, slices.Equal[[]uint16])
	})
}

// engineModel converts the wire's engine description.
func engineModel(e *control.EngineConfig) engine.Model {
	return engine.Model{
		PrefillBase:              time.Duration(e.GetPrefillBasePaperNs()),
		PrefillPerTokenNs:        e.GetPrefillPerTokenPaperNs(),
		PrefillPerTokenSquaredNs: e.GetPrefillPerTokenSquaredPaperNs(),
		DecodeBase:               time.Duration(e.GetDecodeBasePaperNs()),
		DecodePerSequence:        time.Duration(e.GetDecodePerSequencePaperNs()),
		DecodePerContextTokenNs:  e.GetDecodePerContextTokenPaperNs(),
	}
}
