package flowworld

import (
	"time"

	"github.com/netkvlab/netkvlab/flowsim"
	"github.com/netkvlab/netkvlab/kvagent/engine"
)

// stream is one TCP connection's share of a transfer. While the prefill still computes its
// bytes, it is a chain of flows: each flow sends all bytes that are ready. When none are ready,
// the stream leaves its links until the next piece.
type stream struct {
	flow    flowsim.Flow
	release engine.Release
	total   int64
	sent    int64         // including the current flow
	latency time.Duration // of the path, including the setup
	begun   bool
	ended   bool
}

// next starts the stream's next flow at an instant; now is the same in paper time. It is false
// when nothing is left to send.
func (s *stream) next(net *flowsim.Network, at flowsim.Instant, now time.Duration) (bool, error) {
	if s.begun && s.sent == s.total {
		s.ended = true
		return false, nil
	}
	// The receiver gets everything later by the latency. The network's completions are times of
	// arrival, so the sender's clock is behind the network's by the latency.
	clock := now
	if s.begun {
		clock -= s.latency
	}
	s.begun = true
	ready, then := s.release.Ready(s.total, clock)
	if ready == s.sent {
		ready, _ = s.release.Ready(s.total, then)
	} else {
		then = clock
	}
	s.flow.Bytes, s.flow.Delay = float64(ready-s.sent), then+s.latency-now
	s.sent = ready
	return true, net.Start(at, s.flow)
}
