package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/netkvlab/netkvlab/internal/results"
)

// Flows prints one row per explicit flow and seed, with the transfer times of the worlds side by
// side and the ratio of the packet world's to the flow world's. A flow that did not complete has
// its status in the row and its reason below.
func Flows(w io.Writer, records []results.Record, o Options) error {
	rows := groupFlows(records)
	t := newTable(
		column{head: "flow"}, column{head: "seed", rank: 3}, column{head: "from", left: true}, column{head: "to", left: true},
		column{head: "tier", rank: 2}, column{head: "start ms"}, column{head: "bytes"},
		column{head: "packet ms"}, column{head: "flow ms"}, column{head: "replay ms"}, column{head: "packet/flow"},
		column{head: "retransmits", rank: 1},
	)
	var b bytes.Buffer
	for _, f := range rows {
		any := f.any()
		packet, flow := f[results.WorldPacket], f[results.WorldFlow]
		t.add(fmt.Sprint(any.ID), fmt.Sprint(any.Seed), any.Prefill, any.Decode, tierName(any.Tier), number(any.ArrivalMS),
			size(any.PayloadBytes), took(packet), took(flow), took(f[results.WorldReplay]), quotient(packet, flow), retransmits(packet))
	}
	t.dropEmpty()
	t.render(&b, o.width())
	for _, f := range rows {
		for _, world := range []string{results.WorldPacket, results.WorldFlow, results.WorldReplay} {
			if r := f[world]; r != nil && r.Status != results.Completed {
				wrap(&b, fmt.Sprintf("flow %d, seed %d, %s: %s: %s", r.ID, r.Seed, world, r.Status, r.Reason), "  ", o.width())
			}
		}
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("print flows: %w", err)
	}
	return nil
}

// flowRow is one flow of one seed, by world.
type flowRow map[string]*results.Record

// any returns the flow's record in the first world that has it, for columns that are equal in
// all worlds.
func (f flowRow) any() *results.Record {
	for _, world := range []string{results.WorldPacket, results.WorldFlow, results.WorldReplay} {
		if r := f[world]; r != nil {
			return r
		}
	}
	return &results.Record{}
}

// groupFlows groups the worlds' records by flow, sorted by seed and id.
func groupFlows(records []results.Record) []flowRow {
	type key struct {
		seed uint64
		id   int
	}
	byKey := map[key]flowRow{}
	var keys []key
	for i := range records {
		r := &records[i]
		k := key{r.Seed, r.ID}
		if byKey[k] == nil {
			byKey[k] = flowRow{}
			keys = append(keys, k)
		}
		byKey[k][r.World] = r
	}
	slices.SortFunc(keys, func(a, b key) int { return cmp.Or(cmp.Compare(a.seed, b.seed), cmp.Compare(a.id, b.id)) })
	out := make([]flowRow, len(keys))
	for i, k := range keys {
		out[i] = byKey[k]
	}
	return out
}

func took(r *results.Record) string {
	switch {
	case r == nil:
		return "-"
	case r.Status != results.Completed:
		return r.Status
	default:
		return number(r.TransferMS)
	}
}

func quotient(packet, flow *results.Record) string {
	if packet == nil || flow == nil || packet.Status != results.Completed || flow.Status != results.Completed || flow.TransferMS == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", packet.TransferMS/flow.TransferMS)
}

func retransmits(packet *results.Record) string {
	if packet == nil {
		return "-"
	}
	return fmt.Sprint(packet.Retransmits)
}

func tierName(tier int) string {
	if tier < 0 {
		return "-"
	}
	return fmt.Sprint(tier)
}
