package flowworld

import (
	"errors"
	"fmt"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/flowsim"
	"github.com/netkvlab/netkvlab/internal/controller"
)

// errOverlap refuses what the fluid model has no release schedule for.
var errOverlap = errors.New("transfer.overlap is not modelled by the flow world: run it in the packet world alone")

// transfer is one attempt to move a payload.
type transfer struct {
	request, attempt int
	decode           int
	first            uint64 // id of its first flow; the others follow
	streams          []controller.StreamReport
	ended            []bool
	left             int   // streams that have not ended
	bytes            int64 // emulated, of the streams that have
}

type attemptKey struct{ request, attempt int }

// send starts a transfer's streams. One without streams (a full prefix hit) is there at once.
func (w *World) send(a *controller.Action) error {
	if a.Pieces > 0 {
		return errOverlap
	}
	t := &transfer{request: a.Request, attempt: a.Attempt, decode: a.Decode, first: w.flowID}
	w.tell(controller.Event{Kind: controller.TransferSent, Request: t.request, Attempt: t.attempt, At: w.now, Start: w.now})
	if len(a.Streams) == 0 {
		return w.arrived(t, w.now)
	}
	from, to := w.cfg.Senders[a.Prefill], w.cfg.Receivers[a.Decode]
	tier := w.cfg.Plan.Tier(from, to)
	delay := w.cfg.Latency[tier] + w.cfg.Setup
	streams := w.streams(a)
	for i, s := range streams {
		links, weights, err := w.path(a.Prefill, tier, from, to, s)
		if err != nil {
			return err
		}
		f := flowsim.Flow{ID: t.first + uint64(i), Path: links, Weights: weights, Bytes: float64(s.Bytes), Delay: delay}
		if err := w.net.Start(flowsim.At(w.now), f); err != nil {
			return err
		}
		t.streams = append(t.streams, controller.StreamReport{
			NIC: s.NIC, Path: s.Path, SourcePort: i, BytesEmulated: s.BytesEmulated, First: w.now + delay,
		})
		w.owner[f.ID] = t
	}
	w.flowID += uint64(len(streams))
	t.left, t.ended = len(streams), make([]bool, len(streams))
	w.transfers[attemptKey{t.request, t.attempt}] = t
	if w.cfg.Timeout > 0 {
		w.later(w.now+w.cfg.Timeout, item{deadline: t})
	}
	return nil
}

// overdue gives a transfer up that is still under way at its deadline. The driver
// releases the reservation, as it does in the packet world.
func (w *World) overdue(t *transfer) error {
	key := attemptKey{t.request, t.attempt}
	if w.transfers[key] != t {
		return nil // it has arrived, or was given up
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

// streams merges a transfer into one flow where streams are not modelled: in the
// paper's model a transfer counts once, whatever it is cut into.
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

// arrivals takes the streams that end next off the network.
func (w *World) arrivals() error {
	exact, ok := w.net.Next()
	if !ok {
		return nil
	}
	done, err := w.net.Advance(exact)
	if err != nil {
		return err
	}
	for _, c := range done {
		t := w.owner[c.ID]
		delete(w.owner, c.ID)
		i := int(c.ID - t.first)
		at := max(w.now, c.At.Duration())
		t.streams[i].Last, t.ended[i] = at, true
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

// arrived tells the decode instance and the driver that a payload is complete.
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

// abort takes the streams of an attempt that was given up off the network.
func (w *World) abort(a *controller.Action) error { return w.drop(attemptKey{a.Request, a.Attempt}) }

func (w *World) drop(key attemptKey) error {
	t := w.transfers[key]
	if t == nil {
		return nil
	}
	delete(w.transfers, key)
	for i, ended := range t.ended {
		id := t.first + uint64(i)
		delete(w.owner, id)
		if ended {
			continue
		}
		if _, err := w.net.Cancel(flowsim.At(w.now), id); err != nil {
			return err
		}
	}
	return nil
}
