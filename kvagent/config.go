package kvagent

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/netkvlab/netkvlab/kvagent/control"
)

const (
	defaultChunkBytes = 256 << 10
	minChunkBytes     = 1 << 10
	maxChunkBytes     = 16 << 20
	defaultTimeout    = 5 * time.Minute
	maxDSCP           = 63
	maxSegments       = 43 // what a packet of 64 KiB holds
)

// config is a ConfigureRequest that has been checked, with its defaults.
type config struct {
	*control.ConfigureRequest
	net        networkConfig
	chunkBytes int
	setup      time.Duration // paper
	timeout    time.Duration // real
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
	*control.BackgroundFlow
	to netip.AddrPort
}

// badField is an error about one field of a request.
func badField(field, format string, args ...any) error {
	return fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...))
}

// within checks a field's range.
func within(field string, v, least, most int64) error {
	switch {
	case v >= least && v <= most:
		return nil
	case most == math.MaxInt64:
		return badField(field, "%d, want %d or more", v, least)
	}
	return badField(field, "%d, want %d to %d", v, least, most)
}

// positive checks a number that must be finite and above 0.
func positive(field string, v float64) error {
	if !(v > 0) || math.IsInf(v, 0) {
		return badField(field, "%v, want a finite number above 0", v)
	}
	return nil
}

func parseConfig(r *control.ConfigureRequest) (*config, error) {
	t := r.GetTransfer()
	c := &config{
		ConfigureRequest: r, chunkBytes: int(cmp.Or(t.GetChunkBytes(), defaultChunkBytes)),
		setup: time.Duration(t.GetSetupPaperNs()), timeout: cmp.Or(time.Duration(t.GetTimeoutNs()), defaultTimeout),
	}
	switch r.GetRole() {
	case control.Role_ROLE_PREFILL, control.Role_ROLE_DECODE, control.Role_ROLE_BACKGROUND, control.Role_ROLE_ENDPOINT:
	default:
		return nil, badField("role", "%v is none of prefill, decode, background, endpoint", r.GetRole())
	}
	if err := cmp.Or(
		positive("time_scale", r.GetTimeScale()),
		within("transfer.chunk_bytes", int64(c.chunkBytes), minChunkBytes, maxChunkBytes),
		within("transfer.dscp", int64(t.GetDscp()), 0, maxDSCP),
		within("transfer.setup_paper_ns", t.GetSetupPaperNs(), 0, math.MaxInt64),
		within("transfer.timeout_ns", t.GetTimeoutNs(), 0, math.MaxInt64),
	); err != nil {
		return nil, err
	}
	var err error
	if c.net, err = parseNetwork(r); err != nil {
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

func parseNetwork(r *control.ConfigureRequest) (n networkConfig, err error) {
	t := r.GetTransfer()
	n = networkConfig{
		options: socketOptions{congestion: t.GetCongestionControl(), dscp: int(t.GetDscp())}, fresh: t.GetFresh(),
		udpSink: r.GetRole() == control.Role_ROLE_BACKGROUND, peers: make(map[string]*peer, len(r.GetPeers())),
	}
	if n.addrs, err = parseAddrs("addresses", r.GetAddresses()); err != nil {
		return n, err
	}
	if n.port, err = parsePort("data_port", r.GetDataPort()); err != nil {
		return n, err
	}
	for i, p := range r.GetPeers() {
		parsed, err := parsePeer(p, len(n.addrs))
		if err != nil {
			return n, fmt.Errorf("peers[%d].%w", i, err)
		}
		if n.peers[parsed.node] != nil {
			return n, badField(fmt.Sprintf("peers[%d].node", i), "%q is listed twice", parsed.node)
		}
		n.peers[parsed.node] = parsed
	}
	return n, nil
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
		var err error
		if out[i], err = parseAddr(fmt.Sprintf("%s[%d]", field, i), s); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func parseAddr(field, s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is4() {
		return a, badField(field, "%q is not an IPv4 address", s)
	}
	return a, nil
}

func parsePort(field string, p uint32) (uint16, error) {
	return uint16(p), within(field, int64(p), 1, math.MaxUint16)
}

func parseBackground(f *control.BackgroundFlow) (out backgroundFlow, err error) {
	addr, err := parseAddr("peer_address", f.GetPeerAddress())
	if err != nil {
		return out, err
	}
	port, err := parsePort("peer_port", f.GetPeerPort())
	if err = cmp.Or(err,
		within("source_port", int64(f.GetSourcePort()), 0, math.MaxUint16),
		positive("bits_per_second", f.GetBitsPerSecond()),
	); err != nil {
		return out, err
	}
	if kinds := []string{backgroundUDP, backgroundTCP, backgroundOnOff}; !slices.Contains(kinds, f.GetKind()) {
		return out, badField("kind", "%q is none of %s", f.GetKind(), strings.Join(kinds, ", "))
	}
	return backgroundFlow{f, netip.AddrPortFrom(addr, port)},
		cmp.Or(within("dscp", int64(f.GetDscp()), 0, maxDSCP), within("segments", int64(f.GetSegments()), 0, maxSegments))
}
