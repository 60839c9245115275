package flowsim_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/flowsim"
)

// tree is the fat tree of testdata: racks of two hosts with 100 Gbps, two
// racks per pod, two aggregation switches per pod (50 Gbps from each rack), two cores for each of
// them (25 Gbps from each pod). Only the number of pods varies; 4 pods are testdata's.
type tree struct{ pods int }

const (
	racks, hosts, aggs, cores = 2, 2, 2, 2 // per pod, rack, pod, aggregation switch
	linksPerPod               = 2 * (racks*hosts + racks*aggs + aggs*cores)
)

func (t tree) capacities() []float64 {
	var c []float64
	for range t.pods {
		for range racks * hosts * 2 {
			c = append(c, 100*gbit)
		}
		for range racks * aggs * 2 {
			c = append(c, 50*gbit)
		}
		for range aggs * cores * 2 {
			c = append(c, 25*gbit)
		}
	}
	return c
}

func (t tree) host(pod, host, down int) flowsim.LinkIndex {
	return flowsim.LinkIndex(pod*linksPerPod + 2*host + down)
}

func (t tree) uplink(pod, rack, agg, down int) flowsim.LinkIndex {
	return flowsim.LinkIndex(pod*linksPerPod + 2*(racks*hosts+rack*aggs+agg) + down)
}

func (t tree) core(pod, agg, core, down int) flowsim.LinkIndex {
	return flowsim.LinkIndex(pod*linksPerPod + 2*(racks*hosts+racks*aggs+agg*cores+core) + down)
}

// path draws two different hosts and one of their equal-cost paths.
func (t tree) path(r *rand.Rand) []flowsim.LinkIndex {
	all := t.pods * racks * hosts
	from := r.IntN(all)
	to := (from + 1 + r.IntN(all-1)) % all
	agg, core := r.IntN(aggs), r.IntN(cores)
	const perPod = racks * hosts
	sp, sh, dp, dh := from/perPod, from%perPod, to/perPod, to%perPod
	path := []flowsim.LinkIndex{t.host(sp, sh, 0)}
	if sp != dp || sh/hosts != dh/hosts {
		path = append(path, t.uplink(sp, sh/hosts, agg, 0))
		if sp != dp {
			path = append(path, t.core(sp, agg, core, 0), t.core(dp, agg, core, 1))
		}
		path = append(path, t.uplink(dp, dh/hosts, agg, 1))
	}
	return append(path, t.host(dp, dh, 1))
}

// size is log-normal with a median of 2 GB and so a mean of 2 GB x e^0.5.
func size(r *rand.Rand) float64 { return math.Floor(2e9 * math.Exp(r.NormFloat64())) }

// arrival is a flow and its start in seconds.
type arrival struct {
	at   float64
	flow flowsim.Flow
}

// poisson draws flows of random sizes on random paths, rate of them per second.
func (t tree) poisson(flows int, rate float64) []arrival {
	r := rand.New(rand.NewPCG(1, 12))
	list := make([]arrival, flows)
	now := 0.0
	for i := range list {
		now += r.ExpFloat64() / rate
		list[i] = arrival{at: now, flow: flowsim.Flow{ID: uint64(i), Path: t.path(r), Bytes: size(r)}}
	}
	return list
}

// simulate runs arrivals to the end and reports each completion.
func simulate(tb testing.TB, capacities []float64, list []arrival, done func(flowsim.Completion)) {
	n, err := flowsim.New(capacities, flowsim.Options{})
	require.NoError(tb, err)
	advance := func(to flowsim.Instant) {
		ended, err := n.Advance(to)
		if err != nil {
			tb.Fatal(err)
		}
		for _, c := range ended {
			done(c)
		}
	}
	for i := range list {
		now := flowsim.Seconds(list[i].at)
		advance(now)
		if err := n.Start(now, list[i].flow); err != nil {
			tb.Fatal(err)
		}
	}
	for next, ok := n.Next(); ok; next, ok = n.Next() {
		advance(next)
	}
}
