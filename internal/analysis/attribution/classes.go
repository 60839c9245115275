package attribution

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/flowworld"
	"github.com/netkvlab/netkvlab/internal/results"
)

// The classes of a transfer. A transfer is slowed when its replay takes longer than the transfer
// alone would, by more than a thousandth.
//
// A slowed transfer keeps its class whatever path its acknowledgements took: the delays on its
// own links and on the way back cannot be separated. A transfer that is not slowed should take
// its time alone, so any extra time comes from the way back.
const (
	ClassAlone     = "alone"     // met no other, neither on its links nor on its acknowledgements' way back
	ClassUnslowed  = "unslowed"  // shared a link, but not its bottleneck
	ClassAckPath   = "ack-path"  // not slowed, but its acknowledgements met others' data on their way back
	ClassNewcomer  = "newcomer"  // slowed; all transfers that it met started before it
	ClassIncumbent = "incumbent" // slowed; all transfers that it met started after it
	ClassBoth      = "both"      // slowed; met transfers of both kinds
)

// Classes lists the classes in the order of reports.
func Classes() []string {
	return []string{ClassAlone, ClassUnslowed, ClassAckPath, ClassNewcomer, ClassIncumbent, ClassBoth}
}

const (
	// slowedBy is how much longer a slowed transfer takes at least, as a share of its time alone.
	slowedBy = 1e-3
	// The limits for lone transfers, relative to ideal, within which a run can be trusted.
	aloneLimitP50Pct, aloneLimitP99Pct = 1, 10
)

// Transfer is one completed transfer with its class.
type Transfer struct {
	request
	class         string
	packet, fluid float64 // ms
	early         float64 // ms that it can gain over the fluid by the ports' bursts
	tier, streams int
	backUnknown   bool
}

// offIdeal is the transfer's time divided by the ideal. Time gained by the bursts of its ports
// counts as ideal, since a fluid has no token bucket.
func (t *Transfer) offIdeal() float64 {
	return max(t.packet, min(t.packet+t.early, t.fluid)) / t.fluid
}

// Classify gives each completed transfer its class. packet and replay are the two worlds' records
// of the same trials; flow configures the fluid network of a seed.
func Classify(ctx context.Context, flow func(seed uint64) flowworld.Config, packet, replay []results.Record) ([]Transfer, error) {
	fluid := split(replay)
	var all []Transfer
	for i, t := range split(packet) {
		if i >= len(fluid) || !sameTrial(&t, &fluid[i]) {
			return nil, fmt.Errorf("%s, seed %d: its replay has other requests", t.policy, t.seed)
		}
		rows, err := classify(ctx, flow(t.seed), t.records, fluid[i].records)
		if err != nil {
			return nil, fmt.Errorf("classify transfers: %w", err)
		}
		all = append(all, rows...)
	}
	return all, nil
}

// Transport describes how packets changed the transfers of a run: one row per policy and class
// that has transfers, and rows for all policies together.
func Transport(policies []string, all []Transfer, packet []results.Record) []results.TransportClass {
	completed := map[string]int{}
	for i := range packet {
		if packet[i].Status == results.Completed {
			completed[packet[i].Policy]++
			completed[results.AllPolicies]++
		}
	}
	type group struct{ policy, class string }
	ratios, excess := map[group][]float64{}, map[group]float64{}
	for i := range all {
		t := &all[i]
		for _, g := range []group{{t.policy, t.class}, {results.AllPolicies, t.class}} {
			ratios[g] = append(ratios[g], t.packet/t.fluid)
			excess[g] += t.packet - t.fluid
		}
	}
	out := []results.TransportClass{}
	for _, p := range append(slices.Clone(policies), results.AllPolicies) {
		for _, c := range Classes() {
			g := group{p, c}
			if r := ratios[g]; r != nil {
				slices.Sort(r)
				out = append(out, results.TransportClass{
					Policy: p, Class: c, N: len(r), P50: analysis.Percentile(r, 50), P90: analysis.Percentile(r, 90),
					ExcessMS: excess[g] / float64(completed[p]),
				})
			}
		}
	}
	return out
}

func sameTrial(a, b *trial) bool {
	return a.policy == b.policy && a.seed == b.seed &&
		slices.EqualFunc(a.records, b.records, func(x, y results.Record) bool { return x.ID == y.ID })
}

// classify gives each completed transfer of a trial its class. Records are sorted by request.
func classify(ctx context.Context, cfg flowworld.Config, packet, replay []results.Record) ([]Transfer, error) {
	ideal, err := flowworld.Replay(ctx, cfg, apart(replay))
	if err != nil {
		return nil, err
	}
	meets := meetings(packet, replay)
	var out []Transfer
	for i := range packet {
		if !moved(&packet[i]) || !moved(&replay[i]) {
			continue
		}
		out = append(out, Transfer{
			request: requestOf(&packet[i]), class: classOf(meets[i], replay[i].TransferMS, ideal[i].TransferMS),
			packet: packet[i].TransferMS, fluid: replay[i].TransferMS, early: early(cfg.Plan, &packet[i]),
			tier: packet[i].Tier, streams: len(packet[i].Streams), backUnknown: backUnknown(&packet[i]),
		})
	}
	return out, nil
}

