package scaling

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

// forwarding is an idle host's part of a round trip over six hops (docs/fidelity.md).
const forwarding = 25 * time.Microsecond

// Changes compares what scaling does not preserve with the unscaled cluster: the packets of a
// transfer of the given payload (paper bytes; 0 means unknown); for a path of the highest tier
// the packets that are in flight and that its narrowest switch port can queue; and the time of
// one packet over it without other traffic. Times are paper units. The unscaled cluster has the
// scenario's latencies, buffers by the same rule, and no bursts.
func Changes(c *trials.Cluster, payload float64) ([]results.ScalingFigure, error) {
	whole, err := c.At(scenarios.Scale{Rate: 1, Time: 1})
	if err != nil {
		return nil, err
	}
	s, p, full := c.Scenario, c.Plan, whole.Plan
	from, to, tier := farthest(p)
	if tier == 0 {
		return []results.ScalingFigure{}, nil
	}
	lat := s.Topology.Latency
	paper := [4]time.Duration{lat.Tier0, lat.Tier1, lat.Tier2, lat.Tier3}[tier]
	emulated := forwarding / 2
	if p.Delayed() {
		emulated += time.Duration(float64(p.Latency[tier]) * p.Scale.Time)
	}
	one, scaled := pathOf(full, from, to, 1), pathOf(p, from, to, 0)
	out := []results.ScalingFigure{}
	add := func(what, unit string, unscaled, now float64) {
		out = append(out, results.ScalingFigure{What: what, Unit: unit, Unscaled: significant(unscaled), Scaled: significant(now)})
	}
	if payload > 0 {
		add("mean transfer", "packets", payload/fabric.SegmentBytes, payload/p.Scale.Rate/fabric.SegmentBytes)
	}
	add(fmt.Sprintf("in flight on a tier %d path", tier), "packets",
		one.narrowest*2*paper.Seconds()/fabric.FrameBytes, scaled.narrowest*2*emulated.Seconds()/fabric.FrameBytes)
	queue := "its narrowest switch queue"
	if p.Fair() {
		queue = "a flow's queue at its narrowest switch port"
	}
	add(queue, "packets", one.queue/fabric.FrameBytes, scaled.queue/fabric.FrameBytes)
	add("that queue's delay when full", "ms", 1e3*one.queue/one.narrowest, 1e3*scaled.queue/scaled.narrowest/p.Scale.Time)
	add("latency of an idle path", "ms", 1e3*(paper.Seconds()+one.serialize), 1e3*(emulated.Seconds()+scaled.serialize)/p.Scale.Time)
	return out, nil
}

// farthest returns a pair of instances whose paths have the highest tier of the fabric.
func farthest(p *fabric.Plan) (from, to fabric.NodeID, tier int) {
	ids := trials.Endpoints(p)
	for _, id := range ids {
		if t := p.Tier(ids[0], id); t > tier {
			from, to, tier = ids[0], id, t
		}
	}
	return from, to, tier
}

// path holds the properties of a path between two instances: bytes per second, bytes, seconds.
type path struct {
	narrowest float64 // of its switch ports
	queue     float64 // of that port
	serialize float64 // of one burst over all hops, one after the other
}

// pathOf describes a path whose bursts have the given number of segments; 0 means the plan's.
func pathOf(p *fabric.Plan, from, to fabric.NodeID, segments int) path {
	out := path{narrowest: math.Inf(1)}
	for _, h := range p.EqualCostPaths(from, to)[0] {
		port := p.Egress(h)
		rate := port.Shape.Rate.BytesPerSecond()
		if segments == 0 {
			segments = max(1, port.GSOMaxSegs) // the first hop is the sender's own
		}
		out.serialize += float64(segments) * fabric.FrameBytes / rate
		if p.Nodes[port.Node].IsSwitch() && rate < out.narrowest {
			out.narrowest, out.queue = rate, float64(port.Shape.LimitBytes)
		}
	}
	return out
}

// significant rounds to three digits, since the figures are not more accurate.
func significant(x float64) float64 {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(x)))-2)
	if unit < 1 { // dividing by a whole number is exact, multiplying by a fraction is not
		inverse := math.Round(1 / unit)
		return math.Round(x*inverse) / inverse
	}
	return math.Round(x/unit) * unit
}

// Sentence describes the changes for a report's notes; "" if there are none.
func Sentence(scale scenarios.Scale, changes []results.ScalingFigure) string {
	if len(changes) == 0 {
		return ""
	}
	plain := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) } // without an exponent
	var all []string
	for _, c := range changes {
		all = append(all, fmt.Sprintf("%s %s %s instead of %s", c.What, plain(c.Scaled), c.Unit, plain(c.Unscaled)))
	}
	at := fmt.Sprintf("S = %g", scale.Rate)
	if scale.Time != 1 {
		at += fmt.Sprintf(", T = %g", scale.Time)
	}
	return fmt.Sprintf("what scaling changes (%s against the unscaled cluster): %s", at, strings.Join(all, "; "))
}
