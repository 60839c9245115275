package scenarios

import (
	"fmt"
	"slices"
	"strings"
)

// viaProblem says why no packet from one instance to another (indices in pod,
// rack, server order) crosses exactly these switches; "" when one can. Routing
// takes shortest paths only: up to the first switch that is above both hosts,
// and down again over the aggregation switch of the same number.
func (s *Scenario) viaProblem(from, to int, via []string) string {
	for _, name := range via {
		if !switchName.MatchString(name) {
			return fmt.Sprintf("%q is no switch; they are called tor<pod>-<rack>, agg<pod>-<n> and core<agg>-<n>", clip(name))
		}
	}
	if len(via) == 0 || from < 0 || to < 0 {
		return ""
	}
	shape := s.viaShape(from, to)
	if len(shape) == 0 {
		return "the two instances share a server, so that no switch lies between them; drop via"
	}
	agg, core := "A", "C"
	if len(shape) == len(via) && len(via) > 1 {
		agg = numberBelow(via[1], s.Topology.AggsPerPod, agg)
		core = numberBelow(via[len(via)/2], s.Topology.CoresPerAgg, core)
	}
	fill := strings.NewReplacer("A", agg, "C", core)
	if slices.EqualFunc(shape, via, func(want, got string) bool { return fill.Replace(want) == got }) {
		return ""
	}
	msg := fmt.Sprintf("no path crosses [%s]; packets go by [%s]", strings.Join(via, " "), strings.Join(shape, " "))
	if len(shape) > 1 {
		msg += fmt.Sprintf(" with A 0..%d", s.Topology.AggsPerPod-1)
	}
	if len(shape) > 3 {
		msg += fmt.Sprintf(" and C 0..%d", s.Topology.CoresPerAgg-1)
	}
	return msg
}

// viaShape lists the switches between two instances, with A for the aggregation
// switch and C for the core of its group.
func (s *Scenario) viaShape(from, to int) []string {
	t, tp := s.Topology, s.Model.TensorParallel
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
