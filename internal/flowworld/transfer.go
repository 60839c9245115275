package flowworld

import (
	"fmt"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/flowsim"
	"github.com/netkvlab/netkvlab/internal/controller"
	"github.com/netkvlab/netkvlab/kvagent/engine"
)

// transfer is one attempt to move a payload.
type transfer struct {
	request, attempt int
	decode           int
	first            uint64 // id of its first stream; the others have the next ids
	streams          []controller.StreamReport
	flows            []stream
	left             int   // streams that have not ended
	bytes            int64 // emulated, of the streams that have
}

type attemptKey struct{ request, attempt int }

// send starts a transfer's streams. A transfer without streams (a full prefix hit) arrives at
// once.
func (w *World) send(a *controller.Action) error {
	t := &transfer{request: a.Request, attempt: a.Attempt, decode: a.Decode, first: w.flowID}
	w.tell(controller.Event{Kind: controller.TransferSent, Request: t.request, Attempt: t.attempt, At: w.now, Start: w.now})
	if len(a.Streams) == 0 {
		return w.arrived(t, w.now)
	}
	from, to := w.cfg.Senders[a.Prefill], w.cfg.Receivers[a.Decode]
	tier := w.cfg.Plan.Tier(from, to)
	delay := w.cfg.Latency[tier] + w.cfg.Setup
	release := engine.Release{Pieces: int64(a.Pieces), From: a.ReleaseFrom, To: a.ReleaseTo}
	for i, s := range w.streams(a) {
		links, weights, err := w.path(a.Prefill, tier, from, to, s)
		if err != nil {
			return err
		}
		f := stream{
			flow:    flowsim.Flow{ID: t.first + uint64(i), Path: links, Weights: weights},
			release: release, total: s.Bytes, latency: delay,
		}
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
	w.transfers[attemptKey{t.request, t.attempt}] = t
	if w.cfg.Timeout > 0 {
		w.later(max(w.now, a.ReleaseTo)+w.cfg.Timeout, item{deadline: t})
	}
	return nil
}

// overdue gives up a transfer that has not ended at its deadline. The driver releases the
// reservation, as it does in the packet world.
func (w *World) overdue(t *transfer) error {
	key := attemptKey{t.request, t.attempt}
	if w.transfers[key] != t {
		return nil // it has arrived, or was already given up
	}
	if err := w.drop(key); err != nil {
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
	if w.cfg.Paths != PathTier {
		return a.Streams
	}
	var one controller.Stream
	for _, s := range a.Streams {
		one.Bytes += s.Bytes
		one.BytesEmulated += s.BytesEmulated
	}
	return []controller.Stream{one}
}

func (w *World) path(prefill, tier int, from, to fabric.NodeID, s controller.Stream) ([]flowsim.LinkIndex, []float64, error) {
	if w.cfg.Paths == PathTier {
		return []flowsim.LinkIndex{flowsim.TierLink(prefill, tier)}, nil, nil
	}
	paths := w.cfg.Plan.NICPaths(from, to, s.NIC, s.NIC)
	if w.cfg.Paths == PathSplit {
		links, weights := flowsim.Split(paths)
		return links, weights, nil
	}
	if s.Path < 0 || s.Path >= len(paths) {
		return nil, nil, fmt.Errorf("path slot %d of %d", s.Path, len(paths))
	}
	return flowsim.AppendPath(nil, paths[s.Path]), nil, nil
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
	// Copy all completions of this instant before the next pieces start: the network reuses its
	// list of completions on the next call.
	type ended struct {
		transfer *transfer
		stream   int
		at       time.Duration
	}
	ends := make([]ended, len(done))
	for i, c := range done {
		t := w.owner[c.ID]
		ends[i] = ended{t, int(c.ID - t.first), max(w.now, c.At.Duration())}
	}
	for _, e := range ends {
		t := e.transfer
		more, err := t.flows[e.stream].next(w.net, exact, e.at)
		if err != nil {
			return err
		}
		if more {
			continue
		}
		delete(w.owner, t.flows[e.stream].flow.ID)
		t.streams[e.stream].Last = e.at
		t.bytes += t.streams[e.stream].BytesEmulated
		if t.left--; t.left > 0 {
			continue
		}
		if err := w.arrived(t, e.at); err != nil {
			return err
		}
	}
	return nil
}

// arrived reports to the decode instance and the driver that a payload is complete.
func (w *World) arrived(t *transfer, at time.Duration) error {
	delete(w.transfers, attemptKey{t.request, t.attempt})
	w.tell(controller.Event{
		Kind: controller.TransferDone, Request: t.request, Attempt: t.attempt, At: at, Decode: t.decode,
		BytesEmulated: t.bytes, Streams: t.streams,
	})
	if w.decodes == nil {
		return nil
	}
	return w.decodes[t.decode].Arrive(at, uint64(t.request))
}

// abort removes the streams of an attempt that was given up from the network.
func (w *World) abort(a *controller.Action) error { return w.drop(attemptKey{a.Request, a.Attempt}) }

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
