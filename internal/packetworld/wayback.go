package packetworld

import (
	"fmt"

	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/internal/results"
)

// direction is where the acknowledgements of some streams go.
type direction struct {
	from, to string
	nic      int
}

// nameBackPaths writes the path of each stream's acknowledgements into the records, as the
// lab's switches choose it. Acknowledgements have the stream's addresses and ports,
// swapped. If a switch does not answer, the path stays absent and a note says so.
func (w *World) nameBackPaths(records []results.Record) {
	groups := map[direction][]*results.StreamRecord{}
	for i := range records {
		r := &records[i]
		for j := range r.Streams {
			if s := &r.Streams[j]; s.Bytes > 0 && s.SourcePort > 0 {
				d := direction{r.Decode, r.Prefill, s.NIC}
				groups[d] = append(groups[d], s)
			}
		}
	}
	var failed error
	unknown := 0
	for d, streams := range groups {
		if err := w.nameBack(d, streams); err != nil {
			failed, unknown = err, unknown+len(streams)
		}
	}
	if failed != nil {
		w.opt.Note("the path of the acknowledgements of %d streams is not known: %v", unknown, failed)
	}
}

func (w *World) nameBack(d direction, streams []*results.StreamRecord) error {
	from, ok := w.cluster.Plan.Lookup(d.from)
	to, ok2 := w.cluster.Plan.Lookup(d.to)
	if !ok || !ok2 {
		return fmt.Errorf("%s to %s: no such instances", d.from, d.to)
	}
	ports := make([]uint16, len(streams))
	for i, s := range streams {
		ports[i] = uint16(s.SourcePort)
	}
	slots, err := w.lab.Fabric.Slots(kernel.Flow{Src: from, Dst: to, SrcNIC: d.nic, DstNIC: d.nic, SrcPort: dataPort}, ports)
	if err != nil {
		return err
	}
	var names [][]string
	for _, p := range w.cluster.Plan.NICPaths(from, to, d.nic, d.nic) {
		names = append(names, w.cluster.Plan.PathNodes(p))
	}
	for i, s := range streams {
		s.BackSlot, s.BackPath = &slots[i], names[slots[i]]
	}
	return nil
}
