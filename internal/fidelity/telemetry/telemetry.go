// Package telemetry is the operator's side of the oracle: it turns the counters
// of the emulated ports into per-tier congestion, as a network team would from
// SNMP or sFlow, and into the utilisation time series of links.csv.
//
// It is pure: the caller polls the counters and says when. The transfers' own traffic is
// excluded by DSCP class where the ports count by class; where they do not, all traffic counts
// as congestion.
package telemetry

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/scenarios"
)

// Counters are one port's egress counters since the fabric was made.
type Counters struct {
	// At is when they were read; zero means the time of the poll. Reading hundreds of switches
	// takes some time, and more on a busy host.
	At time.Time
	// Bytes are Ethernet frames as the shaper counts them, all classes.
	Bytes uint64
	// OthersBytes is the part that does not belong to transfers; equal to Bytes where ports do not
	// count by class.
	OthersBytes uint64
	Drops       uint64
	Marks       uint64 // packets marked (ECN) instead of dropped
	Backlog     uint64 // bytes queued now
}

// PortRef is one direction of a link.
type PortRef struct {
	Hop  fabric.Hop
	Name string // "tor0-0>agg0-1"
	Tier int
	Rate scenarios.BitsPerSecond // emulated
	// Shared is false where other traffic cannot slow a transfer: NVLinks, and the access links of
	// hosts that do not serve.
	Shared bool
}

// Row is one line of the link time series.
type Row struct {
	At          time.Duration // paper time
	Since       time.Duration // real time since the previous read of this port
	Port        int           // index into Ports
	Bytes       uint64        // since the first poll
	Utilization float64       // of the emulated rate, since the previous poll
	Drops       uint64        // since the first poll
	Marks       uint64        // since the first poll
	Backlog     uint64        // bytes queued at the poll
}

// Options are the oracle's knobs.
type Options struct {
	Ports []PortRef
	// Separate says that OthersBytes is exact; else congestion counts all bytes.
	Separate bool
	// Ours says that only the transfers' own traffic exists, so that with Separate congestion is
	// zero without counting.
	Ours  bool
	Noise float64 // standard deviation added to each tier's value
	Loss  float64 // probability that a poll is lost
	Seed  uint64
	// Staleness is the paper time from a poll until its sample is seen.
	Staleness time.Duration
}

// Meter compares successive polls.
type Meter struct {
	opt   Options
	base  []Counters
	last  []Counters
	lastT time.Duration // real
	n     uint64
	gauge
}

// New returns a meter before its first poll.
func New(opt Options) *Meter { return &Meter{opt: opt} }

// maxCongestion keeps the values below 1: transfers still progress on a tier that others fill.
const maxCongestion = 0.99

// Poll compares all ports' counters with those of the previous poll. real is since any fixed
// instant. The first poll only sets the base: ok is false.
func (m *Meter) Poll(real, paper time.Duration, now []Counters) (congestion [4]float64, rows []Row, ok bool) {
	defer func() {
		m.last = append(m.last[:0], now...)
		m.lastT = real
	}()
	if m.base == nil {
		m.base = append(m.base, now...)
	}
	if m.last == nil || real <= m.lastT || len(now) != len(m.opt.Ports) {
		return congestion, nil, false
	}
	var sum [4]float64
	var count [4]int
	for i := range now {
		p := &m.opt.Ports[i]
		since := real - m.lastT
		if read := now[i].At.Sub(m.last[i].At); !now[i].At.IsZero() && read > 0 {
			since = read
		}
		capacity := p.Rate.BytesPerSecond() * since.Seconds()
		bytes := now[i].Bytes - m.last[i].Bytes
		rows = append(rows, Row{
			At: paper, Since: since, Port: i, Bytes: now[i].Bytes - m.base[i].Bytes, Utilization: float64(bytes) / capacity,
			Drops: now[i].Drops - m.base[i].Drops, Marks: now[i].Marks - m.base[i].Marks, Backlog: now[i].Backlog,
		})
		if !p.Shared {
			continue
		}
		others := now[i].OthersBytes - m.last[i].OthersBytes
		sum[p.Tier] += float64(others) / capacity
		count[p.Tier]++
	}
	for t := range congestion {
		if count[t] > 0 && (!m.opt.Ours || !m.opt.Separate) {
			congestion[t] = sum[t] / float64(count[t])
		}
	}
	m.n++
	truth := congestion
	congestion, ok = Distort(m.opt.Seed, m.n, m.opt.Noise, m.opt.Loss, congestion)
	if m.opt.Separate {
		m.observe(paper, m.opt.Staleness, truth, congestion, ok)
	}
	return congestion, rows, ok
}

