package report

import (
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
	t := newTable(
		column{head: "flow"}, column{head: "seed", rank: 3}, column{head: "from", left: true}, column{head: "to", left: true},
		column{head: "tier", rank: 2}, column{head: "start ms"}, column{head: "bytes"}, column{head: "packet ms"},
		column{head: "flow ms"}, column{head: "replay ms"}, column{head: "packet/flow"}, column{head: "retransmits", rank: 1},
	)
	rows := groupFlows(records)
	for _, f := range rows {
		packet, flow, replay := f[results.WorldPacket], f[results.WorldFlow], f[results.WorldReplay]
		one := cmp.Or(packet, flow, replay, &results.Record{}) // for columns that are equal in all worlds
		tier := "-"
		if one.Tier >= 0 {
			tier = fmt.Sprint(one.Tier)
		}
		t.add(fmt.Sprint(one.ID), fmt.Sprint(one.Seed), one.Prefill, one.Decode, tier, number(one.ArrivalMS), size(one.PayloadBytes),
			known(packet, took), known(flow, took), known(replay, took), quotient(packet, flow),
			known(packet, func(r results.Record) string { return fmt.Sprint(r.Retransmits) }))
	}
	t.dropEmpty()
	b := newOutput(o)
	b.table(t)
	for _, f := range rows {
		for _, world := range worldOrder {
			if r := f[world]; r != nil && r.Status != results.Completed {
				b.wrap("  ", "flow %d, seed %d, %s: %s: %s", r.ID, r.Seed, world, r.Status, r.Reason)
			}
		}
	}
	return b.print(w, "flows")
}

// groupFlows groups the worlds' records by flow, sorted by seed and id.
func groupFlows(records []results.Record) []map[string]*results.Record {
	sorted := make([]*results.Record, len(records))
	for i := range records {
		sorted[i] = &records[i]
	}
	compare := func(a, b *results.Record) int { return cmp.Or(cmp.Compare(a.Seed, b.Seed), cmp.Compare(a.ID, b.ID)) }
	slices.SortStableFunc(sorted, compare)
	var out []map[string]*results.Record
	for i, r := range sorted {
		if i == 0 || compare(sorted[i-1], r) != 0 {
			out = append(out, map[string]*results.Record{})
		}
		out[len(out)-1][r.World] = r
	}
	return out
}

func took(r results.Record) string {
	if r.Status != results.Completed {
		return r.Status
	}
	return number(r.TransferMS)
}

func quotient(packet, flow *results.Record) string {
	if packet == nil || flow == nil || packet.Status != results.Completed || flow.Status != results.Completed || flow.TransferMS == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", packet.TransferMS/flow.TransferMS)
}
