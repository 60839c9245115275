package kernel

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/netkvlab/netkvlab/fabric"
)

// confirmations is how many flows the kernel must route as computed before the
// computation is trusted for a route: a wrong one passes with a chance of at most 2^-24.
const confirmations = 24

// foresight knows for which routes multipathHash does what the kernel does. The zero
// value trusts none. It is safe for concurrent use.
type foresight struct {
	mu     sync.Mutex
	agreed map[hashedRoute]int // flows confirmed so far; refuted when the kernel disagreed
}

type hashedRoute struct {
	node  fabric.NodeID
	route int // in Plan.Nodes[node].Routes
}

const refuted = -1

func (s *foresight) get(r hashedRoute) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.agreed[r]
}

// confirm records that the kernel agreed on n more flows. refute records that it disagreed
// on one; that is final, whatever other goroutines confirm meanwhile.
func (s *foresight) confirm(r hashedRoute, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.agreed == nil {
		s.agreed = map[hashedRoute]int{}
	}
	if s.agreed[r] != refuted {
		s.agreed[r] += n
	}
}

func (s *foresight) refute(r hashedRoute) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.agreed == nil {
		s.agreed = map[hashedRoute]int{}
	}
	s.agreed[r] = refuted
}

// foresee is nextPorts for flows of one destination. It computes the answer where that is
// known to equal the kernel's: the first flows over each route are computed and looked up.
func (f *Fabric) foresee(in *fabric.Port, flows []fiveTuple, which []int) ([]int, error) {
	n := &f.plan.Nodes[in.Node]
	at := routeTo(n, flows[which[0]].dst)
	if at < 0 || !f.features.HashSeed {
		return f.nextPorts(in, flows, which)
	}
	key := hashedRoute{in.Node, at}
	known := f.foresight.get(key)
	if known == refuted {
		return f.nextPorts(in, flows, which)
	}
	hops := n.Routes[at].NextHops
	ports := make([]int, len(which))
	for k, i := range which {
		ports[k] = hops[hopOf(multipathHash(n.HashSeed, &flows[i]), len(hops))].Port
	}
	if known >= confirmations {
		return ports, nil
	}
	sample := min(confirmations-known, len(which))
	asked, err := f.nextPorts(in, flows, which[:sample])
	if err != nil {
		return nil, err
	}
	if !slices.Equal(asked, ports[:sample]) {
		f.foresight.refute(key)
		return f.nextPorts(in, flows, which)
	}
	f.foresight.confirm(key, sample)
	return ports, nil
}

// routeTo is the position of the switch's planned route to an address, -1 for none.
func routeTo(n *fabric.Node, dst netip.Addr) int {
	best := -1
	for i := range n.Routes {
		r := &n.Routes[i]
		if r.Table == 0 && r.Dst.Contains(dst) && (best < 0 || r.Dst.Bits() > n.Routes[best].Dst.Bits()) {
			best = i
		}
	}
	return best
}
