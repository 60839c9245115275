package flowworld

import (
	"fmt"
	"slices"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/flowsim"
	"github.com/netkvlab/netkvlab/internal/controller"
	"github.com/netkvlab/netkvlab/kvagent/engine"
)

// transfer is one attempt to move a payload.
type transfer struct {
	attemptKey
	decode  int
	first   uint64 // id of its first stream; the others have the next ids
	streams []controller.StreamReport
	flows   []stream
	left    int   // streams that have not ended
	bytes   int64 // emulated, of the streams that have
}

type attemptKey struct{ request, attempt int }

// send starts a transfer's streams. A transfer without streams (a full prefix hit) arrives at
// once.
func (w *World) send(a *controller.Action) error {
	t := &transfer{attemptKey: attemptKey{a.Request, a.Attempt}, decode: a.Decode, first: w.flowID}
	w.tell(controller.Event{Kind: controller.TransferSent, Request: t.request, Attempt: t.attempt, At: w.now, Start: w.now})
	if len(a.Streams) == 0 {
		return w.arrived(t, w.now)
	}
	from, to := w.cfg.Senders[a.Prefill], w.cfg.Receivers[a.Decode]
	delay := w.cfg.Latency[w.cfg.Plan.Tier(from, to)] + w.cfg.Setup
	release := engine.Release{Pieces: int64(a.Pieces), From: a.ReleaseFrom, To: a.ReleaseTo}
	for i, s := range w.streams(a) {
		path, err := w.path(a.Prefill, from, to, s)
		if err != nil {
			return err
		}
		f := stream{flow: flowsim.Flow{ID: t.first + uint64(i), Path: path}, release: release, total: s.Bytes, latency: delay}
		if _, err := f.next(w.net, flowsim.At(w.now), w.now); err != nil {
			return err
		}
		t.flows = append(t.flows, f)
		t.streams = append(t.streams, controller.StreamReport{
			NIC: s.NIC, Path: s.Path, SourcePort: i, BytesEmulated: s.BytesEmulated, First: w.now + delay,
		})
		w.owner[f.flow.ID] = t
	}
	t.left = len(t.flows)
	w.flowID += uint64(t.left)
	w.transfers[t.attemptKey] = t
	if w.cfg.Timeout > 0 {
		w.later(max(w.now, a.ReleaseTo)+w.cfg.Timeout, func(controller.Driver) error { return w.overdue(t) })
	}
	return nil
}

// overdue gives up a transfer that has not ended at its deadline. The driver releases the
// reservation, as it does in the packet world.
func (w *World) overdue(t *transfer) error {
	if w.transfers[t.attemptKey] != t {
		return nil // it has arrived, or was already given up
	}
	if err := w.drop(t.attemptKey); err != nil {
		return err
	}
	w.tell(controller.Event{
		Kind: controller.Failed, Request: t.request, Attempt: t.attempt, At: w.now, BySender: true,
		Reason: fmt.Sprintf("transfer not finished within %v", w.cfg.Timeout), BytesEmulated: t.bytes,
	})
	return nil
}

// streams merges a transfer into one flow if streams are not modelled: in the paper's model a
// transfer counts once, for any number of streams.
func (w *World) streams(a *controller.Action) []controller.Stream {
	if !w.cfg.ByTier {
		return a.Streams
	}
	var one controller.Stream
	for _, s := range a.Streams {
		one.Bytes += s.Bytes
		one.BytesEmulated += s.BytesEmulated
	}
	return []controller.Stream{one}
}

func (w *World) path(prefill int, from, to fabric.NodeID, s controller.Stream) ([]flowsim.LinkIndex, error) {
	if w.cfg.ByTier {
		return []flowsim.LinkIndex{flowsim.TierLink(prefill, w.cfg.Plan.Tier(from, to))}, nil
	}
	return links(w.cfg.Plan, from, to, s.NIC, s.Path)
}

// links are those of a path slot between two NICs of the same number.
func links(p *fabric.Plan, from, to fabric.NodeID, nic, slot int) ([]flowsim.LinkIndex, error) {
	paths := p.NICPaths(from, to, nic, nic)
	if slot < 0 || slot >= len(paths) {
		return nil, fmt.Errorf("path slot %d of %d", slot, len(paths))
	}
	return flowsim.AppendPath(nil, paths[slot]), nil
}

// arrivals removes the streams that end next from the network.
func (w *World) arrivals() error {
	exact, ok := w.net.Next()
	if !ok {
		return nil
	}
	done, err := w.net.Advance(exact)
	if err != nil {
		return err
	}
	// Take all completions of this instant before the next pieces start: the network reuses its
	// list of completions on the next call.
	for _, c := range slices.Clone(done) {
		t, at := w.owner[c.ID], max(w.now, c.At.Duration())
		i := c.ID - t.first
		more, err := t.flows[i].next(w.net, exact, at)
		if err != nil {
			return err
		}
		if more {
			continue
		}
		delete(w.owner, c.ID)
		t.streams[i].Last = at
		t.bytes += t.streams[i].BytesEmulated
		if t.left--; t.left > 0 {
			continue
		}
		if err := w.arrived(t, at); err != nil {
			return err
		}
	}
	return nil
}

// arrived reports to the decode instance and the driver that a payload is complete.
func (w *World) arrived(t *transfer, at time.Duration) error {
	delete(w.transfers, t.attemptKey)
	w.tell(controller.Event{
		Kind: controller.TransferDone, Request: t.request, Attempt: t.attempt, At: at, Decode: t.decode,
		BytesEmulated: t.bytes, Streams: t.streams,
	})
	if w.decodes == nil {
		return nil
	}
	return w.decodes[t.decode].Arrive(at, uint64(t.request))
}

// drop removes the streams of an attempt that was given up from the network.
func (w *World) drop(key attemptKey) error {
	t := w.transfers[key]
	if t == nil {
		return nil
	}
	delete(w.transfers, key)
	for i := range t.flows {
		f := &t.flows[i]
		delete(w.owner, f.flow.ID)
		if f.ended {
			continue
		}
		if _, err := w.net.Cancel(flowsim.At(w.now), f.flow.ID); err != nil {
			return err
		}
	}
	return nil
}

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
