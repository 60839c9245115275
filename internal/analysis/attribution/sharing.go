package attribution

import (
	"cmp"
	"slices"

	"github.com/netkvlab/netkvlab/internal/results"
)

// met says which kinds of other transfers a transfer met on its links.
type met struct {
	earlier bool // another that started before this one
	later   bool // another that started during this one
	back    bool // another's data, on the path of this one's acknowledgements
}

// span is a transfer's start and end, the links of its data and those of its acknowledgements.
type span struct {
	row         int
	start, end  float64
	links, back []int
}

// meetings finds, for each row of a trial, what its transfer met. A transfer lasts from its
// start to its end in the slower of the two worlds, so that one that met no other did so in both
// worlds. Rows without a completed transfer are ignored.
func meetings(packet, replay []results.Record) []met {
	out := make([]met, len(packet))
	names := linkNames{}
	spans := make([]span, 0, len(packet))
	for i := range packet {
		p := &packet[i]
		if moved(p) {
			end := max(p.TransferEndMS(), replay[i].TransferEndMS())
			spans = append(spans, span{i, p.TransferStartMS, end, names.of(p, wayThere), names.of(p, wayBack)})
		}
	}
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	var there []*span
	for i := range spans {
		x := &spans[i]
		there = slices.DeleteFunc(there, func(y *span) bool { return y.end <= x.start })
		for _, y := range there {
			if share(x.links, y.links) {
				out[x.row].earlier, out[y.row].later = true, true
			}
			out[x.row].back = out[x.row].back || share(x.back, y.links)
			out[y.row].back = out[y.row].back || share(y.back, x.links)
		}
		there = append(there, x)
	}
	return out
}

// moved reports whether a record has a completed transfer of at least one byte.
func moved(r *results.Record) bool {
	return r.Status == results.Completed && len(r.Streams) > 0 && r.TransferMS > 0
}

// linkNames numbers directed links by the nodes at their ends, and at an instance by its NIC.
type linkNames map[linkName]int

type linkName struct {
	from, to string
	nic      int
}

func wayThere(s *results.StreamRecord) []string { return s.Path }
func wayBack(s *results.StreamRecord) []string  { return s.BackPath }

// of lists the links of a transfer's streams in one direction, sorted, each once.
func (l linkNames) of(r *results.Record, way func(*results.StreamRecord) []string) []int {
	var out []int
	for i := range r.Streams {
		s := &r.Streams[i]
		nodes := way(s)
		for h := 1; h < len(nodes); h++ {
			name := linkName{from: nodes[h-1], to: nodes[h]}
			if h == 1 || h == len(nodes)-1 {
				name.nic = s.NIC
			}
			n, ok := l[name]
			if !ok {
				n = len(l)
				l[name] = n
			}
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// backUnknown reports whether some path of a transfer's acknowledgements is not recorded.
func backUnknown(r *results.Record) bool {
	return slices.ContainsFunc(r.Streams, func(s results.StreamRecord) bool { return s.Bytes > 0 && s.BackPath == nil })
}

// share reports whether two sorted lists have an element in common.
func share(a, b []int) bool {
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			return true
		case a[i] < b[j]:
			i++
		default:
			j++
		}
	}
	return false
}