// early is the longest time, in paper ms, that the burst of a port on the transfer's
// paths would take at the port's rate.
func early(p *fabric.Plan, r *results.Record) float64 {
	from, ok := p.Lookup(r.Prefill)
	to, ok2 := p.Lookup(r.Decode)
	if !ok || !ok2 {
		return 0
	}
	longest := 0.0
	for _, s := range r.Streams {
		paths := p.NICPaths(from, to, s.NIC, s.NIC)
		if s.Slot < 0 || s.Slot >= len(paths) {
			continue
		}
		for _, h := range paths[s.Slot] {
			shape := &p.Egress(h).Shape
			longest = max(longest, float64(shape.BurstBytes)/shape.Rate.BytesPerSecond())
		}
	}
	return 1000 * longest / p.Scale.Time
}

func classOf(m met, fluid, alone float64) string {
	met := m.earlier || m.later
	slowed := met && fluid > alone*(1+slowedBy)
	switch {
	case slowed && m.earlier && m.later:
		return ClassBoth
	case slowed && m.earlier:
		return ClassNewcomer
	case slowed:
		return ClassIncumbent
	case m.back:
		return ClassAckPath
	case met:
		return ClassUnslowed
	}
	return ClassAlone
}

// apart moves the transfers so far from each other that none meets another. In a replay each
// then takes its time alone.
func apart(records []results.Record) []results.Record {
	const room = 1000 // ms, beyond twice the time that the transfer took with others
	out := slices.Clone(records)
	at := 0.0
	for i := range out {
		r := &out[i]
		took := r.TransferEndMS() - r.TransferStartMS
		// A transfer that overlaps its prefill depends on the prefill's progress, so both are moved.
		r.ArrivalMS, r.TransferStartMS = r.ArrivalMS+at-r.TransferStartMS, at
		at += 2*took + room
	}
	return out
}

// CheckAlone compares the transfers that met no other with ideal; nil when there is none.
func CheckAlone(all []Transfer) *results.AloneCheck {
	c := &results.AloneCheck{LimitP50Pct: aloneLimitP50Pct, LimitP99Pct: aloneLimitP99Pct, Tiers: map[string]results.AloneFigures{}}
	var ratios []float64
	byTier := map[int][]float64{}
	for i := range all {
		if t := &all[i]; t.class == ClassAlone {
			ratios = append(ratios, t.offIdeal())
			byTier[t.tier] = append(byTier[t.tier], t.offIdeal())
			c.Streams = max(c.Streams, t.streams)
			if t.backUnknown {
				c.BackUnknown++
			}
		}
	}
	if len(ratios) == 0 {
		return nil
	}
	c.AloneFigures = offIdeal(ratios)
	for tier, r := range byTier {
		c.Tiers[strconv.Itoa(tier)] = offIdeal(r)
	}
	c.Within = c.P50Pct <= c.LimitP50Pct && c.P99Pct <= c.LimitP99Pct
	return c
}

// offIdeal summarises ratios, each of which should be 1. It sorts them.
func offIdeal(ratios []float64) results.AloneFigures {
	off := make([]float64, len(ratios))
	for i, r := range ratios {
		off[i] = 100 * math.Abs(r-1)
	}
	slices.Sort(ratios)
	slices.Sort(off)
	return results.AloneFigures{
		N: len(ratios), P50Pct: 100 * math.Abs(analysis.Percentile(ratios, 50)-1), P99Pct: analysis.Percentile(off, 99),
	}
}

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
	there := func(s *results.StreamRecord) []string { return s.Path }
	back := func(s *results.StreamRecord) []string { return s.BackPath }
	spans := make([]span, 0, len(packet))
	for i := range packet {
		p := &packet[i]
		if moved(p) {
			end := max(p.TransferEndMS(), replay[i].TransferEndMS())
			spans = append(spans, span{i, p.TransferStartMS, end, names.of(p, there), names.of(p, back)})
		}
	}
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	var active []*span
	for i := range spans {
		x := &spans[i]
		active = slices.DeleteFunc(active, func(y *span) bool { return y.end <= x.start })
		for _, y := range active {
			if share(x.links, y.links) {
				out[x.row].earlier, out[y.row].later = true, true
			}
			out[x.row].back = out[x.row].back || share(x.back, y.links)
			out[y.row].back = out[y.row].back || share(y.back, x.links)
		}
		active = append(active, x)
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
	return slices.ContainsFunc(a, func(x int) bool { _, found := slices.BinarySearch(b, x); return found })
}
