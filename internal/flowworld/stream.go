package flowworld

import (
	"time"

	"github.com/netkvlab/netkvlab/flowsim"
	"github.com/netkvlab/netkvlab/kvagent/engine"
)

// stream is one TCP connection's share of a transfer. While the prefill that makes its
// bytes is computing it is a chain of flows: each takes all that is there and has not
// left, and where nothing is, the stream is off its links until the next piece.
type stream struct {
	flow    flowsim.Flow
	release engine.Release
	total   int64
	sent    int64         // with the flow under way
	latency time.Duration // of the path, and the set-up
	begun   bool
	ended   bool
}

// next starts the stream's next flow at an instant, whose paper time is now; false
// when nothing is left to send.
func (s *stream) next(net *flowsim.Network, at flowsim.Instant, now time.Duration) (bool, error) {
	if s.begun && s.sent == s.total {
		s.ended = true
		return false, nil
	}
	// The receiver sees everything a latency late. What has left before arrived before,
	// so the clock of the sender is that much behind the network's.
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
