package scenarios

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// switchName is what a flow may name in via: tor, agg or core, with group and number.
var switchName = regexp.MustCompile(`^(tor|agg|core)[0-9]{1,3}-[0-9]{1,3}$`)

type flowProblem struct{ key, msg string }

// endpoints are the instances that flows may name.
type endpoints struct {
	*Scenario
	index map[string]int // a file can hold a million flows
	have  string
}

func newEndpoints(s *Scenario) endpoints {
	names := s.InstanceNames()
	e := endpoints{Scenario: s, index: make(map[string]int, len(names)), have: ranges(names)}
	for i, name := range names {
		e.index[name] = i
	}
	return e
}

func (e endpoints) unknown(name string) string {
	return fmt.Sprintf("unknown instance %q; this cluster has %s", clip(name), e.have)
}

// find is the index of an instance, -1 for an unknown name.
func (e endpoints) find(name string) int {
	if i, ok := e.index[name]; ok {
		return i
	}
	return -1
}

// problems lists the parts of a flow that this cluster does not have.
func (e endpoints) problems(fl Flow) []flowProblem {
	var list []flowProblem
	from, to := e.find(fl.From), e.find(fl.To)
	if from < 0 {
		list = append(list, flowProblem{"from", e.unknown(fl.From)})
	}
	if to < 0 {
		list = append(list, flowProblem{"to", e.unknown(fl.To)})
	}
	if from >= 0 && from == to {
		return []flowProblem{{"to", fmt.Sprintf("is %s like from; a transfer needs two instances", fl.To)}}
	}
	if msg := e.viaProblem(from, to, fl.Via); msg != "" {
		list = append(list, flowProblem{"via", msg})
	}
	return list
}

// ranges lists the instances of a cluster, role by role: "p0..p7 (prefill), d0..d7 (decode)".
func ranges(names []string) string {
	var list []string
	for _, role := range []string{RolePrefill, RoleDecode, RoleIdle} {
		last := -1
		for _, n := range names {
			if n[:1] == role[:1] {
				last++
			}
		}
		if last >= 0 {
			list = append(list, fmt.Sprintf("%s0..%s%d (%s)", role[:1], role[:1], last, role))
		}
	}
	return strings.Join(list, ", ")
}

// viaProblem says why no packet from one instance to another (indices in pod,
// rack, server order) crosses exactly these switches; "" when one can. Routing
// takes shortest paths only: up to the first switch that is above both hosts,
// and down again over the aggregation switch of the same number.
func (e endpoints) viaProblem(from, to int, via []string) string {
	for _, name := range via {
		if !switchName.MatchString(name) {
			return fmt.Sprintf("%q is no switch; they are called tor<pod>-<rack>, agg<pod>-<n> and core<agg>-<n>", clip(name))
		}
	}
	if len(via) == 0 || from < 0 || to < 0 {
		return ""
	}
	shape := e.viaShape(from, to)
	if len(shape) == 0 {
		return "the two instances share a server, so that no switch lies between them; drop via"
	}
	agg, core := "A", "C"
	if len(shape) == len(via) && len(via) > 1 {
		agg = numberBelow(via[1], e.Topology.AggsPerPod, agg)
		core = numberBelow(via[len(via)/2], e.Topology.CoresPerAgg, core)
	}
	fill := strings.NewReplacer("A", agg, "C", core)
	if slices.EqualFunc(shape, via, func(want, got string) bool { return fill.Replace(want) == got }) {
		return ""
	}
	msg := fmt.Sprintf("no path crosses [%s]; packets go by [%s]", strings.Join(via, " "), strings.Join(shape, " "))
	if len(shape) > 1 {
		msg += fmt.Sprintf(" with A 0..%d", e.Topology.AggsPerPod-1)
	}
	if len(shape) > 3 {
		msg += fmt.Sprintf(" and C 0..%d", e.Topology.CoresPerAgg-1)
	}
	return msg
}

// viaShape lists the switches between two instances, with A for the aggregation
// switch and C for the core of its group.
func (e endpoints) viaShape(from, to int) []string {
	t, tp := e.Topology, e.Model.TensorParallel
	pod := func(i int) int { return i / t.InstancesPerPod(tp) }
	tor := func(i int) string {
		return fmt.Sprintf("tor%d-%d", pod(i), i%t.InstancesPerPod(tp)/t.InstancesPerRack(tp))
	}
	agg := func(i int) string { return fmt.Sprintf("agg%d-A", pod(i)) }
	switch {
	case from/t.InstancesPerServer(tp) == to/t.InstancesPerServer(tp):
		return nil
	case tor(from) == tor(to):
		return []string{tor(from)}
	case pod(from) == pod(to):
		return []string{tor(from), agg(from), tor(to)}
	}
	return []string{tor(from), agg(from), "coreA-C", agg(to), tor(to)}
}

// numberBelow gives the number after the switch name's dash if it is below limit, else none.
func numberBelow(name string, limit int, none string) string {
	for n := range limit {
		if text := fmt.Sprint(n); strings.HasSuffix(name, "-"+text) {
			return text
		}
	}
	return none
}