// Distort turns the true values of a poll into the oracle's: noise is added to each tier's
// value, which stays within [0, 0.99], and ok is false for a lost poll. The n-th poll of a seed
// always draws the same.
func Distort(seed, poll uint64, noise, loss float64, truth [4]float64) (said [4]float64, ok bool) {
	h := fnv.New64a()
	_, _ = h.Write([]byte("oracle"))
	draw := rand.New(rand.NewPCG(seed^h.Sum64(), poll))
	lost := draw.Float64() < loss
	for t := range truth {
		said[t] = max(0, min(maxCongestion, truth[t]+noise*draw.NormFloat64()))
	}
	return said, !lost
}

// Ports lists a plan's link directions in link order, A to B before B to A.
func Ports(p *fabric.Plan) []PortRef {
	refs := make([]PortRef, 0, 2*len(p.Links))
	for i := range p.Links {
		l := &p.Links[i]
		shared := l.Tier > 0 && p.Nodes[l.A.Node].Kind != fabric.KindBackground && p.Nodes[l.B.Node].Kind != fabric.KindBackground
		for _, reverse := range []bool{false, true} {
			hop := fabric.Hop{Link: l.ID, Reverse: reverse}
			refs = append(refs, PortRef{Hop: hop, Name: p.LinkName(hop), Tier: l.Tier, Rate: l.RateEmulated, Shared: shared})
		}
	}
	return refs
}

// Accuracy is how well the oracle knew the network, by tier.
type Accuracy struct {
	// Polls is the number of periods that were compared.
	Polls int
	// Truth is the mean share of the links that others used. Error is the mean absolute difference,
	// per period between two polls, of the value that the scheduler had in its middle from the true
	// value over it. It includes staleness, noise, loss and the period itself, but not the time
	// before the first sample, when there is no value.
	Truth, Error [4]float64
}

// Add includes another trial's accuracy: the means are over all polls of both.
func (a *Accuracy) Add(b Accuracy) {
	n := float64(max(1, a.Polls+b.Polls))
	mix := func(x, y float64) float64 { return (x*float64(a.Polls) + y*float64(b.Polls)) / n }
	for t := range a.Truth {
		a.Truth[t], a.Error[t] = mix(a.Truth[t], b.Truth[t]), mix(a.Error[t], b.Error[t])
	}
	a.Polls += b.Polls
}

// gauge compares each period's truth with the sample that was held during it.
type gauge struct {
	polls      int
	truth, err [4]float64 // sums
	last       time.Duration
	held       *sample  // the last that was seen
	told       int      // periods in which the scheduler had any sample
	coming     []sample // polled and not seen yet, by time
}

type sample struct {
	seen time.Duration
	said [4]float64
}

// observe includes a poll; truth is the value over the period that ends with it.
func (g *gauge) observe(at, staleness time.Duration, truth, said [4]float64, ok bool) {
	middle := g.last + (at-g.last)/2
	for len(g.coming) > 0 && g.coming[0].seen <= middle {
		g.held, g.coming = &g.coming[0], g.coming[1:]
	}
	for t := range truth {
		g.truth[t] += truth[t]
		if g.held != nil {
			g.err[t] += math.Abs(g.held.said[t] - truth[t])
		}
	}
	g.polls++
	if g.held != nil {
		g.told++
	}
	g.last = at
	if ok {
		g.coming = append(g.coming, sample{at + staleness, said})
	}
}

// Accuracy compares the samples with the truth; zero where the ports cannot separate other
// traffic from the transfers' own.
func (g *gauge) Accuracy() Accuracy {
	a := Accuracy{Polls: g.polls, Truth: g.truth, Error: g.err}
	for t := range a.Truth {
		a.Truth[t] /= float64(max(1, g.polls))
		a.Error[t] /= float64(max(1, g.told))
	}
	return a
}
