package scenarios

import (
	"fmt"
	"regexp"
	"strings"
)

// switchName is what a flow may name in via: tor, agg or core, with group and number.
var switchName = regexp.MustCompile(`^(tor|agg|core)[0-9]{1,3}-[0-9]{1,3}$`)

func (s *Scenario) checkWorkload(f *faults) {
	w := s.Workload
	sections := []struct {
		kind string
		set  bool
	}{{WorkloadSynthetic, w.Synthetic != nil}, {WorkloadTrace, w.Trace != nil}, {WorkloadFlows, w.Flows != nil}}
	for _, section := range sections {
		path := "workload." + section.kind
		switch {
		case section.set && section.kind != w.Kind:
			f.addf(path, "does not go with kind %s; drop it, or set workload.kind: %s", w.Kind, section.kind)
		case !section.set && section.kind == w.Kind:
			f.addf(path, "is missing, and workload.kind is %s", w.Kind)
		}
	}
	if w.Flows != nil && w.Tenants > 1 {
		f.addf("workload.tenants", "must be 1 with workload flows, for which nobody decides, got %d", w.Tenants)
	}
	if w.Synthetic != nil {
		w.Synthetic.check(f)
	}
	if w.Trace != nil {
		if w.Trace.File == "" {
			f.addf("workload.trace.file", "must name a trace in Mooncake's JSONL format")
		}
		if f.clean("engine") && s.Engine.BlockTokens != traceBlock {
			f.addf("engine.blockTokens", "must be %d with a trace, whose hash ids stand for blocks of that size, got %d", traceBlock, s.Engine.BlockTokens)
		}
	}
	if w.Flows != nil && len(w.Flows.List) == 0 && w.Flows.File == "" {
		f.addf("workload.flows", "has no flow; give a list or a file")
	}
	if w.Flows != nil && len(w.Flows.List) > 0 && w.Flows.File != "" {
		f.addf("workload.flows.file", "does not go with a list; keep one of the two")
	}
}

func (s *Synthetic) check(f *faults) {
	const path = "workload.synthetic"
	if s.Burstiness != 0 && s.Arrivals != "bursty" {
		f.addf(path+".burstiness", "needs arrivals: bursty, got %s", s.Arrivals)
	}
	if s.Burstiness == 0 && s.Arrivals == "bursty" {
		f.addf(path+".burstiness", "must be above 0 with arrivals: bursty")
	}
	s.Prompt.check(f, path+".prompt")
	s.Output.check(f, path+".output")
	if s.Prefix.Share > 0 && s.Prefix.Groups < 1 {
		f.addf(path+".prefix.groups", "must be at least 1 when share is above 0, got %d", s.Prefix.Groups)
	}
}

func (l LengthTokens) check(f *faults, path string) {
	switch {
	case l.Min > l.Max:
		f.addf(path+".min", "must be at most max (%d), got %d", l.Max, l.Min)
	case l.Mean < float64(l.Min) || l.Mean > float64(l.Max):
		f.addf(path+".mean", "must be min..max (%d..%d), got %s", l.Min, l.Max, formatFloat(l.Mean))
	}
}

func (s *Scenario) checkFlows(f *faults) {
	if s.Workload.Flows == nil {
		return
	}
	ends := s.endpoints()
	for i, flow := range s.Workload.Flows.List {
		path := indexPath("workload.flows.list", i)
		for _, problem := range ends.problems(flow) {
			f.addf(path+"."+problem.key, "%s", problem.msg)
		}
	}
}

type flowProblem struct{ key, msg string }

// endpoints are the instances that flows may name.
type endpoints struct {
	*Scenario
	index map[string]int // a file can hold a million flows
	have  string
}

func (s *Scenario) endpoints() endpoints {
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
