package packetworld

import (
	"slices"
	"time"

	"github.com/netkvlab/netkvlab/internal/controller"
	"github.com/netkvlab/netkvlab/kvagent/control"
)

type order struct {
	member int
	cmd    *control.Command
}

// orders translates an action into commands. Both ends receive the command for a transfer:
// the receiver must know how many bytes to expect.
func (t *Trial) orders(a controller.Action) []order {
	id, attempt := uint64(a.Request), uint32(a.Attempt)
	prefill := slices.IndexFunc(t.Members, func(m Member) bool { return m.Prefill == a.Prefill })
	decode := slices.IndexFunc(t.Members, func(m Member) bool { return m.Decode == a.Decode })
	cancel := &control.Command{Command: &control.Command_Cancel{Cancel: &control.Cancel{Request: id, Attempt: attempt, Reason: a.Reason}}}
	switch a.Kind {
	case controller.DoPrefill:
		return []order{{prefill, &control.Command{Command: &control.Command_Prefill{
			Prefill: &control.Prefill{Request: id, Tokens: int64(a.Tokens)},
		}}}}
	case controller.DoReserve:
		return []order{{decode, &control.Command{Command: &control.Command_Reserve{Reserve: &control.Reserve{
			Request: id, Attempt: attempt, PromptTokens: int64(a.Tokens), OutputTokens: int64(a.OutputTokens), Blocks: a.Blocks,
		}}}}}
	case controller.DoTransfer:
		return []order{
			{decode, transferCommand(a, t.Members[prefill].Node, true)},
			{prefill, transferCommand(a, t.Members[decode].Node, false)},
		}
	case controller.DoCancelPrefill:
		return []order{{prefill, cancel}}
	case controller.DoCancelDecode:
		return []order{{decode, cancel}}
	}
	return nil
}

// transferCommand tells one end of a transfer about the other.
func transferCommand(a controller.Action, peer string, receive bool) *control.Command {
	streams := make([]*control.StreamSpec, len(a.Streams))
	for i, s := range a.Streams {
		streams[i] = &control.StreamSpec{Nic: uint32(s.NIC), Path: uint32(s.Path), Bytes: s.BytesEmulated}
	}
	return &control.Command{Command: &control.Command_Transfer{Transfer: &control.Transfer{
		Request: uint64(a.Request), Attempt: uint32(a.Attempt), Peer: peer, Receive: receive, Streams: streams,
		Pieces: int32(a.Pieces), ReleaseFromPaperNs: int64(a.ReleaseFrom), ReleaseToPaperNs: int64(a.ReleaseTo),
	}}}
}

// toEvent translates an agent's event; ok is false if the driver does not need it.
func toEvent(m *Member, e *control.Event) (ev controller.Event, ok bool) {
	ev = controller.Event{
		Request: int(e.GetRequest()), Attempt: int(e.GetAttempt()), At: time.Duration(e.GetAtPaperNs()),
		Prefill: m.Prefill, Decode: m.Decode, FreeBytes: -1,
	}
	switch x := e.GetEvent().(type) {
	case *control.Event_PrefillStarted:
		ev.Kind = controller.PrefillStarted
	case *control.Event_PrefillDone:
		ev.Kind = controller.PrefillDone
	case *control.Event_Reserved:
		r := x.Reserved
		ev.Kind, ev.OK, ev.Reason = controller.Reserved, r.GetOk(), r.GetReason()
		ev.HitTokens, ev.FreeBytes = int(r.GetHitTokens()), r.GetFreePaperBytes()
	case *control.Event_TransferSent:
		ev.Kind, ev.Start = controller.TransferSent, time.Duration(x.TransferSent.GetStartPaperNs())
		ev.Streams = reports(x.TransferSent.GetStreams())
	case *control.Event_TransferDone:
		ev.Kind, ev.BytesEmulated = controller.TransferDone, x.TransferDone.GetBytes()
		ev.Streams = reports(x.TransferDone.GetStreams())
	case *control.Event_Admitted:
		ev.Kind = controller.Admitted
	case *control.Event_FirstToken:
		ev.Kind = controller.FirstToken
	case *control.Event_Finished:
		ev.Kind, ev.FreeBytes = controller.Finished, x.Finished.GetFreePaperBytes()
	case *control.Event_Failed:
		ev.Kind, ev.Reason, ev.BytesEmulated = controller.Failed, x.Failed.GetReason(), x.Failed.GetBytes()
		ev.BySender = m.Decode < 0
	case *control.Event_Cache:
		ev.Kind, ev.FreeBytes = controller.CacheChanged, x.Cache.GetFreePaperBytes()
		ev.Stored, ev.Evicted = x.Cache.GetStored(), x.Cache.GetEvicted()
	default:
		return ev, false
	}
	return ev, true
}

func reports(in []*control.StreamReport) []controller.StreamReport {
	out := make([]controller.StreamReport, len(in))
	for i, s := range in {
		out[i] = controller.StreamReport{
			NIC: int(s.GetNic()), Path: int(s.GetPath()), SourcePort: int(s.GetSourcePort()), BytesEmulated: s.GetBytes(),
			First: time.Duration(s.GetFirstPaperNs()), Last: time.Duration(s.GetLastPaperNs()), Retransmits: int(s.GetRetransmits()),
		}
	}
	return out
}
