package fabric

import (
	"fmt"
	"math"

	"github.com/netkvlab/netkvlab/scenarios"
)

// wiring adds links and numbers the ports of each node as it goes.
type wiring struct {
	plan  *Plan
	ports []int // number of ports of a node so far
	kinds map[portKey]int
}

type portKey struct {
	node   NodeID
	prefix string
}

func (w *wiring) port(node NodeID, prefix string) Port {
	key := portKey{node, prefix}
	port := Port{
		Node: node, Link: LinkID(len(w.plan.Links)), Index: w.ports[node],
		Name: fmt.Sprintf("%s%d", prefix, w.kinds[key]),
	}
	w.ports[node]++
	w.kinds[key]++
	return port
}

func (w *wiring) join(tier int, a NodeID, aPrefix string, b NodeID, bPrefix string, r scaledRate) {
	l := Link{ID: LinkID(len(w.plan.Links)), Tier: tier, Rate: r.paper, RateEmulated: r.emulated}
	l.A, l.B = w.port(a, aPrefix), w.port(b, bPrefix)
	l.A.Addr, l.B.Addr = linkAddrs(int(l.ID))
	w.plan.Links = append(w.plan.Links, l)
}

type scaledRate struct{ paper, emulated scenarios.BitsPerSecond }

// minEmulated is one byte per second, the least rate of a token bucket.
const minEmulated = 8

func scaled(field string, r scenarios.BitsPerSecond, s scenarios.Scale) (scaledRate, error) {
	if r <= 0 {
		return scaledRate{}, fmt.Errorf("%s is %d bit/s, want above 0", field, r)
	}
	e := math.Round(float64(r) / s.Rate / s.Time)
	if e < minEmulated {
		return scaledRate{}, fmt.Errorf("%s is %d bit/s, which scale.rate %v and scale.time %v turn into %v bit/s, want at least %d",
			field, r, s.Rate, s.Time, e, minEmulated)
	}
	if e > math.MaxInt64/16 {
		return scaledRate{}, fmt.Errorf("%s is %v bit/s after scaling, which is out of range", field, e)
	}
	return scaledRate{paper: r, emulated: scenarios.BitsPerSecond(e)}, nil
}

// addLinks wires the tree bottom up. Each loop's order is what nicLink,
// rackLink, coreLink and nvLink compute.
func (p *Plan) addLinks(s *scenarios.Scenario) error {
	t := &s.Topology
	nic, err := scaled("topology.nicRate", t.NICRate, p.Scale)
	if err != nil {
		return err
	}
	rackUp, err := scaled("topology.linkRates.rackUplink", t.LinkRates.RackUplink, p.Scale)
	if err != nil {
		return err
	}
	coreUp, err := scaled("topology.linkRates.coreLink", t.LinkRates.CoreLink, p.Scale)
	if err != nil {
		return err
	}
	w := &wiring{plan: p, ports: make([]int, len(p.Nodes)), kinds: map[portKey]int{}}
	w.hosts(nic)
	w.racks(rackUp)
	w.cores(coreUp)
	if !p.dims.nvlinks {
		return nil
	}
	nv, err := scaled("topology.nvlinkRate", t.NVLinkRate, p.Scale)
	if err != nil {
		return err
	}
	w.nvlinks(nv)
	return nil
}

func (w *wiring) hosts(r scaledRate) {
	p, d := w.plan, w.plan.dims
	for rack := range d.pods * d.racks {
		tor := p.tor(rack/d.racks, rack%d.racks)
		for i := range d.perRack() {
			for range d.nics {
				w.join(1, NodeID(rack*d.perRack()+i), "up", tor, "d", r)
			}
		}
		if d.background {
			w.join(1, p.Background[rack], "up", tor, "d", r)
		}
	}
}

func (w *wiring) racks(r scaledRate) {
	p, d := w.plan, w.plan.dims
	for rack := range d.pods * d.racks {
		for a := range d.aggs {
			w.join(2, p.tor(rack/d.racks, rack%d.racks), "up", p.agg(rack/d.racks, a), "d", r)
		}
	}
}

func (w *wiring) cores(r scaledRate) {
	p, d := w.plan, w.plan.dims
	for pod := range d.pods {
		for a := range d.aggs {
			for c := range d.cores {
				w.join(3, p.agg(pod, a), "up", p.core(a, c), "d", r)
			}
		}
	}
}

func (w *wiring) nvlinks(r scaledRate) {
	d := w.plan.dims
	for first := 0; first < d.instances(); first += d.perServer {
		for i := range d.perServer {
			for j := i + 1; j < d.perServer; j++ {
				w.join(0, NodeID(first+i), "nv", NodeID(first+j), "nv", r)
			}
		}
	}
}
